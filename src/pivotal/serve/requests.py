"""What the page sends, as typed records with limits. Anything else is refused before a model sees it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pivotal.records.serial import Record
from pivotal.units import Steps

MOST_UNITS, MOST_TOKENS = 64, 256
"""The most units that are set at once, and tokens of a sentence."""
MOST_LINES = 300
"""The most pairs that are pasted."""

Name = Annotated[str, Meta(max_length=300)]
Short = Annotated[str, Meta(max_length=2000)]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class UnitValues(Record, frozen=True):
    """A unit and what it is set to when flipping to each of the two labels; null if it is not set."""

    unit: Name
    """`hidden.0:122`."""
    values: tuple[float | None, float | None]
    """For a unit of several coordinates, such as an attention head, a factor of its usual values."""


class OfRun(Record, frozen=True, kw_only=True):
    """The intervention that a request is about: one of the interventions of a run folder."""

    run: Count
    which: Count | None = None
    """Its number in the run folder. Default: the best one."""


class UnitRequest(OfRun, frozen=True, kw_only=True):
    """What is known about a unit, so that the page can offer a slider for it."""

    unit: Name


class Edited(OfRun, frozen=True, kw_only=True):
    """An intervention with the units and values of the page instead of its own."""

    units: Annotated[list[UnitValues], Meta(max_length=MOST_UNITS)]


class SentenceRequest(Edited, frozen=True, kw_only=True):
    """A sentence to predict the next word of, with some units set."""

    sentence: Short
    words: tuple[Short, Short] | None = None
    """The two words that may follow. Default: the last word of the sentence, and the word that goes with it."""
    cue: Name | None = None
    """The word at which a single-step intervention acts, or its index. Default: a word that the run has as a cue."""
    direction: Name | None = None
    """The label to flip to. Default: that of the word that the untouched model does not prefer."""


class Paste(Edited, frozen=True, kw_only=True):
    """Pairs of the user, one in a line."""

    text: Annotated[str, Meta(max_length=50_000)]


class Start(Record, frozen=True, kw_only=True):
    """A search to start."""

    model: Name = "wiki-lstm"
    phenomenon: Name = "number-agreement"
    steps: Steps = "every"
    max_units: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    updates: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    runs: Annotated[int, Meta(ge=1, le=100)] = 1
    seed: Count = 0

    def __post_init__(self) -> None:
        for name in ("model", "phenomenon"):
            # No path can hold a zero, and a command must fit in a line.
            if not getattr(self, name).isprintable():
                raise ValueError(f"{name} cannot hold control characters")
