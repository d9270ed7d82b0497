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
            raise PivotalError(
                f"Labels are mapped as LABEL=LABEL,LABEL=LABEL, such as he=male,she=female, but {item!r} is not of "
                "this form.",
                "labels",
            )
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
        raise PivotalError(
            f"The labels of {pairs.name} are {' and '.join(pairs.labels)}, so {unknown[0]!r} cannot be mapped.",
            "labels",
        )
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
        features=tuple(dict.fromkeys(feature for one in sets for feature in one.features)),
        notes=tuple(note for one in mapped for note in one.notes),
    )


def with_held_out(pairs: PairSet, test: PairSet) -> PairSet:
    """The pairs, and behind them held-out pairs from a file of their own. Both have the same two labels."""
    mapped = relabelled(test, pairs.labels)
    if mapped is None:
        raise PivotalError(
            f"Held-out pairs have the labels of the pairs that are searched on, {' and '.join(pairs.labels)}, but "
            f"those of {test.name} are {' and '.join(test.labels)}. Name them alike in both files.",
            "test",
        )
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
        raise PivotalError(
            f"Questions are pooled if their labels mean the same. {first.name} has the labels "
            f"{' and '.join(first.labels)}, but {pairs.name} has {' and '.join(pairs.labels)}. Map them, for instance "
            f"with --labels {example}.",
            "labels",
        )
    return found
