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
        content = yaml.safe_load(text)
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
