"""Texts with slots, such as "The {noun} near the {place.any}"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.templates.lexicon import ANY, OTHER, Lexicon, LexiconEntry, WordList
from pivotal.questions.templates.nodes import Node

AGREES = ""
"""The form of a slot that takes the form of the label, or the only form of a list without forms."""

_SLOT = re.compile(r"\{([^{}]*)\}")
_OTHER_BRACKETS = re.compile(r"[\[<]([^\s\[\]<>]+?)\d*(?:\.\w+)?[\]>]")
_INNER = re.compile(r"\s*(\D+?)(\d*)(?:\.(.+?))?\s*")


@dataclass(frozen=True)
class Slot:
    """A slot of a text: which list it takes its word from, and in which form."""

    name: str
    """The list's name with the digits of the slot: `noun2`."""
    words: WordList
    form: str = AGREES
    """The name of a form, `any`, `other` or AGREES."""
    capital: bool = False

    @property
    def agrees(self) -> bool:
        """Whether its form depends on the label that is asked for."""
        return self.form == AGREES and bool(self.words.forms)


@dataclass(frozen=True)
class SlotWords:
    """The words in the slots of one sentence."""

    entries: Mapping[str, LexiconEntry]
    forms: Mapping[str, str]
    """The forms of the slots whose form is `any`."""
    other: str = ""
    """The label that is not the sentence's own; the form of slots that are `other`."""


@dataclass(frozen=True)
class Text:
    """A text with slots."""

    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slot))

    def render(self, choice: SlotWords, label: str) -> str:
        """The text with the forms that `label` asks for."""
        return "".join(part if isinstance(part, str) else _word(part, choice, label) for part in self.parts)

    def end_of(self, slot: str, choice: SlotWords, label: str) -> int:
        """The index of the last word of a slot in the rendered text."""
        at = next(i for i, part in enumerate(self.parts) if isinstance(part, Slot) and part.name == slot)
        return len(Text(self.parts[: at + 1]).render(choice, label).split()) - 1


def _word(slot: Slot, choice: SlotWords, label: str) -> str:
    forms = choice.entries[slot.name].forms
    if slot.form == ANY:
        word = forms[choice.forms[slot.name]]
    elif slot.form == OTHER:
        word = forms[choice.other]
    elif slot.form == AGREES:
        word = forms.get(label) or forms[""]
    else:
        word = forms[slot.form]
    return word[:1].upper() + word[1:] if slot.capital else word


def parse_text(node: Node, lexicon: Lexicon, labels: tuple[str, str]) -> Text:
    """The text of a node, with every slot found in the lexicon."""
    text = node.text()
    parts: list[str | Slot] = []
    end = 0
    for match in _SLOT.finditer(text):
        parts += [text[end : match.start()], parse_slot(match[1], node, lexicon, labels)]
        end = match.end()
    parts.append(text[end:])
    for match in _OTHER_BRACKETS.finditer(text):
        if match[1] in lexicon:
            raise node.error(f"a slot is a name in braces. Write {{{match[1]}}}, not {match[0]}.")
    for part in parts:
        if isinstance(part, str) and ("{" in part or "}" in part):
            raise node.error(
                f"a slot is a name in braces, as {{noun}}, but a brace of '{text}' has no partner."
            )
    return Text(tuple(part for part in parts if part))


def parse_slot(inner: str, node: Node, lexicon: Lexicon, labels: tuple[str, str]) -> Slot:
    """The slot that is written as {inner}."""
    match = _INNER.fullmatch(inner)
    if match is None:
        raise node.error(
            f"a slot is the name of a list, as {{noun}}, {{noun2}} or {{noun.plural}}, not '{{{inner}}}'."
        )
    written, digits, form = match[1], match[2], match[3] or AGREES
    name = written[:1].lower() + written[1:]
    if name not in lexicon:
        raise node.error(f"the slot '{{{inner}}}' names no list of the lexicon.{did_you_mean(name, lexicon)}")
    words = lexicon[name]
    known = words.forms
    two_labels = all(label in known for label in labels)
    if form == AGREES and known and not two_labels:
        raise _no_form(f"{written}{digits}", node, words, labels)
    if form in (ANY, OTHER) and (not known or (form == OTHER and not two_labels)):
        needs = f"the forms {labels[0]} and {labels[1]}" if form == OTHER else "forms"
        raise node.error(
            f"the slot '{{{inner}}}' needs {needs}, but '{name}' has {' and '.join(known) or 'none'}."
        )
    if form not in (AGREES, ANY, OTHER, *known):
        raise node.error(f"the list '{name}' has no form '{form}'.{did_you_mean(form, (*known, ANY, OTHER))}")
    return Slot(name + digits, words, form, written != name)


def _no_form(slot: str, node: Node, words: WordList, labels: tuple[str, str]) -> PivotalError:
    """The error for a slot that names no form, of a list whose forms are not the labels. A label may be misspelt."""
    free = [form for form in words.forms if form not in labels]
    for label in labels:
        if label not in words.forms and "Did you mean" in (guess := did_you_mean(label, free)):
            return node.error(
                f"the slot '{{{slot}}}' takes the form of the label, but '{words.name}' has no form for the label "
                f"{label}.{guess} Correct the label or the form."
            )
    # A feature, such as the kind of a noun, has the same value in several entries. It is no form.
    forms = [
        form
        for form in words.forms
        if len({entry.forms[form] for entry in words.entries}) == len(words.entries)
    ]
    choices = " or ".join(f"{{{slot}.{form}}}" for form in forms or words.forms[:1])
    return node.error(
        f"the slot '{{{slot}}}' must say which form it takes, because '{words.name}' has no forms for the labels "
        f"{labels[0]} and {labels[1]}. Write {choices}."
    )


def slots_of(texts: Iterator[Text] | tuple[Text, ...]) -> dict[str, Slot]:
    """The slots of some texts by name, in the order of appearance."""
    found: dict[str, Slot] = {}
    for text in texts:
        for slot in text.slots:
            found.setdefault(slot.name, slot)
    return found
