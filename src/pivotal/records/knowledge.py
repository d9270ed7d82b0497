"""What the untouched model knows about a set of pairs."""

from __future__ import annotations

from pivotal.records.serial import Number, Record
from pivotal.records.share import Share


class Knowledge(Record, frozen=True, kw_only=True):
    """What can be known before a search: whether the model knows the phenomenon, and whether the pairs can show it."""

    pairs: int
    prefixes: int
    """The number of distinct prefixes, which are the independent observations."""
    accuracy: Share | None
    """How often the untouched model prefers the expected word; null if no pair states one."""
    by_label: dict[str, Share]
    """The same for the pairs that expect the word of each label."""
    directions: dict[str, int]
    """By label, the number of pairs that are to be flipped to it."""
    prefixes_towards: dict[str, int]
    """By label, the number of distinct prefixes that are to be flipped to it."""
    one_sided: Number
    """The share of pairs for which the untouched model prefers the word of its more frequent label."""
    mass: Number
    """The median over the pairs of the probability of the two words together."""
