"""The pairs of a template: of all combinations of its words, or of a balanced sample of them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair, find_cue, joined
from pivotal.questions.templates.lexicon import ANY, Draw, Labels, LexiconEntry, Text
from pivotal.questions.templates.template import Template

MOST = 100_000
"""The most pairs of a template that are made without `sample`, and the most combinations that are listed."""

Fill = tuple[tuple[str, LexiconEntry], ...]
"""Entries for some slots."""


# -- which sentences are made -----------------------------------------------------------------------------------------


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
    sample: int
    """The number of pairs of the sample; 0 for all pairs."""

    @property
    def size(self) -> int:
        """The number of pairs that are made."""
        per_choice = len(self.variants) * len(self.labels)
        if not self.sample:
            return per_choice * math.prod(map(len, self.blocks))
        return per_choice * self._cells() * self._per_cell()

    def draws(self, rng: random.Random) -> Iterator[Draw]:
        if self.sample:
            yield from self._balanced(rng)
            return
        for fills in itertools.product(*self.blocks):
            entries = dict(_chained(fills))
            for forms, label in itertools.product(self.variants, self.labels):
                yield Draw(entries, forms, label)

    def _cells(self) -> int:
        """The number of choices of the cue in the sample."""
        return min(len(self.cues), self.sample // len(self.labels) // len(self.variants))

    def _per_cell(self) -> int:
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
        if math.prod(map(len, self.middles)) <= MOST:
            return list(map(_chained, itertools.product(*self.middles)))
        found: dict[Fill, None] = {}
        while len(found) < min(self.sample, MOST // 2):
            columns = [_repeated(block, self.sample, rng) for block in self.middles]
            found |= dict.fromkeys(map(_chained, zip(*columns, strict=True)))
        return list(found)


def _chained(fills: Iterable[Fill]) -> Fill:
    return tuple(itertools.chain.from_iterable(fills))


def _repeated(block: Sequence[Fill], count: int, rng: random.Random) -> list[Fill]:
    """`count` items of the block, each equally often, in random order."""
    items: list[Fill] = []
    while len(items) < count:
        items += rng.sample(block, len(block))
    return items[:count]


def plan(template: Template, labels: Labels) -> Plan:
    """The choices of a template. PivotalError if there are none or too many."""
    cues: Sequence[Fill] = [()]
    middles: list[list[Fill]] = []
    words: list[list[Fill]] = []
    blocks: list[list[Fill]] = []
    for names in _coupled(template):
        block = _fills(template, names)
        blocks.append(block)
        if template.cue_slot in names:
            cues = block
        else:
            (middles if any(name in template.prefix_slots for name in names) else words).append(block)
    asked, variants = template.labels or ("",), _variants(template, labels)
    whole, least = len(variants) * len(asked) * math.prod(map(len, blocks)), len(asked) * len(variants)
    sample = template.sample or 0
    template.place.require(
        not sample or sample >= least,
        f"'sample' is at least {least} here, one pair for each label and form, but it is {sample}.",
    )
    made = Plan(
        variants=variants,
        cues=cues,
        middles=middles,
        words=list(map(_chained, itertools.product(*words))),
        blocks=blocks,
        labels=asked,
        sample=sample if sample <= whole else 0,
    )
    template.place.require(
        made.size <= MOST,
        f"this template makes {made.size:,} pairs; at most {MOST:,} are allowed. Add 'sample: 1000'.",
    )
    return made


def _variants(template: Template, labels: Labels) -> list[dict[str, str]]:
    """All choices of forms for the slots that are `any`."""
    free: dict[str, tuple[str, ...]] = {}
    for text in (*template.prefixes, *template.words[0], *template.words[1]):
        for slot in text.slots:
            if slot.form == ANY:
                forms = slot.words.forms
                free[slot.name] = labels if set(labels) <= set(forms) else forms
    return [dict(zip(free, chosen, strict=True)) for chosen in itertools.product(*free.values())]


def _coupled(template: Template) -> list[tuple[str, ...]]:
    """The slots in blocks that can be chosen independently: slots of one list differ, and conditions couple slots."""
    slots = template.slots
    block = {name: {name} for name in slots}
    coupled = [condition.slots for condition in template.conditions]
    coupled += [(a, b) for a, b in itertools.combinations(slots, 2) if slots[a].words is slots[b].words]
    for names in coupled:
        merged = set().union(*(block[name] for name in names))
        block |= dict.fromkeys(merged, merged)
    return list(dict.fromkeys(tuple(name for name in slots if name in merged) for merged in block.values()))


def _fills(template: Template, names: Sequence[str]) -> list[Fill]:
    """All ways to fill the slots of one block."""
    conditions = [c for c in template.conditions if c.slots[0] in names]
    choices = [template.slots[name].words.entries for name in names]
    template.place.require(
        math.prod(map(len, choices)) <= MOST,
        f"there are more than {MOST:,} ways to fill the slots {', '.join(names)} together. Shorten their lists.",
    )
    found: list[Fill] = []
    for chosen in itertools.product(*choices):
        fill = dict(zip(names, chosen, strict=True))
        if len(set(chosen)) == len(chosen) and all(condition.holds(fill) for condition in conditions):
            found.append(tuple(fill.items()))
    template.place.require(
        found,
        f"no words of {', '.join(names)} meet the conditions of 'where', or a list has too few for its slots.",
    )
    return found


# -- the pair of a sentence -------------------------------------------------------------------------------------------


def pairs_of(template: Template, labels: Labels, draws: Iterable[Draw]) -> Iterator[MinimalPair]:
    """The pairs of some draws. PivotalError, with the place of the template, if one cannot be made."""
    for draw in draws:
        try:
            yield _pair(template, labels, draw)
        except PivotalError as error:
            raise template.place.error(str(error)) from None


def _pair(template: Template, labels: Labels, draw: Draw) -> MinimalPair:
    own = labels.index(draw.label) if draw.label else 0
    prefix = template.prefixes[own].render(draw, labels[own])
    first, second = (
        joined([text.render(draw, label) for text in texts])
        for texts, label in zip(template.words, labels, strict=True)
    )
    return MinimalPair(
        prefix,
        _cue(template, draw, labels, own, prefix),
        (first, second),
        draw.label,
        template.group,
        tuple((name, draw.entries[slot].lemma) for name, slot in template.lexemes),
        _counterfactuals(template, draw, labels, prefix),
    )


def _cue(template: Template, draw: Draw, labels: Labels, own: int, prefix: str) -> int | None:
    if isinstance(template.cue, int):
        return template.cue
    if template.cue_slot is not None:
        return template.prefixes[own].end_of(template.cue_slot, draw, labels[own])
    if template.cue is not None:
        return find_cue(prefix, template.cue)
    first, second = (
        text.render(draw, label).split() for text, label in zip(template.prefixes, labels, strict=True)
    )
    differ = [i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    if len(differ) != 1 or len(first) != len(second):
        raise PivotalError(
            f"the prefixes of the two labels differ in more than one word ('{' '.join(first)}' and "
            f"'{' '.join(second)}'), so 'cue' must name the one to edit at."
        )
    return differ[0]


def _counterfactuals(template: Template, draw: Draw, labels: Labels, prefix: str) -> tuple[str, str]:
    """For each label the prefix that calls for it. The prefix itself is the one of its own label."""
    first, second = (
        prefix if label == draw.label else _counterfactual(text, draw, label, prefix)
        for text, label in zip(template.counterfactuals, labels, strict=True)
    )
    return ("", "") if {first, second} <= {"", prefix} else (first, second)


def _counterfactual(text: Text | None, draw: Draw, label: str, prefix: str) -> str:
    if text is None:
        return ""
    other = text.render(draw, label)
    if draw.label and other == prefix:
        raise PivotalError(f"both labels have the prefix '{prefix}'. Remove the entry whose forms are equal.")
    if len(other.split()) != len(prefix.split()):
        raise PivotalError(
            f"the counterfactual prefix '{other}' must have as many words as the prefix '{prefix}'. Use forms of equal "
            "length, or write 'counterfactual: none'."
        )
    return other
