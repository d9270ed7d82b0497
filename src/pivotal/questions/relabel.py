"""Map the labels of pairs to other labels, such as those of an intervention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet


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
            f"The pairs of {pairs.name} are labelled {' and '.join(pairs.labels)}, so {unknown[0]!r} cannot be mapped.",
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
