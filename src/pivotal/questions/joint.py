"""Several questions as one: their pairs are pooled, and each question is a group of the set.

A search gives each question the same weight, however many pairs it has (`Examples.weight`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import JOINT, default_test
from pivotal.questions.relabel import relabelled


def names_of(joint: str) -> list[str]:
    """The questions of a joint question; one if it is not joint."""
    return [name.strip() for name in joint.split(JOINT)] if JOINT in joint else [joint]


def pooled(sets: Sequence[PairSet], labels: Mapping[str, str] | None = None) -> PairSet:
    """One set with the pairs of all sets, grouped by set. A single set stays as it is.

    All sets get the labels of the first one. `labels` maps labels of the others to them; equal labels need no map.
    """
    first, given = sets[0], labels or {}
    if len(sets) == 1 and not given:
        return first
    unknown = [label for label in given if not any(label in one.labels for one in sets[1:])]
    if unknown:
        raise PivotalError(
            f"labels maps labels of the further questions to {' and '.join(first.labels)}, but none of these questions "
            f"has the label {unknown[0]!r}.",
            "labels",
        )
    twice = [one.name for i, one in enumerate(sets) if one.name in [other.name for other in sets[:i]]]
    if twice:
        raise PivotalError(
            f"Questions that are pooled have different names, but two are named {twice[0]}. Leave one out or, if they "
            "are two files, rename one.",
            "phenomenon",
        )
    mapped = [first, *(_mapped(one, first, given) for one in sets[1:])]
    return PairSet(
        name=JOINT.join(one.name for one in sets),
        labels=first.labels,
        pairs=tuple(replace(pair, group=one.name) for one in mapped for pair in one),
        held_out=_held_out(mapped),
        merged=sum(one.merged for one in mapped),
        joint=True,
        notes=tuple(note for one in mapped for note in one.notes),
    )


def _held_out(sets: Sequence[PairSet]) -> int | float:
    """What a split holds out: a share if one of the sets states a share, otherwise a number."""
    number = sum(default_test(one) for one in sets)
    stated = any(one.held_out is not None and one.held_out < 1 for one in sets)
    return number / sum(len(one) for one in sets) if stated else number


def _mapped(pairs: PairSet, first: PairSet, given: Mapping[str, str]) -> PairSet:
    known = {label: to for label, to in given.items() if label in pairs.labels}
    found = relabelled(pairs, first.labels, known)
    if found is None:
        example = ",".join(f"{a}={b}" for a, b in zip(pairs.labels, first.labels, strict=True))
        raise PivotalError(
            f"Questions are pooled if their labels mean the same. {first.name} has the labels "
            f"{' and '.join(first.labels)}, but {pairs.name} has {' and '.join(pairs.labels)}. Map them, for instance "
            f"with --labels {example}.",
            "labels",
        )
    return found
