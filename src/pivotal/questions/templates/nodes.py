"""Values of a YAML file with their places: access that checks the type and names the place of a mistake."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.minimal_pair import clean_text
from pivotal.yaml_places import Place


@dataclass(frozen=True)
class Node:
    """A value, its place, and what messages call it."""

    value: Any
    place: Place
    name: str

    def error(self, said: str) -> PivotalError:
        return PivotalError(f"{self.place}: {said}")

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    def unbraced(self) -> Node:
        """The node of a slot's name. YAML reads {noun} without quotes as a mapping with the key noun."""
        if self.is_mapping and list(self.value.values()) == [""]:
            return Node(next(iter(self.value)), self.place, self.name)
        return self

    def text(self, example: str = "") -> str:
        """The value as text with single spaces, not empty."""
        if not self.is_text:
            raise self.error(f"{self.name} is text, not {self._kind()}.{_such_as(example)}")
        text = self._clean(self.value)
        if not text:
            raise self.error(f"{self.name} is empty.{_such_as(example)}")
        return text

    def whole(self, least: int) -> int:
        """The value as a whole number."""
        text = self.text(str(max(least, 100)))
        if not (text.isascii() and text.isdigit() and len(text) < 10) or int(text) < least:
            raise self.error(f"{self.name} is a whole number of at least {least}, not '{text}'.")
        return int(text)

    def items(self, example: str = "") -> list[Node]:
        """The items of a list that is not empty."""
        if not isinstance(self.value, list):
            raise self.error(f"{self.name} is a list, not {self._kind()}.{_such_as(example)}")
        if not self.value:
            raise self.error(f"{self.name} is an empty list.{_such_as(example)}")
        return [
            Node(item, self.place.within(i), f"item {i + 1} of {self.name}")
            for i, item in enumerate(self.value)
        ]

    def entries(self, example: str = "") -> dict[str, Node]:
        """The entries of a mapping that is not empty. Keys are clean text."""
        if not self.is_mapping:
            raise self.error(f"{self.name} is a mapping, not {self._kind()}.{_such_as(example)}")
        if not self.value:
            raise self.error(f"{self.name} is an empty mapping.{_such_as(example)}")
        found: dict[str, Node] = {}
        for key, value in self.value.items():
            place = self.place.within(key)
            name = Node(key, place, f"a key of {self.name}").text()
            if name in found:
                raise PivotalError(f"{place}: '{name}' occurs twice. Remove one.")
            found[name] = Node(value, place, f"'{name}'")
        return found

    def fields(self, known: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """The entries of a mapping whose keys are known."""
        found = self.entries()
        for key, node in found.items():
            if key not in known:
                raise node.error(f"there is no key '{key}' in {self.name}.{did_you_mean(key, known)}")
        for key in required:
            if key not in found:
                raise self.error(f"{self.name} needs the key '{key}'.")
        return found

    def _clean(self, text: str) -> str:
        try:
            return clean_text(text, "")
        except PivotalError as error:
            raise self.error(str(error)) from None

    def _kind(self) -> str:
        if self.value is None or self.value == "":
            return "empty"
        kinds = {"str": f"the text '{self.value:.40}'" if self.is_text else "", "list": "a list"}
        return kinds.get(type(self.value).__name__, "a mapping")


def _such_as(example: str) -> str:
    return f" Example: {example}." if example else ""
