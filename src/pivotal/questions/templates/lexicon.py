"""The lexicon of a template file: lists of words, the slots that take them, and conditions on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pivotal.errors import did_you_mean
from pivotal.yaml_places import Place

AGREES = ""
"""The form of a slot that takes the form of the label, or the only form of a list without forms."""
ANY, NONE = "any", "none"
RESERVED = (ANY, NONE)
"""Names with a meaning of their own in a slot or a template. They cannot be labels or forms."""

Labels = tuple[str, str]

_NAME = re.compile(r"[^\W\d_](?:[^\W\d]|-)*")
_LIST = "noun: [{singular: car, plural: cars}, {singular: man, plural: men}]"
_SLOT = re.compile(r"\{([^{}]*)\}")
_INNER = re.compile(r"\s*(\D+?)(\d*)(?:\.(.+?))?\s*")
_FEATURE = re.compile(r"(\D+?)(\d*)\.(.+)")
_COMPARED = "verb.kind = noun.kind"


# -- lists of words ---------------------------------------------------------------------------------------------------


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

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of the forms; empty if the entries are plain words."""
        return tuple(form for form in self.entries[0].forms if form)


Lexicon = Mapping[str, WordList]


def read_lexicon(place: Place, labels: Labels) -> dict[str, WordList]:
    return {name: _word_list(name, inner, labels) for name, inner in place.entries(_LIST).items()}


def check_name(place: Place, name: str, what: str) -> str:
    """A name of a label or a form that a slot can have after its dot."""
    place.require(
        name and name not in RESERVED and not set(name) & set("{}=."),
        f"{what} is text without braces, '=' and '.', and not {' or '.join(RESERVED)}, but it is '{name}'.",
    )
    return name


def _word_list(name: str, place: Place, labels: Labels) -> WordList:
    place.require(
        _NAME.fullmatch(name) and name == name.lower(),
        f"the name of a list is lower-case letters, '-' and '_', without digits, not '{name}'.",
    )
    entries = _columns(place) if place.is_mapping else [_entry(item) for item in place.items(_LIST)]
    first = entries[0]
    seen: dict[tuple[tuple[str, str], ...], LexiconEntry] = {}
    for entry in entries:
        # If the later entry has the labels, the form of the first one is misspelt.
        odd, other = (first, entry) if set(labels) <= entry.forms.keys() else (entry, first)
        odd.place.require(
            odd.forms.keys() == other.forms.keys(),
            f"the entries of '{name}' need the same forms. In line {other.place.line} they are {_named(other)}, here "
            f"{_named(odd)}.",
        )
        same = seen.setdefault(tuple(sorted(entry.forms.items())), entry)
        entry.place.require(
            same is entry,
            f"'{entry.lemma}' is in the list '{name}' twice; the first is in line {same.place.line}. Remove one.",
        )
    return WordList(name, tuple(entries))


def _entry(place: Place) -> LexiconEntry:
    if not place.is_mapping:
        return LexiconEntry({"": place.text(_LIST)}, place)
    return LexiconEntry({_form(form, part): part.text() for form, part in place.entries().items()}, place)


def _columns(place: Place) -> list[LexiconEntry]:
    """Entries that are given as one list for each form: {singular: [car, man], plural: [cars, men]}."""
    columns = {_form(form, part): part.items() for form, part in place.entries(_LIST).items()}
    cells = next(iter(columns.values()))
    for form, others in columns.items():
        place.within(form).require(
            len(others) == len(cells),
            f"the forms of {place.name} are lists of equal length, one item for each word, but '{form}' has "
            f"{len(others)} and '{next(iter(columns))}' has {len(cells)}.",
        )
    return [
        LexiconEntry({form: column[i].text() for form, column in columns.items()}, cells[i])
        for i in range(len(cells))
    ]


def _form(name: str, place: Place) -> str:
    return check_name(place, name, "the name of a form")


def _named(entry: LexiconEntry) -> str:
    return " and ".join(form for form in entry.forms if form) or "none"


# -- texts with slots -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A slot of a text: which list it takes its word from, and in which form."""

    name: str
    """The list's name with the digits of the slot: `noun2`."""
    words: WordList
    form: str = AGREES
    """The name of a form, `any` or AGREES."""
    capital: bool = False

    @property
    def agrees(self) -> bool:
        """Whether its form depends on the label that is asked for."""
        return self.form == AGREES and bool(self.words.forms)


@dataclass(frozen=True)
class Draw:
    """The words of one sentence: entries by slot, the forms of the slots that are `any`, and the label."""

    entries: Mapping[str, LexiconEntry]
    forms: Mapping[str, str]
    label: str

    def word(self, slot: Slot, label: str) -> str:
        """The word in a slot, in the form that `label` asks for."""
        forms = self.entries[slot.name].forms
        if slot.form == AGREES:
            word = forms.get(label) or forms[""]
        else:
            word = forms[self.forms[slot.name] if slot.form == ANY else slot.form]
        return word[:1].upper() + word[1:] if slot.capital else word


@dataclass(frozen=True)
class Text:
    """A text with slots, such as "The {noun} near the {place.any}"."""

    parts: tuple[str | Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @property
    def literal_words(self) -> list[str]:
        return [word for part in self.parts if isinstance(part, str) for word in part.split()]

    def render(self, draw: Draw, label: str) -> str:
        """The text with the forms that `label` asks for."""
        return "".join(part if isinstance(part, str) else draw.word(part, label) for part in self.parts)

    def end_of(self, slot: str, draw: Draw, label: str) -> int:
        """The index of the last word of a slot in the rendered text."""
        at = next(i for i, part in enumerate(self.parts) if isinstance(part, Slot) and part.name == slot)
        return len(Text(self.parts[: at + 1]).render(draw, label).split()) - 1

    def replaced(self, slot: str, word: str) -> Text:
        """The text with a word in place of a slot."""
        return Text(tuple(word if isinstance(p, Slot) and p.name == slot else p for p in self.parts))


def slots_of(texts: Iterable[Text]) -> dict[str, Slot]:
    """The slots of some texts by name, in the order of appearance."""
    found: dict[str, Slot] = {}
    for text in texts:
        for slot in text.slots:
            found.setdefault(slot.name, slot)
    return found


def parse_text(place: Place, lexicon: Lexicon, labels: Labels) -> Text:
    """The text of a value, with every slot found in the lexicon."""
    text = place.text()
    parts: list[str | Slot] = []
    for i, part in enumerate(_SLOT.split(text)):  # every second part was in braces
        if i % 2:
            parts.append(parse_slot(part, place, lexicon, labels))
            continue
        place.require(
            not set(part) & set("{}"),
            f"a slot is a name in braces, as {{noun}}, but a brace of '{text}' has no partner.",
        )
        parts += [part] if part else []
    return Text(tuple(parts))


def parse_slot(inner: str, place: Place, lexicon: Lexicon, labels: Labels) -> Slot:
    """The slot that is written as {inner}."""
    match = _INNER.fullmatch(inner)
    if match is None:
        raise place.error(f"a slot is written {{noun}}, {{noun2}} or {{noun.plural}}, not '{{{inner}}}'.")
    written, digits, form = match[1], match[2], match[3] or AGREES
    name = written[:1].lower() + written[1:]
    if name not in lexicon:
        raise place.error(f"the slot '{{{inner}}}' is not in the lexicon.{did_you_mean(name, lexicon)}")
    forms = lexicon[name].forms
    if form == AGREES:
        missing = [label for label in labels if forms and label not in forms]
        if missing:
            raise place.error(
                f"the slot '{{{inner}}}' takes the form of a label, but '{name}' has none for {missing[0]}. "
                f"Correct the label or the form, or name a form, as {{{name}.FORM}}.{did_you_mean(missing[0], forms)}"
            )
    else:
        place.require_known(form, (*forms, ANY) if forms else (), f"the slot takes a form of '{name}'")
    return Slot(name + digits, lexicon[name], form, written != name)


# -- conditions -------------------------------------------------------------------------------------------------------


class Feature(NamedTuple):
    """A form or feature of the entry in a slot."""

    slot: str
    form: str


@dataclass(frozen=True)
class Condition:
    """Two features that must be equal: `verb.kind = noun.kind`."""

    left: Feature
    right: Feature

    @property
    def slots(self) -> tuple[str, str]:
        return self.left.slot, self.right.slot

    def holds(self, entries: Mapping[str, LexiconEntry]) -> bool:
        left, right = (entries[feature.slot].forms[feature.form] for feature in (self.left, self.right))
        return left == right


def conditions_of(place: Place | None, lexicon: Lexicon) -> list[Condition]:
    """The conditions of a value, a text or a list."""
    return [] if place is None else [_condition(part, lexicon) for part in place.texts(_COMPARED)]


def _condition(place: Place, lexicon: Lexicon) -> Condition:
    left, _, right = place.text(_COMPARED).partition("=")
    return Condition(_feature(left.strip(), place, lexicon), _feature(right.strip(), place, lexicon))


def _feature(text: str, place: Place, lexicon: Lexicon) -> Feature:
    match = _FEATURE.fullmatch(text)
    if match is None:
        raise place.error(f"a condition compares two features, as {_COMPARED}, but '{text:.60}' is not one.")
    place.require_known(match[1], lexicon, "a condition names a list of the lexicon")
    place.require_known(match[3], lexicon[match[1]].forms, f"a condition names a feature of '{match[1]}'")
    return Feature(match[1] + match[2], match[3])
