"""Map the labels of pairs to other labels, such as those of an intervention, and pool questions with equal labels.

A search gives each question of a pool the same weight, however many pairs it has (`Examples.weight`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import JOINT, default_test


def parse_labels(text: str) -> dict[str, str]:
    """The mapping of `he=male,she=female`."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        label, equals, other = (part.strip() for part in item.partition("="))
        if not equals or not label or not other:
            raise PivotalError(f"Labels are mapped as in he=male,she=female, not as {item!r}.", "labels")
        found[label] = other
    return found


def relabelled(
    pairs: PairSet, labels: tuple[str, str], given: Mapping[str, str] | None = None
) -> PairSet | None:
    """The pairs with other labels, in their order; None if their labels do not map to both of them.

    `given` maps labels of the pairs to the others. A label that it does not name maps to the label of that name.
    """
    unknown = [label for label in given or {} if label not in pairs.labels]
    if unknown:
        said = f"The labels of {pairs.name} are {' and '.join(pairs.labels)}, so {unknown[0]!r} cannot be mapped."
        raise PivotalError(said, "labels")
    names = {label: (given or {}).get(label, label) for label in pairs.labels}
    if sorted(names.values()) != sorted(labels):
        return None
    order = [next(i for i, old in enumerate(pairs.labels) if names[old] == new) for new in labels]
    return replace(pairs, labels=labels, pairs=tuple(_moved(pair, names, order) for pair in pairs))


def _moved(pair: MinimalPair, names: Mapping[str, str], order: list[int]) -> MinimalPair:
    first, second = order
    return replace(
        pair,
        words=(pair.words[first], pair.words[second]),
        counterfactuals=(pair.counterfactuals[first], pair.counterfactuals[second]),
        label=names.get(pair.label, ""),
    )


def pooled(sets: Sequence[PairSet], labels: Mapping[str, str] | None = None) -> PairSet:
    """One set with the pairs of all sets, grouped by set. A single set stays as it is.

    All sets get the labels of the first one. `labels` maps labels of the others to them; equal labels need no map.
    """
    first, given = sets[0], labels or {}
    if len(sets) == 1 and not given:
        return first
    unknown = [label for label in given if not any(label in one.labels for one in sets[1:])]
    if unknown:
        said = f"None of the further questions has the label {unknown[0]!r}, which is mapped"
        raise PivotalError(f"{said} to a label of {first.name}. Leave it out of the labels.", "labels")
    twice = [one.name for i, one in enumerate(sets) if one.name in [other.name for other in sets[:i]]]
    if twice:
        cure = "Leave one out or, if they are two files, rename one."
        raise PivotalError(f"Two of the questions are named {twice[0]}. {cure}", "phenomenon")
    mapped = [first, *(_mapped(one, first, given) for one in sets[1:])]
    return PairSet(
        name=JOINT.join(one.name for one in sets),
        labels=first.labels,
        pairs=tuple(replace(pair, group=one.name) for one in mapped for pair in one),
        held_out=_held_out(mapped),
        merged=sum(one.merged for one in mapped),
        joint=True,
        features=tuple(dict.fromkeys(feature for one in sets for feature in one.features)),
        notes=tuple(note for one in mapped for note in one.notes),
    )


def with_held_out(pairs: PairSet, test: PairSet) -> PairSet:
    """The pairs, and behind them held-out pairs from a file of their own. Both have the same two labels."""
    mapped = relabelled(test, pairs.labels)
    if mapped is None:
        here, there = (" and ".join(one.labels) for one in (pairs, test))
        said = f"The labels of the held-out pairs, {there}, must be those of the other pairs, {here}."
        raise PivotalError(f"{said} Name them alike in both files.", "test")
    return replace(
        pairs,
        pairs=(*pairs, *mapped),
        held_from=len(pairs),
        merged=pairs.merged + test.merged,
        notes=(*pairs.notes, *test.notes),
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
        here, there = (" and ".join(one.labels) for one in (first, pairs))
        said = f"{first.name} has the labels {here}, but {pairs.name} has {there}"
        raise PivotalError(f"{said}. Map those that mean the same, such as --labels {example}.", "labels")
    return found
