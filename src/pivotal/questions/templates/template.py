"""One template: a sentence pattern with its cue, its words and its counterfactual, read from a template file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pivotal.errors import did_you_mean
from pivotal.questions.templates.lexicon import (
    NONE,
    Condition,
    Labels,
    Lexicon,
    Slot,
    Text,
    conditions_of,
    parse_slot,
    parse_text,
    slots_of,
)
from pivotal.yaml_places import Place

SHARED_KEYS = ("cue", "words", "label", "lexemes", "where", "sample", "counterfactual")
"""The keys of a template that may be given once for all templates, at the top of the file."""
_KEYS = ("prefix", "group", *SHARED_KEYS)

Prefixes = tuple[Text, Text]
Words = tuple[tuple[Text, ...], tuple[Text, ...]]


@dataclass(frozen=True)
class Template:
    """A sentence pattern. Pairs of texts are in the order of the labels."""

    place: Place
    group: str
    prefixes: Prefixes
    words: Words
    labels: tuple[str, ...]
    """The labels of which pairs are made; empty if neither word is expected."""
    cue: str | int | None
    """A slot or a word of the prefix, an index from 0, or None: the only word in which the two prefixes differ."""
    counterfactuals: tuple[Text | None, Text | None]
    lexemes: tuple[tuple[str, str], ...]
    """(name, slot)"""
    conditions: tuple[Condition, ...]
    sample: int | None

    @cached_property
    def prefix_slots(self) -> dict[str, Slot]:
        return slots_of(self.prefixes)

    @cached_property
    def slots(self) -> dict[str, Slot]:
        """All slots, in the order of appearance, those of the words last."""
        return slots_of((*self.prefixes, *self.words[0], *self.words[1]))

    @property
    def cue_slot(self) -> str | None:
        """The slot that is the cue, if it is a slot."""
        return self.cue if isinstance(self.cue, str) and self.cue in self.prefix_slots else None


@dataclass(frozen=True)
class TemplateReader:
    """Reads the templates of a file. `shared` are the keys that the file gives for all templates."""

    lexicon: Lexicon
    labels: Labels
    shared: Mapping[str, Place]

    def read(self, place: Place, number: int) -> Template:
        """A template: a mapping, or the text of its prefix alone."""
        own = {"prefix": place} if place.is_text else place.fields(_KEYS, ["prefix"])
        given = {**self.shared, **own}
        place.require("words" in given, f"{place.name} needs the key 'words', here or at the top.")
        prefixes = self._prefixes(given["prefix"])
        words = self._words(given["words"])
        labels = self._expected(given.get("label"))
        cue = self._cue(given.get("cue"), place, prefixes, bool(labels))
        slots = slots_of((*prefixes, *words[0], *words[1]))
        conditions = conditions_of(given.get("where"), self.lexicon)
        missing = {slot for condition in conditions for slot in condition.slots} - set(slots)
        place.require(
            "where" not in own or not missing,
            f"'where' names slots of the template, not {', '.join(missing)}.",
        )
        return Template(
            place=place,
            group=given["group"].text() if "group" in given else f"t{number:02}",
            prefixes=prefixes,
            words=words,
            labels=labels,
            cue=cue,
            counterfactuals=self._counterfactuals(given.get("counterfactual"), prefixes, bool(labels)),
            lexemes=self._lexemes(given.get("lexemes"), prefixes, slots, cue),
            conditions=tuple(condition for condition in conditions if set(condition.slots) <= set(slots)),
            sample=given["sample"].positive_number() if "sample" in given else None,
        )

    def _text(self, place: Place) -> Text:
        return parse_text(place, self.lexicon, self.labels)

    def _by_label(self, place: Place, example: str = "") -> tuple[Place, Place]:
        """The values of the two labels: a mapping by label, or a list in their order."""
        if place.is_mapping:
            found = place.entries()
            for key, part in found.items():
                part.require_known(key, self.labels, f"the keys of {place.name} are the labels")
            for label in self.labels:
                place.require(label in found, f"{place.name} has no entry for the label '{label}'.")
            return found[self.labels[0]], found[self.labels[1]]
        items = place.items(example)
        place.require(len(items) == 2, f"{place.name} has one item for each label, but it has {len(items)}.")
        return items[0], items[1]

    def _prefixes(self, place: Place) -> Prefixes:
        """The prefix of each label: one text for both, or a text for each."""
        if not place.is_mapping:
            text = self._text(place)
            return text, text
        first, second = map(self._text, self._by_label(place))
        odd = sorted(set(slots_of([first])) ^ set(slots_of([second])))
        place.require(not odd, f"both prefixes have the same slots, but {{{', '.join(odd)}}} is in one only.")
        return first, second

    def _words(self, place: Place) -> Words:
        """The words of each label: the forms of a list, or given words, which may be sets."""
        if not place.is_text:
            first, second = map(self._word_set, self._by_label(place, "[is, are]"))
            return first, second
        name = place.text().removeprefix("{").removesuffix("}")
        list_name = re.sub(r"\d*(\..*)?$", "", name)
        rule = "'words' is a list of the lexicon that has the two forms, or two words, as [is, are]"
        place.require_known(list_name, self.lexicon, rule)
        slot = parse_slot(name, place, self.lexicon, self.labels)
        place.require(slot.agrees, f"{rule}, but '{list_name}' has no forms or '{name}' names one form.")
        return (Text((slot,)),), (Text((slot,)),)

    def _word_set(self, place: Place) -> tuple[Text, ...]:
        return tuple(map(self._text, place.texts("[is, are]")))

    def _expected(self, place: Place | None) -> tuple[str, ...]:
        """The labels of which pairs are made; none if neither word is expected."""
        if place is None:
            return self.labels
        place.require(place.text() == NONE, "'label' is none if neither word is right; else leave it out.")
        return ()

    def _cue(
        self, place: Place | None, template: Place, prefixes: Prefixes, labelled: bool
    ) -> str | int | None:
        """A slot, a word or an index; None if it is the only word in which the two prefixes differ."""
        agreeing = list(dict.fromkeys(slot.name for slot in prefixes[0].slots if slot.agrees))
        same = prefixes[0] == prefixes[1]
        template.require(
            labelled or not agreeing,
            f"without a label, no slot can take its form, but {', '.join(agreeing)} does. Name one, as {{noun.FORM}}.",
        )
        template.require(
            not labelled or agreeing or not same,
            "no slot of the prefix has a form for each label. Add one, give a prefix for each label, or write 'label: "
            "none' if neither word is right.",
        )
        if place is not None:
            return _given_cue(place, template, prefixes)
        if not same and not agreeing:
            return None
        once = [slot.name for slot in prefixes[0].slots if slot.agrees]
        names = ", ".join(agreeing or slots_of(prefixes))
        template.require(
            same and len(once) == 1,
            f"{template.name} needs the key 'cue', the slot or word that decides between the labels"
            f"{f', such as {names}' if names else ''}.",
        )
        return once[0]

    def _counterfactuals(
        self, place: Place | None, prefixes: Prefixes, labelled: bool
    ) -> tuple[Text | None, Text | None]:
        """The prefix that calls for each label: by default the prefixes, with the forms of the other label."""
        if place is None:
            return prefixes if labelled else (None, None)
        if place.is_text and place.text() == NONE:
            return None, None
        first, second = prefixes
        for key, part in place.entries("{noun: [man, woman]}").items():
            part.require_known(key, slots_of(prefixes), "'counterfactual' names slots of the prefix")
            words = [word.text() for word in self._by_label(part, "[man, woman]")]
            first, second = first.replaced(key, words[0]), second.replaced(key, words[1])
        return first, second

    def _lexemes(
        self, place: Place | None, prefixes: Prefixes, slots: Mapping[str, Slot], cue: str | int | None
    ) -> tuple[tuple[str, str], ...]:
        """(name, slot) of the slots whose lemmas a split by words holds out: a mapping, a list, or none. Slots that the
        template does not have are left out. By default, they are the cue and the slots of the words, if they vary."""
        if place is None:
            before = slots_of(prefixes)
            default = [name for name in slots if name == cue or name not in before]
            return tuple((name, name) for name in default if len(slots[name].words.entries) > 1)
        if place.is_text and place.text() == NONE:
            return ()
        named = place.entries() if place.is_mapping else {p.text(): p for p in place.items("[noun, verb]")}
        for part in named.values():
            part.require_known(part.text().rstrip("0123456789"), self.lexicon, "'lexemes' names slots")
        return tuple((name, part.text()) for name, part in named.items() if part.text() in slots)


def _given_cue(place: Place, template: Place, prefixes: Prefixes) -> str | int:
    cue = place.text().removeprefix("{").removesuffix("}")
    names = [slot.name for slot in prefixes[0].slots]
    if cue in names:
        place.require(
            all([slot.name for slot in text.slots].count(cue) == 1 for text in prefixes),
            f"the cue is one place, but the slot {{{cue}}} is in the prefix twice. Give its index from 0.",
        )
        return cue
    if cue.isascii() and cue.isdigit() and len(cue) < 10:
        return int(cue)
    for text in prefixes:
        if cue not in text.literal_words:
            raise place.error(
                f"'cue' is a slot or a word of the prefix, but '{cue}' is neither in {template.name} (line "
                f"{template.line}).{did_you_mean(cue, {*names, *text.literal_words})}"
            )
    return cue
