"""The settings of a plugin: the fields of its frozen dataclass as options of the command line and of recipes."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from pivotal.errors import PivotalError, did_you_mean

T = TypeVar("T")

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SIMPLE = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "none"}


@dataclass(frozen=True)
class Option:
    """A field of a plugin's dataclass."""

    name: str
    type: Any
    default: Any
    help: str
    required: bool = False

    @property
    def allowed(self) -> str:
        """A description of the values that the option takes."""
        return _describe(self.type)


@functools.cache
def options_of(cls: type) -> tuple[Option, ...]:
    """The fields of a dataclass with their types and defaults. The string under a field is its help."""
    if not dataclasses.is_dataclass(cls):
        return ()
    types, helps = get_type_hints(cls), field_docs(cls)
    options = []
    for field in filter(lambda field: field.init, dataclasses.fields(cls)):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        required, text = default is dataclasses.MISSING, helps.get(field.name, "")
        default = None if required else default
        options.append(Option(field.name, types[field.name], default, text, required))
    return tuple(options)


def stored_settings(plugin: object) -> dict[str, Any]:
    """The settings that decide what a plugin does, to be stored and compared."""
    if not dataclasses.is_dataclass(plugin) or isinstance(plugin, type):
        return {}
    return dataclasses.asdict(plugin)


def build(cls: type[T], values: Mapping[str, object], title: str = "") -> T:
    """Build an instance from strings, as on a command line, or from typed values, as in YAML. Messages call it
    `title`, by default by its name."""
    title = title or f"'{getattr(cls, 'name', cls.__name__)}'"
    plugin: type = cls
    options = {option.name: option for option in options_of(plugin)}
    settings: dict[str, object] = {}
    for given, value in values.items():
        name = given.replace("-", "_")
        if name not in options:
            raise PivotalError(f"{title} has no option '{given}'.{did_you_mean(name, options)}", given)
        try:
            settings[name] = _convert(of_python(value), options[name].type)
        except ValueError:
            choices = _choices(options[name].type) if isinstance(value, str) else ()
            hint = did_you_mean(value, map(str, choices)) if choices else ""
            raise PivotalError(
                f"Option '{given}' of {title} takes {options[name].allowed}, not '{value}'.{hint}", given
            ) from None
    for name, option in options.items():
        if option.required and name not in settings:
            raise PivotalError(f"{title} needs the option '{name}': {option.allowed}.", name)
    return cls(**settings)


def check_least(settings: object, **least: int) -> None:
    """PivotalError if a field is smaller than the number given for it."""
    for name, number in least.items():
        if (value := getattr(settings, name)) is not None and value < number:
            raise PivotalError(f"{name} must be {number} or more, but it is {value:g}.", name)


def check_types(settings: Any, but: Collection[str] = ()) -> None:
    """PivotalError if a field holds something that its type does not allow; for settings made in Python, where a number
    of numpy becomes one of Python. `but` are fields that may hold anything."""
    cls: type = type(settings)
    for option in options_of(cls):
        value = of_python(getattr(settings, option.name))
        object.__setattr__(settings, option.name, value)
        try:
            msgspec.convert(value, Any if option.name in but else option.type)
        except msgspec.ValidationError:
            choices = _choices(option.type)
            hint = did_you_mean(value, map(str, choices)) if choices else f" It takes {option.allowed}."
            said = f"{option.name} cannot be {str(value)[:60]!r}.{hint}"
            raise PivotalError(said, option.name) from None


def of_python(value: Any) -> Any:
    """The value. A number of numpy or torch becomes one of Python."""
    return value.item() if getattr(value, "shape", None) == () else value


def _choices(kind: Any) -> tuple[object, ...]:
    """The values of a type that is a Literal, or a Literal or None."""
    return next((get_args(part) for part in _parts(kind) if get_origin(part) is Literal), ())


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def preset_of(cls: type, preset: str | None) -> dict[str, Any]:
    """The options of a preset of the plugin; none if `preset` is None."""
    presets: Mapping[str, Mapping[str, Any]] = getattr(cls, "presets", {})
    if preset is not None and preset not in presets:
        title = getattr(cls, "name", cls.__name__)
        raise PivotalError(f"'{title}' has no preset '{preset}'.{did_you_mean(preset, presets)}")
    return {} if preset is None else dict(presets[preset])


def field_docs(cls: type) -> dict[str, str]:
    """The string literals under the fields, in the source of the class and its bases."""
    helps: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        definition = _definitions(ancestor.__module__, "." in ancestor.__qualname__).get(ancestor.__name__)
        if definition is None:
            continue  # no source, as in an interactive session: the option has no help
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                helps[field.target.id] = " ".join(below.value.value.split())
    return helps


@functools.cache  # reading a source takes long, and every command reads the options of all verbs
def _definitions(module: str, nested: bool) -> dict[str, ast.ClassDef]:
    """The classes that the source of a module defines, by name; with `nested`, also inside of functions and classes."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError, SyntaxError):
        return {}
    return {
        node.name: node
        for node in (ast.walk(tree) if nested else tree.body)
        if isinstance(node, ast.ClassDef)
    }


def _describe(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if len(parts := _parts(kind)) > 1:
        return " or ".join(map(_describe, parts))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"a list, separated by commas, each {_describe(arguments[0])}"
    if origin is tuple:
        return f"{len(arguments)} values, separated by commas: " + ", ".join(map(_describe, arguments))
    return _SIMPLE.get(kind, str(kind))


def _convert(value: object, kind: Any) -> object:
    """Convert text as on a command line, or a typed value as in YAML, to `kind`. ValueError if that is impossible."""
    parts = _parts(kind)
    if isinstance(value, str):
        word = value.strip().lower()
        if NoneType in parts and (word in ("none", "null") or (not word and str not in parts)):
            return None
        if any(get_origin(part) is tuple for part in parts):
            value = [item.strip() for item in value.split(",")] if word else []
        elif bool in parts:
            value = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(word, value)
    if type(value) is not bool and bool in parts and len(parts) == 1:
        raise ValueError
    try:
        converted = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        raise ValueError from None
    if converted != converted:  # not a number
        raise ValueError
    return converted
