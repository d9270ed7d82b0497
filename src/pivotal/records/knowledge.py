"""What the untouched model knows of a question: the figures that say whether a search is worth its time."""

from __future__ import annotations

from pivotal.printing import chance
from pivotal.records.serial import Number, Record
from pivotal.records.share import Share


class LabelKnowledge(Record, frozen=True, kw_only=True):
    """The pairs of one label."""

    pairs: int
    """The number of pairs whose expected word has this label."""
    accuracy: Share | None
    """The share of them in which the model prefers the expected word; null if there are none."""
    preferred: int
    """The number of all pairs in which the model prefers the word of this label; they are flipped to the other."""
    prefixes: int
    """The number of distinct prefixes among those pairs."""


class Knowledge(Record, frozen=True, kw_only=True):
    """What the untouched model prefers in the pairs that it can be asked."""

    pairs: int
    clusters: int
    """The number of distinct prefixes. Pairs with the same prefix share a state, so they are not independent."""
    labelled: int
    """The number of pairs that state an expected word."""
    accuracy: Share | None
    """The share of labelled pairs in which the model prefers the expected word; null if no pair states one."""
    by_label: dict[str, LabelKnowledge]
    by_group: dict[str, Share]
    """The accuracy by construction, for the groups with labelled pairs."""
    one_sided: Number
    """The share of pairs in which the model prefers the label that it prefers more often: 0.5 is balanced, 1 is always
    the same label."""
    mass: Number
    """The median probability of the words of both labels together. If it is small, the model expects none of them."""
    rank: Number
    """The median rank of the words of the more likely label: 1 plus the number of tokens that are more likely."""
    sampled: int | None = None
    """The number of prefixes whose pairs give both medians, if that is a sample of them; else null."""
    cue_tells: Number | None = None
    """How well the cue word tells which label is right: 1 if each cue word goes with one label, 0 if it does no better
    than with random labels. Null if the pairs cannot say, for example because no cue word is repeated."""
    contradicted: int = 0
    """The number of prefixes after which pairs with the same words expect different labels."""

    def told(self) -> str:
        """The figures in one line."""
        right = "No pair states what is right"
        if self.accuracy is not None:
            share = self.accuracy
            right = (
                f"The untouched model prefers the expected word in {share.value:.1%} of {self.labelled:,} pairs (95% "
                f"interval {share.low:.1%} to {share.high:.1%})"
            )
        prefers = " and ".join(f"“{label}” in {part.preferred:,}" for label, part in self.by_label.items())
        sample = "" if self.sampled is None else f" in a sample of {self.sampled:,} prefixes"
        return (
            f"{right}; it prefers {prefers}. The words of both labels together have a median probability of "
            f"{chance(self.mass)}{sample}."
        )

    @property
    def directions(self) -> dict[str, int]:
        """The number of pairs that are flipped to each label."""
        first, second = self.by_label
        return {first: self.by_label[second].preferred, second: self.by_label[first].preferred}

    @property
    def prefixes_towards(self) -> dict[str, int]:
        """The number of distinct prefixes that are flipped to each label."""
        first, second = self.by_label
        return {first: self.by_label[second].prefixes, second: self.by_label[first].prefixes}
