"""Which sentences of a template are made: all of them, or a balanced sample."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.templates.lexicon import ANY, LexiconEntry
from pivotal.questions.templates.slots import Slot
from pivotal.questions.templates.template import Template

MOST = 100_000
"""The most pairs of a template that are made without `sample`, and the most combinations that are listed."""

Fill = tuple[tuple[str, LexiconEntry], ...]
"""Entries for some slots."""


@dataclass(frozen=True)
class Draw:
    """The words of one sentence: entries by slot, the forms of the slots that are `any`, and the label."""

    entries: dict[str, LexiconEntry]
    forms: dict[str, str]
    label: str


@dataclass(frozen=True)
class Plan:
    """The choices that a template offers.

    Slots that constrain each other are chosen together, in one block. A sample is balanced: every choice of the cue
    occurs equally often with each label, and, within one pair, with every choice of the words.
    """

    variants: Sequence[dict[str, str]]
    """The forms of the slots that are `any`."""
    cues: Sequence[Fill]
    middles: Sequence[Sequence[Fill]]
    """The blocks of the other slots of the prefix."""
    words: Sequence[Fill]
    blocks: Sequence[Sequence[Fill]]
    """All blocks in the order of appearance."""
    labels: Sequence[str]
    sample: int | None

    @property
    def whole(self) -> int:
        """The number of all pairs."""
        return len(self.variants) * len(self.labels) * math.prod(len(block) for block in self.blocks)

    @property
    def size(self) -> int:
        """The number of pairs that are made."""
        if self.sample is None or self.sample > self.whole:
            return self.whole
        return len(self.variants) * len(self.labels) * self._cells() * self._per_cell()

    def draws(self, rng: random.Random) -> Iterator[Draw]:
        if self.sample is None or self.sample > self.whole:
            return self._all()
        return self._balanced(rng)

    def _all(self) -> Iterator[Draw]:
        for fills in itertools.product(*self.blocks):
            entries = dict(itertools.chain.from_iterable(fills))
            for forms, label in itertools.product(self.variants, self.labels):
                yield Draw(entries, forms, label)

    def _cells(self) -> int:
        """The number of choices of the cue in the sample."""
        assert self.sample is not None
        return min(len(self.cues), self.sample // len(self.labels) // len(self.variants))

    def _per_cell(self) -> int:
        assert self.sample is not None
        return self.sample // (self._cells() * len(self.labels)) // len(self.variants)

    def _balanced(self, rng: random.Random) -> Iterator[Draw]:
        cues = list(self.cues) if self._cells() == len(self.cues) else rng.sample(self.cues, self._cells())
        cells = list(itertools.product(cues, self.labels))
        per_cell = self._per_cell()
        words = list(self.words)
        for forms in self.variants:
            deck = self._deck(rng)
            lap = math.lcm(len(deck), len(words))
            for cell, (cue, label) in enumerate(cells):
                # Each cell continues in the deck where the last one stopped, so all middles are equally frequent. The
                # deck is shuffled only at its end. Otherwise a cell could get one middle twice and another never.
                first = cell * per_cell
                if first % len(deck) == 0:
                    rng.shuffle(deck)
                rng.shuffle(words)
                for i in range(per_cell):
                    # Diagonals of middles x words: no pair twice, every middle and every word equally often.
                    middle, word = deck[(first + i) % len(deck)], words[(i + i // lap) % len(words)]
                    yield Draw(dict((*cue, *middle, *word)), forms, label)

    def _deck(self, rng: random.Random) -> list[Fill]:
        """The choices of the slots that are neither cue nor words: all, or a balanced part if there are many."""
        assert self.sample is not None
        if math.prod(len(block) for block in self.middles) <= MOST:
            return [tuple(itertools.chain.from_iterable(fills)) for fills in itertools.product(*self.middles)]
        found: dict[Fill, None] = {}
        while len(found) < min(self.sample, MOST // 2):
            columns = [_repeated(block, self.sample, rng) for block in self.middles]
            for fills in zip(*columns, strict=True):
                found[tuple(itertools.chain.from_iterable(fills))] = None
        return list(found)


def _repeated(block: Sequence[Fill], count: int, rng: random.Random) -> list[Fill]:
    """`count` items of the block, each equally often, in random order."""
    items: list[Fill] = []
    while len(items) < count:
        items += rng.sample(block, len(block))
    return items[:count]


def plan(template: Template, labels: tuple[str, str]) -> Plan:
    """The choices of a template. PivotalError if there are none or too many."""
    slots, prefix = template.slots, template.prefix_slots
    names = _blocks(template, slots)
    blocks = [_fills(template, block, slots) for block in names]
    is_cue = [template.cue_slot in block for block in names]
    is_word = [not any(name in prefix for name in block) for block in names]
    cues = [block for block, found in zip(blocks, is_cue, strict=True) if found]
    words = [block for block, word, cue in zip(blocks, is_word, is_cue, strict=True) if word and not cue]
    found = Plan(
        variants=_variants(template, labels),
        cues=cues[0] if cues else [()],
        middles=[b for b, word, cue in zip(blocks, is_word, is_cue, strict=True) if not word and not cue],
        words=[tuple(itertools.chain.from_iterable(fills)) for fills in itertools.product(*words)],
        blocks=blocks,
        labels=template.labels or ("",),
        sample=template.sample,
    )
    least = len(found.labels) * len(found.variants)
    if template.sample is not None and template.sample < least:
        raise PivotalError(
            f"{template.place}: 'sample' is at least {least} here, one pair for each label and form, but it is "
            f"{template.sample}."
        )
    if found.size > MOST:
        raise PivotalError(
            f"{template.place}: this template makes {found.size:,} pairs, and a template may make {MOST:,}. Give "
            "'sample', such as 'sample: 1000'."
        )
    return found


def _variants(template: Template, labels: tuple[str, str]) -> list[dict[str, str]]:
    """All choices of forms for the slots that are `any`."""
    free: dict[str, tuple[str, ...]] = {}
    for text in (*template.prefixes, *template.words[0], *template.words[1]):
        for slot in text.slots:
            if slot.form == ANY:
                forms = slot.words.forms
                free[slot.name] = labels if set(labels) <= set(forms) else forms
    return [dict(zip(free, chosen, strict=True)) for chosen in itertools.product(*free.values())]


def _blocks(template: Template, slots: dict[str, Slot]) -> list[list[str]]:
    """The slots in blocks that can be chosen independently: slots of one list differ, and conditions couple slots."""
    block = {name: {name} for name in slots}
    coupled = [condition.slots for condition in template.conditions]
    coupled += [(a, b) for a, b in itertools.combinations(slots, 2) if slots[a].words is slots[b].words]
    for names in coupled:
        joined = set().union(*(block[name] for name in names))
        for name in joined:
            block[name] = joined
    found: list[list[str]] = []
    for name in slots:
        if not any(name in known for known in found):
            found.append([other for other in slots if other in block[name]])
    return found


def _fills(template: Template, names: list[str], slots: dict[str, Slot]) -> list[Fill]:
    """All ways to fill the slots of one block."""
    conditions = [c for c in template.conditions if c.slots[0] in names]
    alone = {name: [c for c in conditions if set(c.slots) == {name}] for name in names}
    choices = [
        [entry for entry in slots[name].words.entries if all(c.holds({name: entry}) for c in alone[name])]
        for name in names
    ]
    if math.prod(map(len, choices)) > MOST:
        raise PivotalError(
            f"{template.place}: the slots {', '.join(names)} constrain each other, and there are more than {MOST:,} "
            "ways to fill them. Shorten their lists."
        )
    found: list[Fill] = []
    for entries in itertools.product(*choices):
        fill = dict(zip(names, entries, strict=True))
        if len(set(entries)) == len(entries) and all(condition.holds(fill) for condition in conditions):
            found.append(tuple(fill.items()))
    if not found:
        raise PivotalError(
            f"{template.place}: this template makes no sentence, because no entries of {', '.join(names)} meet the "
            "conditions of 'where', or a list is too short for slots that must differ."
        )
    return found
