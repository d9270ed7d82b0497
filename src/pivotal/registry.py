"""Plugin discovery: classes in the modules of a folder, and entry points of other distributions."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Generic, TypeVar

from pivotal.errors import PivotalError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """The concrete subclasses of `base` by their `name`. They are discovered on first use.

    `kind` is the plural that users see, such as "phenomena". The group of the entry points is `pivotal.<kind>`.
    """

    def __init__(self, kind: str, package: str, base: type[T]) -> None:
        self.kind = kind
        self._package = package
        self._base = base
        self._found: dict[str, type[T]] | None = None
        # A broken plugin of another package must not break the built-in ones.
        self._broken: dict[str, str] = {}

    def names(self) -> list[str]:
        """The names in alphabetical order."""
        return sorted(self._classes())

    def items(self) -> list[tuple[str, type[T]]]:
        """The names with their classes."""
        return sorted(self._classes().items())

    def get(self, name: str) -> type[T]:
        """The class of that name. Raises PivotalError if there is none."""
        classes = self._classes()
        if name in classes:
            return classes[name]
        if name in self._broken:
            raise PivotalError(
                f"The plugin '{name}' of {self.kind} cannot be loaded ({self._broken[name]}). Update or uninstall it."
            )
        # Users may know a library that only the summary names, such as llama.cpp.
        told = [one for one in classes if name.lower() in getattr(classes[one], "summary", "").lower()]
        meant = told[0] if len(told) == 1 and len(name) > 3 else name
        raise PivotalError(f"There are no {self.kind} named '{name}'.{did_you_mean(meant, classes)}")

    def __contains__(self, name: str) -> bool:
        return name in self._classes()

    def _classes(self) -> dict[str, type[T]]:
        if self._found is None:
            found: dict[str, type[T]] = {}
            for cls in [*self._built_in(), *self._entry_points()]:
                name = vars(cls)["name"]
                if found.setdefault(name, cls) is not cls:
                    both = f"{_full_name(found[name])} and {_full_name(cls)}"
                    raise PivotalError(f"Two {self.kind} are named '{name}': {both}. Rename one.")
            self._found = found
        return self._found

    def _built_in(self) -> Iterator[type[T]]:
        package = importlib.import_module(self._package)
        for info in pkgutil.iter_modules(package.__path__):
            yield from self._plugins_in(importlib.import_module(f"{self._package}.{info.name}"))

    def _entry_points(self) -> Iterator[type[T]]:
        for point in importlib.metadata.entry_points(group=f"pivotal.{self.kind}"):
            try:
                target = point.load()
            except Exception as error:
                self._broken[point.name] = f"{type(error).__name__}: {error}"
                continue
            if inspect.ismodule(target):
                yield from self._plugins_in(target)
            elif self._is_plugin(target):
                yield target
            else:
                self._broken[point.name] = f"{point.value} is not a named subclass of {self._base.__name__}"

    def _plugins_in(self, module: ModuleType) -> Iterator[type[T]]:
        for value in list(vars(module).values()):
            if self._is_plugin(value) and f"{value.__module__}.".startswith(f"{module.__name__}."):
                yield value

    def _is_plugin(self, value: object) -> bool:
        return (
            inspect.isclass(value)
            and issubclass(value, self._base)
            and not inspect.isabstract(value)
            and isinstance(vars(value).get("name"), str)
        )


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
