"""Reads YAML with the line of every value, so that messages can name the line of a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError

Path = tuple["str | int", ...]


@dataclass(frozen=True)
class Place:
    """A part of a file: printed as `FILE, line N`."""

    source: str
    lines: Mapping[Path, int]
    path: Path = ()

    def within(self, *keys: str | int) -> Place:
        return Place(self.source, self.lines, (*self.path, *keys))

    def __str__(self) -> str:
        known = next((p for n in range(len(self.path), 0, -1) if (p := self.path[:n]) in self.lines), None)
        return f"{self.source}, line {self.lines[known]}" if known else self.source


_MOST_VALUES, _DEEPEST = 100_000, 50
_TOO_DEEP = (
    "a recipe is flat, but the values of this one are nested too deeply, or an anchor contains itself."
)


def _check_size(tree: Any, source: str) -> None:
    """PivotalError if the values are nested too deeply or too many. An alias counts with all that it stands for: a few
    lines of aliases of aliases can mean billions of values."""
    sizes: dict[int, int] = {}

    def size(node: Any, depth: int) -> int:
        if depth > _DEEPEST:  # an anchor that contains itself ends here as well
            raise PivotalError(f"{source}: {_TOO_DEEP}")
        if id(node) not in sizes:
            parts = node.value if isinstance(getattr(node, "value", None), list) else []
            inner = [n for part in parts for n in (part if isinstance(part, tuple) else (part,))]
            sizes[id(node)] = 1 + sum(size(n, depth + 1) for n in inner)
        return sizes[id(node)]

    if (values := size(tree, 0)) > _MOST_VALUES:
        raise PivotalError(
            f"{source}: a recipe has at most {_MOST_VALUES:,} values, but this one has {values:,}."
        )


def parse(text: str, source: str) -> tuple[Any, Place]:
    """The content of a YAML text, and the line of each part."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise PivotalError(
            "A recipe is read with PyYAML, which is not installed: pip install pyyaml."
        ) from None
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        _check_size(tree, source)
        content = yaml.safe_load(text)
    except RecursionError:
        raise PivotalError(f"{source}: {_TOO_DEEP}") from None
    except ValueError as error:  # such as a number of thousands of digits, or the 99th of a month
        raise PivotalError(f"{source}: a value cannot be read ({error}).") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark else source
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise PivotalError(f"{where}: a recipe is YAML, but this is not ({reason}).") from None
    lines: dict[Path, int] = {}
    visited: set[int] = set()

    def visit(node: yaml.Node, path: Path) -> None:
        if id(node) in visited:  # an alias: its lines are those of its anchor
            return
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = (*path, key.value)
                if here in lines:  # YAML would silently take the last one
                    raise PivotalError(
                        f"{source}, line {key.start_mark.line + 1}: '{key.value}' is there twice; the first is in line "
                        f"{lines[here]}. Remove one."
                    )
                lines[here] = key.start_mark.line + 1
                visit(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                lines[(*path, i)] = item.start_mark.line + 1
                visit(item, (*path, i))

    if tree is not None:
        visit(tree, ())
    return content, Place(source, lines)
