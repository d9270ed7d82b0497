"""units.json: what each unit of a run's best intervention does in the untouched model.

`evidence/unit_profiles.py` computes them with a model. Showing them needs only the run folder.
"""

from __future__ import annotations

from pivotal.records.serial import Number, Record


class Histogram(Record, frozen=True, kw_only=True):
    """The states of a unit in the untouched model, at the steps that the intervention edits."""

    low: Number
    """The lower end of the first bin. The first and the last bin also count the states beyond them."""
    high: Number
    """The upper end of the last bin."""
    counts: dict[str, tuple[int, ...]]
    """By the label that the untouched model prefers: the number of states in each bin. All bins are equally wide."""

    def __post_init__(self) -> None:
        # The reader of a file turns a ValueError into a message.
        bins = {len(counts) for counts in self.counts.values()}
        if len(bins) != 1 or 0 in bins:
            raise ValueError("Histogram without a bin, or whose labels have different numbers of bins")


class Moment(Record, frozen=True, kw_only=True):
    """A word of a text, and the state of the unit after it."""

    value: Number
    before: str
    """The words before it, in the same sentence."""
    word: str
    after: str


class WordChange(Record, frozen=True):
    """The change of a word's logit, relative to the mean over the vocabulary."""

    word: str
    logit: Number


class Written(Record, frozen=True, kw_only=True):
    """The words whose logits change most if the unit is set, through no later layer and no later step."""

    up: tuple[WordChange, ...]
    down: tuple[WordChange, ...]
    asked: tuple[WordChange, ...] = ()
    """The words that the question asks about most often, of both labels."""


class UnitProfile(Record, frozen=True, kw_only=True):
    """One unit. Of an attention head, states are root mean squares."""

    unit: str
    """Site and index, such as `hidden.0:122`."""
    values: dict[str, Number | None]
    """By direction, the value that it is set to; null if it is not set."""
    mean: Number
    """The mean of its natural states."""
    natural: Histogram
    highest: tuple[Moment, ...]
    """The words of the text after which it is highest, each word once; empty if the model cannot read the text."""
    lowest: tuple[Moment, ...]
    written: dict[str, Written] | None
    """By direction. Empty if the unit has no direct path to the output; null if the model's adapter cannot tell."""


class UnitProfiles(Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-units-1"):
    """units.json: the units of a run's best intervention, as they are in the untouched model."""

    run: int
    """The number of the run that found the units."""
    units: int
    """The number of units of the intervention; `profiles` may have fewer."""
    text: str
    """The name of the text of `highest` and `lowest`."""
    tokens: int
    """The number of tokens of the text that were read; 0 if the model cannot read it."""
    profiles: tuple[UnitProfile, ...]
