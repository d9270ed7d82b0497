"""What `pivotal check` finds: whether a model can score a question, before any search."""

from __future__ import annotations

from pivotal.records.evidence import Knowledge
from pivotal.records.serial import Number, Record
from pivotal.records.summary import Overlap, Rejections
from pivotal.units import Steps


class DividedWord(Record, frozen=True, kw_only=True):
    """A word that is asked about and that the model reads as several tokens."""

    word: str
    tokens: tuple[str, ...]
    pairs: int
    """The number of pairs that ask about it."""


class Exchangeable(Record, frozen=True, kw_only=True):
    """The pairs that `--values interchange` can use."""

    pairs: int
    """The number of pairs that were scored."""
    usable: int
    """The number of them with a counterfactual prefix for the label to flip to, which the model can read."""
    reasons: dict[str, int] = {}
    """The number of the others by reason, the most frequent first."""


class CheckReport(Record, frozen=True, kw_only=True):
    """Whether a model can score a question, and what the untouched model says."""

    model: str
    phenomenon: str
    steps: Steps
    split: str = ""
    """What is unseen in a held-out pair; `file` if the held-out pairs come from a file of their own."""
    labels: tuple[str, str] | None = None
    """Null if the pairs could not be read."""
    pairs: int = 0
    """The number of pairs that were read."""
    asked: int = 0
    """The number of pairs that the model can score."""
    sampled: int | None = None
    """The number of pairs that were scored, if that was a sample."""
    notes: tuple[str, ...] = ()
    """What a reader inferred or left out."""
    rejected: Rejections = Rejections(total=0, reasons={})
    left_out: dict[str, int] = {}
    """Words that are left out of their sets, by reason, with the number of pairs."""
    exchange: Exchangeable | None = None
    """Null if the model can score no pair."""
    divided: tuple[DividedWord, ...] = ()
    """The words of several tokens. They are compared at the first token where they differ."""
    knowledge: Knowledge | None = None
    """Null if the model can score no pair."""
    train: int = 0
    """The number of pairs to search on."""
    test: int = 0
    """The number of held-out pairs."""
    to_flip: dict[str, int] = {}
    """By label, the number of distinct held-out prefixes that can be flipped to it. The verdict needs 10 each."""
    overlap: Overlap | None = None
    """What the held-out pairs share with the others."""
    seconds: Number | None = None
    """A rough estimate of the time of the default search on this machine."""
    warnings: tuple[str, ...] = ()
    """What speaks against the question."""
    reason: str = ""
    """Why `find` refuses the question; empty if it does not."""

    def __repr__(self) -> str:
        from pivotal.report.notebook import check_text

        return check_text(self)
