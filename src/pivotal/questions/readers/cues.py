"""Find the cue in files that do not state it: the word that decides which of the two words is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pivotal.questions.readers import english, labels
from pivotal.questions.readers.choice import Choice
from pivotal.questions.readers.labels import STATED, Labelling, labelled

FindCue = Callable[[Sequence[str]], int | None]
"""From the words of a prefix to the index of the cue; None if it has none."""


_FIRST_SUBJECT = (english.subject, "the head of the subject at the beginning")
_RULES: dict[str, tuple[FindCue, str]] = {
    labels.NOUNS: (english.last_determiner, "the determiner before the noun"),
    labels.VERBS: (english.subject_before_verb, "the head of the subject"),
    labels.PRONOUNS: _FIRST_SUBJECT,
    labels.GENDER: _FIRST_SUBJECT,
}
"""How to find the cue by the kind of the labels, with a description."""


def cue_rule(choices: Sequence[Choice], labelling: Labelling) -> tuple[FindCue, str] | None:
    """How to find the cue by the kind of the labels, with a description; None if nothing is known of this kind.
    Labels that the file states are of a kind if the inferred ones are the same under other names."""
    if labelling.kind == STATED:
        inferred = labelled(choices)
        same = {a == b for a, b in zip(labelling.good, inferred.good, strict=True) if b is not None}
        return cue_rule(choices, inferred) if len(same) == 1 else None
    return _RULES.get(labelling.kind)


def between_prefixes(prefix: str, other: str) -> int | None:
    """The index of the only word in which two prefixes differ; None if they differ in none or in several."""
    first, second = prefix.split(), other.split()
    if len(first) != len(second):
        return None
    places = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    return places[0] if len(places) == 1 else None


_SEVERAL = -1


def twins(choices: Sequence[Choice], labelling: Labelling) -> list[int | None]:
    """For each row the index of the only row that asks for the other word after a prefix that differs in one word.

    Such a row is the counterfactual of the first: The doctor near the car -> is, The doctors near the car -> are. If
    there are several, their words are not forms of one word, so there is no counterfactual.
    """
    # For each label, the first row that fills a prefix with an open word, or that different prefixes do.
    filled: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for row, choice in enumerate(choices):
        label = labelling.good[row]
        if label is not None:
            for key in _open_prefixes(choice):
                first = filled[label].setdefault(key, row)
                if first != _SEVERAL and choices[first].prefix != choice.prefix:
                    filled[label][key] = _SEVERAL
    found: list[int | None] = []
    for row, choice in enumerate(choices):
        label = labelling.good[row]
        there = () if label is None else (filled[1 - label].get(key) for key in _open_prefixes(choice))
        # A row that contradicts this one is not its counterfactual.
        others = {
            other
            for other in there
            if other is not None and (other == _SEVERAL or choices[other].prefix != choice.prefix)
        }
        found.append(others.pop() if len(others) == 1 and _SEVERAL not in others else None)
    return found


def _open_prefixes(choice: Choice) -> list[str]:
    """The prefix with each of its words left open, and the two words. Words hold no tab."""
    words = choice.prefix.split()
    asked = " ".join(sorted((choice.good, choice.bad)))
    return [" ".join((*words[:i], "\t", *words[i + 1 :], "\t", asked)) for i in range(len(words))]
