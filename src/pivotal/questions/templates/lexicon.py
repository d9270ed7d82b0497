"""The lexicon of a template file: lists of words, each entry a word or several forms of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.templates.nodes import Node
from pivotal.yaml_places import Place

ANY, OTHER = "any", "other"
RESERVED = (ANY, OTHER, "none")
"""Names with a meaning of their own in a slot or a template. They cannot be labels or forms."""

_NAME = re.compile(r"[^\W\d_](?:[^\W\d]|-)*")
_EXAMPLE = "noun: [{singular: car, plural: cars}, {singular: man, plural: men}]"


@dataclass(frozen=True, eq=False)
class LexiconEntry:
    """A word. `forms` are its forms and features by name; a word without forms has the one form ''."""

    forms: Mapping[str, str]
    place: Place

    @property
    def lemma(self) -> str:
        return next(iter(self.forms.values()))


@dataclass(frozen=True, eq=False)
class WordList:
    """A list of the lexicon. All its entries have the same forms."""

    name: str
    entries: tuple[LexiconEntry, ...]
    place: Place

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of the forms; empty if the entries are plain words."""
        return tuple(form for form in self.entries[0].forms if form)


Lexicon = Mapping[str, WordList]


def read_lexicon(node: Node) -> dict[str, WordList]:
    return {name: _word_list(name, inner) for name, inner in node.entries(_EXAMPLE).items()}


def _word_list(name: str, node: Node) -> WordList:
    if not _NAME.fullmatch(name) or name != name.lower():
        raise node.error(
            f"the name of a list is lower-case letters, '-' and '_' (a digit in a slot, as in {{noun2}}, asks for a "
            f"further entry of the list 'noun'), not '{name}'."
        )
    node = Node(node.value, node.place, f"the list '{name}'")
    entries = _columns(node) if node.is_mapping else [_entry(item) for item in node.items(_EXAMPLE)]
    first = entries[0]
    seen: dict[tuple[tuple[str, str], ...], LexiconEntry] = {}
    for entry in entries:
        if set(entry.forms) != set(first.forms):
            raise PivotalError(
                f"{entry.place}: all entries of a list have the same forms, but this one has {_named(entry)} and the "
                f"first of '{name}' has {_named(first)}. Give both the same."
            )
        same = seen.setdefault(tuple(sorted(entry.forms.items())), entry)
        if same is not entry:
            raise PivotalError(
                f"{entry.place}: '{entry.lemma}' is in the list '{name}' twice; the first is in line "
                f"{same.place.line}. Remove one."
            )
    return WordList(name, tuple(entries), node.place)


def _entry(node: Node) -> LexiconEntry:
    if node.is_text:
        return LexiconEntry({"": node.text()}, node.place)
    if not node.is_mapping:
        raise node.error(f"{node.name} is a word or a mapping of its forms. Example: {_EXAMPLE}.")
    forms = {_form_name(form, inner): inner.text() for form, inner in node.entries().items()}
    return LexiconEntry(forms, node.place)


def _columns(node: Node) -> list[LexiconEntry]:
    """Entries that are given as one list for each form: {singular: [car, man], plural: [cars, men]}."""
    columns = {_form_name(form, inner): inner.items() for form, inner in node.entries(_EXAMPLE).items()}
    first, cells = next(iter(columns.items()))
    for form, others in columns.items():
        if len(others) != len(cells):
            raise PivotalError(
                f"{node.place.within(form)}: the forms of {node.name} are lists of equal length, one item for each "
                f"word, but '{form}' has {len(others)} and '{first}' has {len(cells)}."
            )
    return [
        LexiconEntry({form: column[i].text() for form, column in columns.items()}, cells[i].place)
        for i in range(len(cells))
    ]


def _form_name(form: str, node: Node) -> str:
    if form in RESERVED or any(sign in form for sign in "{}=."):
        raise node.error(
            f"the name of a form is text without braces, '=' and '.', and not {' or '.join(RESERVED)}; "
            f"'{form}' is not allowed."
        )
    return form


def _named(entry: LexiconEntry) -> str:
    return " and ".join(form for form in entry.forms if form) or "none"
