"""Makes the pairs of a template."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair, find_cue
from pivotal.questions.templates.draw import Draw, plan
from pivotal.questions.templates.slots import SlotWords, Text
from pivotal.questions.templates.template import Template
from pivotal.questions.word_sets import joined


def expand(template: Template, labels: tuple[str, str], rng: random.Random) -> Iterator[MinimalPair]:
    """The pairs of a template. PivotalError, with the place of the template, if one cannot be made."""
    for draw in plan(template, labels).draws(rng):
        try:
            yield _pair(template, labels, draw)
        except PivotalError as error:
            raise PivotalError(f"{template.place}: {error}") from None


def _pair(template: Template, labels: tuple[str, str], draw: Draw) -> MinimalPair:
    own = labels.index(draw.label) if draw.label else 0
    choice = SlotWords(draw.entries, draw.forms, labels[1 - own])
    prefix = template.prefixes[own].render(choice, labels[own])
    first, second = (
        joined([text.render(choice, label) for text in texts])
        for texts, label in zip(template.words, labels, strict=True)
    )
    return MinimalPair(
        prefix,
        _cue(template, choice, labels, own, prefix),
        (first, second),
        draw.label,
        template.group,
        tuple((name, draw.entries[slot].lemma) for name, slot in template.lexemes),
        _counterfactuals(template, choice, labels, draw.label, prefix),
    )


def _cue(template: Template, choice: SlotWords, labels: tuple[str, str], own: int, prefix: str) -> int:
    cue = template.cue
    if isinstance(cue, int):
        return cue
    if cue is None:
        both = [
            text.render(choice, label).split() for text, label in zip(template.prefixes, labels, strict=True)
        ]
        differ = [i for i, (a, b) in enumerate(zip(*both, strict=False)) if a != b]
        if len(differ) != 1 or len(both[0]) != len(both[1]):
            raise PivotalError(
                f"the prefixes of the two labels differ in more than one word ('{' '.join(both[0])}' and "
                f"'{' '.join(both[1])}'), so 'cue' must name the one to edit at."
            )
        return differ[0]
    if template.cue_slot is not None:
        return template.prefixes[own].end_of(cue, choice, labels[own])
    return find_cue(prefix, cue)


def _counterfactuals(
    template: Template, choice: SlotWords, labels: tuple[str, str], label: str, prefix: str
) -> tuple[str, str]:
    """For each label the prefix that calls for it. The prefix itself is the one of its own label."""
    first, second = (
        _counterfactual(text, choice, asked, label, prefix)
        for text, asked in zip(template.counterfactuals, labels, strict=True)
    )
    return ("", "") if {first, second} <= {"", prefix} else (first, second)


def _counterfactual(text: Text | None, choice: SlotWords, asked: str, label: str, prefix: str) -> str:
    if asked == label:
        return prefix
    if text is None:
        return ""
    other = text.render(choice, asked)
    if label and other == prefix:
        raise PivotalError(
            f"the prefix must differ between the labels, but '{prefix}' is the same for both. Remove the entry whose "
            "two forms are equal."
        )
    if len(other.split()) != len(prefix.split()):
        raise PivotalError(
            f"the counterfactual prefix '{other}' must have as many words as the prefix '{prefix}'. Use forms of equal "
            "length, or write 'counterfactual: none'."
        )
    return other
