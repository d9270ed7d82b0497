"""traces.json: the outcome of each held-out pair, and some pairs step by step.

`evidence/trace.py` computes them with a model. Showing them needs only the run folder.
"""

from __future__ import annotations

from math import exp
from typing import Any

from msgspec import UNSET
from msgspec.structs import force_setattr

from pivotal.records import serial
from pivotal.records.serial import Number, Record
from pivotal.records.serial import replace as _replace

FORMAT = "pivotal-traces-1"

DIGITS, LOG_P_DIGITS = 4, 6
"""Significant digits that are written, more than a figure can show. Log-probabilities have more digits, because the
sign of their difference decides whether a preference flips."""

Grid = tuple[tuple[Number, ...], ...]
"""A row for each unit, layer or word, with a number for each step."""


class Frame(Record, frozen=True, kw_only=True):
    """What all traces of an intervention have in common."""

    model: str
    phenomenon: str
    steps: str
    labels: tuple[str, str]
    units: tuple[str, ...]
    """`hidden.0:122`, in the order of the intervention."""
    values: tuple[tuple[float | None, ...], tuple[float | None, ...]]
    """For each label, the values of the units when flipping to it; null where a unit is not set."""
    layers: tuple[str, ...]
    """The sites along which the effect of the edit is followed, from the first to the last."""

    def check(self) -> None:
        """Raise ValueError, which the reader of a file turns into a message, unless there is one number per unit."""
        for row in self.values:
            if len(row) != len(self.units):
                raise ValueError(f"Frame with {len(self.units)} units, but {len(row)} values")


class Both(Record, frozen=True):
    """One quantity in the untouched model and with the intervention."""

    untouched: Grid
    edited: Grid


class Trace(Record, frozen=True, kw_only=True):
    """One sentence through the model, untouched and edited; a step is a token that the model reads."""

    frame: Frame = UNSET  # type: ignore[assignment]
    """Omitted in traces.json, where all traces share one frame."""
    prefix: str
    words: tuple[str, str]
    """The two words that may follow, in the order of the labels."""
    direction: str
    """The label that is flipped to."""
    tokens: tuple[str, ...]
    cue: int | None
    """The step of the cue; null if the sentence has none."""
    edited: tuple[int, ...]
    """1 for each step at which units are set, else 0."""
    activation: Both
    """Units by steps."""
    log_p: Both
    """Words by steps: the log-probability of each of the two words, if it were to follow that step."""
    kl: tuple[Number, ...]
    """KL(untouched || edited) of the next word, at every step."""
    change: Grid
    """Layers by steps: |edited - untouched| / |untouched|, the relative change of a layer's state."""
    pair: int | None = None
    """The number of the held-out pair; null for other sentences."""
    group: str = ""

    def check(self, frame: Frame) -> None:
        """Raise ValueError, which the reader of a file turns into a message, unless all parts fit together."""
        steps = len(self.tokens)
        if not steps or self.direction not in frame.labels or not (self.cue is None or 0 <= self.cue < steps):
            raise ValueError("Trace without a step, or whose cue or direction does not exist")
        grids = [(grid, len(frame.units)) for grid in (self.activation.untouched, self.activation.edited)]
        grids += [(grid, 2) for grid in (self.log_p.untouched, self.log_p.edited)]
        grids += [(self.change, len(frame.layers)), ((self.kl, self.edited), 2)]
        if any(len(grid) != rows or any(len(row) != steps for row in grid) for grid, rows in grids):
            raise ValueError(f"Trace of {steps} steps whose numbers are not of as many steps and all rows")

    @property
    def target(self) -> int:
        """Which of the two words is flipped to."""
        return self.frame.labels.index(self.direction)

    @property
    def log_odds(self) -> tuple[float, float]:
        """log p(word flipped to) / p(other word) after the last step: untouched, edited."""
        t = self.target
        return (
            self.log_p.untouched[t][-1] - self.log_p.untouched[1 - t][-1],
            self.log_p.edited[t][-1] - self.log_p.edited[1 - t][-1],
        )

    @property
    def flipped(self) -> bool:
        """Whether the edit flips the preference."""
        before, after = self.log_odds
        return before <= 0 < after

    def probability(self, word: int, step: int = -1) -> tuple[float, float]:
        """p(word) after a step: untouched, edited."""
        # A rounding error, or a damaged file, may have a log-probability above zero.
        untouched, edited = (min(rows[word][step], 0.0) for rows in (self.log_p.untouched, self.log_p.edited))
        return exp(untouched), exp(edited)

    def rounded(self) -> Trace:
        """The trace with rounded numbers, as it is written."""
        return _replace(
            self,
            edited=tuple(map(int, self.edited)),
            activation=_rounded(self.activation),
            log_p=_rounded(self.log_p, LOG_P_DIGITS),
            kl=_rounded(self.kl),
            change=_rounded(self.change),
        )

    def as_dict(self) -> dict[str, Any]:
        """The trace and its frame as JSON content."""
        frame = _replace(self.frame, values=_rounded(self.frame.values))
        return {"format": FORMAT, **serial.plain(_replace(self.rounded(), frame=frame))}

    def __repr__(self) -> str:
        (before, after), word = self.probability(self.target), self.words[self.target]
        return f"Trace({self.prefix} → {word}, to {self.direction}: p {before:.2g} untouched, {after:.2g} edited)"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import trace_html

        return trace_html(self)

    def plot(self) -> Any:
        """Units, words and KL over the steps, as an altair chart."""
        from pivotal.report.notebook import plot_trace

        return plot_trace(self)


class PairOutcome(Record, frozen=True, kw_only=True):
    """The outcome of one held-out pair."""

    pair: int
    """Its number among the held-out pairs that the model can score."""
    prefix: str
    cue: int | None
    """The index of the cue among the words of the prefix; null if there is none."""
    words: tuple[str, str]
    """The two words that may follow, in the order of the labels."""
    label: str
    """The label of the expected word; empty when neither is expected."""
    group: str
    direction: str
    """The label that is flipped to."""
    log_odds: tuple[Number, Number]
    """log p(word flipped to) / p(other word): untouched (never positive), edited."""
    kl: Number
    """Mean over all positions of the sentence."""
    flipped: bool = False
    """Whether the edited model prefers the word flipped to."""

    def __post_init__(self) -> None:
        # Computed from the log-odds, even if a file states another value.
        force_setattr(self, "flipped", self.log_odds[1] > 0)

    def as_row(self) -> dict[str, Any]:
        """The outcome as a row of a table."""
        row = serial.plain(self)
        row["untouched_log_odds"], row["edited_log_odds"] = row.pop("log_odds")
        return {**row, "words": " / ".join(self.words)}


class Traces(Record, frozen=True, kw_only=True, tag_field="format", tag=FORMAT):
    """traces.json: the outcomes of the held-out pairs of a run, and complete traces of some pairs."""

    run: int
    """The number of the run that found the intervention."""
    held_out: int
    """The number of held-out pairs that were scored; `pairs` may have fewer."""
    frame: Frame
    pairs: tuple[PairOutcome, ...]
    traces: tuple[Trace, ...]

    def __post_init__(self) -> None:
        self.frame.check()
        if any(pair.direction not in self.frame.labels for pair in self.pairs):
            raise ValueError("Pair whose direction does not exist")
        for trace in self.traces:
            trace.check(self.frame)
        force_setattr(self, "traces", tuple(_replace(trace, frame=self.frame) for trace in self.traces))

    def dumps(self) -> str:
        """JSON with a line per pair and trace, so that a person can read it and a diff shows what differs."""
        frame = _replace(self.frame, values=_rounded(self.frame.values))
        head = {"format": FORMAT, "run": self.run, "held_out": self.held_out, "frame": frame}
        parts: dict[str, list[Any]] = {
            "pairs": [
                _replace(pair, log_odds=_rounded(pair.log_odds), kl=_rounded(pair.kl)) for pair in self.pairs
            ],
            "traces": [_replace(trace.rounded(), frame=UNSET) for trace in self.traces],
        }
        lists = ",\n".join(
            f'"{name}": [\n' + ",\n".join(serial.encode(row, indent=-1) for row in rows) + "\n]"
            for name, rows in parts.items()
        )
        return serial.encode(head, indent=-1)[:-1] + ",\n" + lists + "}\n"


def _rounded(value: Any, digits: int = DIGITS) -> Any:
    """A number, or every number of a tuple or a `Both`, rounded to `digits` significant digits."""
    if isinstance(value, tuple):
        return tuple(_rounded(item, digits) for item in value)
    if isinstance(value, Both):
        return Both(_rounded(value.untouched, digits), _rounded(value.edited, digits))
    return None if value is None else float(f"{value:.{digits}g}")
