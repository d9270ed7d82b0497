"""Reads YAML with the line and column of every value, so that messages can name the place of a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError

Path = tuple["str | int", ...]
Mark = tuple[int, int]

_DEEPEST = 50
"""The most levels of nesting. The parser in C crashes at some ten thousand."""
_MOST_VALUES = 1_000_000
"""The most values. An alias counts with all that it stands for: a few lines of aliases of aliases can mean billions."""


@dataclass(frozen=True)
class Place:
    """A part of a file: printed as `FILE, line N, column M`."""

    source: str
    marks: Mapping[Path, Mark]
    path: Path = ()

    def within(self, *keys: str | int) -> Place:
        return Place(self.source, self.marks, (*self.path, *keys))

    @property
    def line(self) -> int:
        """The line of this part, or of the smallest part around it that is known; 0 if none is."""
        return self._mark()[0]

    def __str__(self) -> str:
        line, column = self._mark()
        return f"{self.source}, line {line}, column {column}" if line else self.source

    def _mark(self) -> Mark:
        parts = (self.path[:n] for n in range(len(self.path), 0, -1))
        return next((self.marks[part] for part in parts if part in self.marks), (0, 0))


def parse(
    text: str, source: str, what: str = "a recipe", *, all_text: bool = False, cure: str = ""
) -> tuple[Any, Place]:
    """The content of a YAML text, and the place of each part. `what` names such a file in messages, and `cure` is what
    they advise if the text is not YAML.

    With `all_text`, every value is text: `no`, `1912` and `null` are words.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise PivotalError(
            f"{what.capitalize()} is read with PyYAML, which is not installed: pip install pyyaml."
        ) from None
    try:
        # The loader in C is several times faster, but PyYAML can be built without it.
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        walk = _Walk(events, source, what)
        content = walk.document()
        if not all_text:
            content = yaml.safe_load(text)
    except ValueError as error:  # such as a number of thousands of digits, or the 99th of a month
        raise PivotalError(f"{source}: a value cannot be read ({str(error).splitlines()[0]}).") from None
    except yaml.YAMLError as error:
        raise PivotalError(
            f"{source}{_mark_of(error, text)}: {what} is YAML, but this is not ({_reason(error)}).{cure}"
        ) from None
    return content, Place(source, walk.marks)


class _Walk:
    """A walk through the parser's events. It collects the content, as text, and the place of each part."""

    def __init__(self, events: Iterator[Any], source: str, what: str) -> None:
        self.marks: dict[Path, Mark] = {}
        self._events, self._source, self._what = events, source, what
        self._anchors: dict[str, tuple[Any, int]] = {}
        """The content of each anchor, and the number of its values."""
        self._count = 0

    def document(self) -> Any:
        """The content of the one document, or None if the file is empty."""
        content, documents = None, 0
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                if documents:
                    raise self._error(event, f"{self._what} is one YAML document, but here begins a second.")
                documents += 1
                content = self._value(next(self._events), ())
        return content

    def _value(self, event: Any, path: Path) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":  # its parts have the places of its anchor
            if event.anchor not in self._anchors:
                raise self._error(event, f"there is no '&{event.anchor}' before this '*{event.anchor}'.")
            content, values = self._anchors[event.anchor]
            self._add(event, values)
            return content
        before = self._count
        self._add(event, 1)
        if len(path) > _DEEPEST:
            raise self._error(event, f"{self._what} is nested too deeply.")
        if kind == "ScalarEvent":
            content = event.value
        elif kind == "SequenceStartEvent":
            content = self._sequence(path)
        else:
            content = self._mapping(path)
        if event.anchor:
            self._anchors[event.anchor] = content, self._count - before
        return content

    def _add(self, event: Any, values: int) -> None:
        self._count += values
        if self._count > _MOST_VALUES:
            raise self._error(
                event,
                f"{self._what} has at most {_MOST_VALUES:,} values, but this one has {self._count:,} or more.",
            )

    def _sequence(self, path: Path) -> list[Any]:
        content: list[Any] = []
        while not _ends(event := next(self._events)):
            here = (*path, len(content))
            self.marks[here] = _mark(event)
            content.append(self._value(event, here))
        return content

    def _mapping(self, path: Path) -> dict[str, Any]:
        content: dict[str, Any] = {}
        while not _ends(event := next(self._events)):
            key = self._value(event, (*path, "?"))
            if not isinstance(key, str):
                raise self._error(event, "a key is text, not a list or a mapping.")
            here = (*path, key)
            if key in content:  # YAML would silently take the last one
                first = self.marks[here][0]
                raise self._error(event, f"'{key}' occurs twice; the first is in line {first}. Remove one.")
            self.marks[here] = _mark(event)
            content[key] = self._value(next(self._events), here)
        return content

    def _error(self, event: Any, said: str) -> PivotalError:
        line, column = _mark(event)
        return PivotalError(f"{self._source}, line {line}, column {column}: {said}")


def _ends(event: Any) -> bool:
    return type(event).__name__ in ("SequenceEndEvent", "MappingEndEvent")


def _mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _mark_of(error: Exception, text: str) -> str:
    """Where the parser stopped, for a message."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f", line {mark.line + 1}, column {mark.column + 1}"
    position = getattr(error, "position", None)
    if isinstance(position, int):  # a character that YAML does not allow
        before = text[:position]
        return f", line {before.count(chr(10)) + 1}, column {position - before.rfind(chr(10))}"
    return ""


def _reason(error: Exception) -> str:
    if isinstance(getattr(error, "position", None), int):
        return "it holds a character that YAML does not allow"
    return getattr(error, "problem", None) or str(error).splitlines()[0]
