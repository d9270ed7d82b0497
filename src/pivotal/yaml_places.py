"""YAML with the line and column of every value, so that messages can name the place of a mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, cast

import yaml

from pivotal.errors import PivotalError, did_you_mean, nearest

_DEEPEST = 50
"""The most levels of nesting. The parser in C crashes at some ten thousand."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C is several times faster, but PyYAML can be built without it."""


@dataclass(frozen=True)
class Place:
    """A value of a YAML file and its place, which is printed as `FILE, line N, column M`. Access to it checks types.

    All values are read as text: `no`, `1912` and `null` are words.
    """

    source: str
    node: yaml.Node | None
    name: str
    """What messages call the value."""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}, column {self.column}" if self.line else self.source

    def within(self, *keys: str | int) -> Place:
        """A part of this value, or the smallest part around it that exists."""
        for key in keys[:1]:
            part = next((part for name, part in self._parts() if name == key), None)
            return self if part is None else part.within(*keys[1:])
        return self

    # -- errors

    def error(self, message: str) -> PivotalError:
        return PivotalError(f"{self}: {message}")

    def require(self, holds: object, message: str) -> None:
        if not holds:
            raise self.error(message)

    def require_known(self, name: str, known: Collection[str], rule: str) -> None:
        """Require that a name is one of the known ones. The rule begins the message."""
        if name not in known:
            raise self.error(f"{rule}, not '{name}'.{did_you_mean(name, known)}")

    # -- values

    @property
    def is_text(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def text(self, example: str = "") -> str:
        """The value as text with single spaces, not empty."""
        self._require_kind(yaml.ScalarNode, "text", example)
        return " ".join(cast(str, cast(yaml.Node, self.node).value).split())

    def plain(self) -> Any:
        """A text as it is, the items of a list, or the entries of a mapping; all of them are texts."""
        if self.is_mapping:
            return {key: part.plain() for key, part in self._parts()}
        if self.is_text:
            return cast(yaml.Node, self.node).value
        return [part.plain() for _, part in self._parts()]

    def positive_number(self) -> int:
        text = self.text("100")
        self.require(
            text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0,
            f"{self.name} is a whole number of at least 1, not '{text}'.",
        )
        return int(text)

    def items(self, example: str = "") -> list[Place]:
        """The items of a list that is not empty."""
        self._require_kind(yaml.SequenceNode, "a list", example)
        return [part for _, part in self._parts()]

    def texts(self, example: str) -> list[Place]:
        """The items of a list, or the value itself if it is a single text."""
        return [self] if self.is_text else self.items(example)

    def entries(self, example: str = "") -> dict[str, Place]:
        """The entries of a mapping that is not empty. The place of an entry is that of its key."""
        self._require_kind(yaml.MappingNode, "a mapping", example)
        return {" ".join(cast(str, key).split()): part for key, part in self._parts()}

    def fields(self, known: Collection[str], required: Collection[str] = ()) -> dict[str, Place]:
        """The entries of a mapping whose keys are known."""
        found = self.entries()
        for key, part in found.items():
            if key not in known:
                quotes = " Put a text with braces or colons in quotes."
                raise part.error(f"there is no key '{key}' in {self.name}.{did_you_mean(key, known)}{quotes}")
        for key in required:
            near = nearest(key, found)
            guess = f" It has '{near}': did you mean '{key}'?" if near else ""
            self.require(key in found, f"{self.name} needs the key '{key}'.{guess}")
        return found

    def _parts(self) -> Iterator[tuple[str | int, Place]]:
        if self.is_mapping:
            for key, value in cast(yaml.MappingNode, self.node).value:
                yield key.value, self._part(key, value, f"'{key.value}'")
        elif isinstance(self.node, yaml.SequenceNode):
            for i, item in enumerate(self.node.value):
                yield i, self._part(item, item, f"item {i + 1} of {self.name}")

    def _part(self, marked: yaml.Node, value: yaml.Node, name: str) -> Place:
        return Place(self.source, value, name, marked.start_mark.line + 1, marked.start_mark.column + 1)

    def _require_kind(self, kind: type[yaml.Node], called: str, example: str) -> None:
        such_as = f" Example: {example}." if example else ""
        if kind is yaml.ScalarNode and self.is_mapping:
            such_as = " Put a text with braces or colons in quotes."
        kinds = {yaml.ScalarNode: "text", yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}
        value = getattr(self.node, "value", "")
        empty = not value.strip() if isinstance(value, str) else not value
        self.require(not empty, f"{self.name} is {called}, but it is empty.{such_as}")
        self.require(
            isinstance(self.node, kind), f"{self.name} is {called}, not {kinds[type(self.node)]}.{such_as}"
        )


def compose(text: str, source: str, what: str, cure: str = "") -> Place:
    """The whole of a YAML text. `what` names such a file in messages, and `cure` is what they advise if the text is not
    YAML."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise PivotalError(f"{_at(source, event.start_mark)}: {what} is nested too deeply.")
            # A few lines of aliases of aliases can mean billions of values.
            if isinstance(event, yaml.AliasEvent):
                at = _at(source, event.start_mark)
                raise PivotalError(f"{at}: {what} has no aliases. Write the value out.")
        root = yaml.compose(text, Loader=_LOADER)
    except ValueError:  # half of a surrogate pair
        raise PivotalError(f"{source}: {what} is text, but it holds half of a surrogate pair.") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        raise PivotalError(
            f"{source}, line {line}, column {column}: {what} is YAML, but this is a character that YAML does not allow."
        ) from None
    except yaml.MarkedYAMLError as error:
        at = _at(source, error.problem_mark or error.context_mark)
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise PivotalError(f"{at}: {what} is YAML, but this is not ({reason}).{cure}") from None
    if root is not None:
        _check(root, source)
    return Place(source, root, what)


def _check(root: yaml.Node, source: str) -> None:
    """Raise PivotalError for keys that are not text or occur twice."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                at = _at(source, key.start_mark)
                if not isinstance(key, yaml.ScalarNode):
                    raise PivotalError(f"{at}: a key is text, not a list or a mapping.")
                name = " ".join(key.value.split())
                if name in lines:  # YAML would silently take the last one
                    raise PivotalError(f"{at}: '{name}' is also in line {lines[name]}. Remove one.")
                lines[name] = key.start_mark.line + 1
                waiting.append(value)


def _at(source: str, mark: Any) -> str:
    return source if mark is None else f"{source}, line {mark.line + 1}, column {mark.column + 1}"
