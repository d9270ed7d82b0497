"""Conditions on the words of a sentence: `noun.kind = animal`, or `verb.kind = noun.kind`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pivotal.errors import did_you_mean
from pivotal.questions.templates.lexicon import Lexicon, LexiconEntry
from pivotal.questions.templates.nodes import Node
from pivotal.questions.templates.slots import Slot

_CONDITION = re.compile(r"(.+?)\s*(!?=)\s*(.+)")
_FEATURE = re.compile(r"(\D+?)(\d*)\.(.+)")
_EXAMPLE = "noun.kind = animal, or verb.kind = noun.kind"


@dataclass(frozen=True)
class Feature:
    """A form or feature of the entry in a slot."""

    slot: str
    form: str


@dataclass(frozen=True)
class Condition:
    """Two values that must be equal, or must differ. The right one may be fixed."""

    left: Feature
    equal: bool
    right: Feature | str

    @property
    def slots(self) -> tuple[str, ...]:
        return (self.left.slot, self.right.slot) if isinstance(self.right, Feature) else (self.left.slot,)

    def can_hold(self, slot: str, entry: LexiconEntry, others: Mapping[str, Slot]) -> bool:
        """Whether some entry of the other slot goes with this entry. A fixed value leaves entries out on purpose."""
        if isinstance(self.right, str) or slot not in self.slots or self.left.slot == self.right.slot:
            return True
        own, other = (self.left, self.right) if slot == self.left.slot else (self.right, self.left)
        values = {one.forms[other.form] for one in others[other.slot].words.entries}
        return entry.forms[own.form] in values if self.equal else values != {entry.forms[own.form]}

    def holds(self, entries: Mapping[str, LexiconEntry]) -> bool:
        left = entries[self.left.slot].forms[self.left.form]
        right = self.right
        value = right if isinstance(right, str) else entries[right.slot].forms[right.form]
        return (left == value) == self.equal


def read_conditions(
    node: Node | None, lexicon: Lexicon, slots: Mapping[str, Slot], *, own: bool
) -> tuple[Condition, ...]:
    """The conditions of a template. Those given for all templates apply to the templates that have their slots."""
    found = []
    for inner, condition in conditions_of(node, lexicon):
        missing = [slot for slot in condition.slots if slot not in slots]
        if missing and own:
            raise inner.error(f"the template has no slot '{missing[0]}'.{did_you_mean(missing[0], slots)}")
        if not missing:
            found.append(condition)
    return tuple(found)


def conditions_of(node: Node | None, lexicon: Lexicon) -> list[tuple[Node, Condition]]:
    """The conditions of a node, a text or a list, with their nodes."""
    if node is None:
        return []
    nodes = [node] if node.is_text else node.items(_EXAMPLE)
    return [(inner, _condition(inner, lexicon)) for inner in nodes]


def _condition(node: Node, lexicon: Lexicon) -> Condition:
    match = _CONDITION.fullmatch(node.text(_EXAMPLE))
    left = match and _feature(match[1], node, lexicon)
    if match is None or left is None:
        raise node.error(
            f"a condition compares a feature of a slot, but '{node.value:.60}' does not."
            f"{_unknown_list(match[1], lexicon) if match else ''} Example: {_EXAMPLE}."
        )
    name = _FEATURE.fullmatch(match[1])[1]  # type: ignore[index]
    values = {entry.forms[left.form] for entry in lexicon[name].entries}
    if match[3] in values:
        return Condition(left, match[2] == "=", match[3])
    if "=" in match[3]:
        raise node.error(
            f"a condition has one = or one !=, but '{node.value:.60}' has more. Write one. Several conditions are a "
            "list."
        )
    right = _feature(match[3], node, lexicon)
    if right is None:
        guess = _unknown_list(match[3], lexicon) or did_you_mean(match[3], values)
        raise node.error(f"no entry of '{name}' has {left.form} = {match[3]}.{guess}")
    return Condition(left, match[2] == "=", right)


def _unknown_list(text: str, lexicon: Lexicon) -> str:
    """A hint to append to a message, if a text would be a feature of a list that is not there."""
    match = _FEATURE.fullmatch(text)
    return f" There is no list '{match[1]}'.{did_you_mean(match[1], lexicon)}" if match else ""


def _feature(text: str, node: Node, lexicon: Lexicon) -> Feature | None:
    """The feature that a text names, or None if it is a plain value."""
    match = _FEATURE.fullmatch(text)
    if match is None or match[1] not in lexicon:
        return None
    forms = lexicon[match[1]].forms
    if not forms:
        raise node.error(
            f"the entries of '{match[1]}' have no features, so there is no '{match[3]}'. Write them as "
            f"{{word: …, {match[3]}: …}}."
        )
    if match[3] not in forms:
        raise node.error(f"the list '{match[1]}' has no feature '{match[3]}'.{did_you_mean(match[3], forms)}")
    return Feature(match[1] + match[2], match[3])
