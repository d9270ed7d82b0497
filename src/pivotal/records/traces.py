"""What became of each held-out pair, and the course of some of them step by step: data and JSON, no torch.

`tracing` makes these from a model; whoever shows them needs the run folder alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, nan
from typing import Any

from pivotal.errors import PivotalError

FORMAT = "pivotal-traces-1"
DIGITS, LOG_P_DIGITS = 4, 6
"""Significant digits that are kept: more than a figure can show. Log-probabilities have more, since the sign of their
difference says whether a preference flipped."""

Grid = tuple[tuple[float, ...], ...]
"""A row for each unit, layer or word, with a number for each step."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What all traces of one intervention have in common."""

    model: str
    phenomenon: str
    steps: str
    labels: tuple[str, str]
    units: tuple[str, ...]
    """`hidden.0:122`, in the order of the intervention."""
    numbers: tuple[int, ...]
    """The same units as the paper counts them."""
    values: tuple[tuple[float | None, ...], tuple[float | None, ...]]
    """For each label, what the units are set to for flipping to it; None where a unit is left alone."""
    layers: tuple[str, ...]
    """The sites along which the spreading of the edit is followed, from the first to the last."""


@dataclass(frozen=True, slots=True)
class Both:
    """The same of the untouched model and with the intervention."""

    untouched: Grid
    edited: Grid


@dataclass(frozen=True, slots=True)
class Trace:
    """One sentence through the model, untouched and edited; a step is a token that the model reads."""

    frame: Frame
    prefix: str
    words: tuple[str, str]
    """The two words that may follow, in the order of the labels."""
    direction: str
    """The label that is flipped to."""
    tokens: tuple[str, ...]
    cue: int | None
    """The step of the cue; None where a sentence has none."""
    edited: tuple[bool, ...]
    """The steps at which units are set."""
    activation: Both
    """Units by steps."""
    log_p: Both
    """Words by steps: the log-probability of each of the two words, if it were to follow that step."""
    kl: tuple[float, ...]
    """KL(untouched || edited) of the next word, at every step."""
    change: Grid
    """Layers by steps: |edited - untouched| / |untouched|, how far a layer's state has been moved."""
    pair: int | None = None
    """The number of the held-out pair, where it is one."""
    group: str = ""

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
        before, after = self.log_odds
        return before <= 0 < after

    def probability(self, word: int, step: int = -1) -> tuple[float, float]:
        """p(word) after a step: untouched, edited."""
        return exp(self.log_p.untouched[word][step]), exp(self.log_p.edited[word][step])

    def as_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "frame": _frame_row(self.frame), **_trace_row(self)}

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


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """What became of one held-out pair."""

    pair: int
    """Its number among the held-out pairs that the model was asked."""
    prefix: str
    cue: int
    """The index of the cue among the words of the prefix."""
    words: tuple[str, str]
    label: str
    """The label of the expected word; empty when neither is expected."""
    group: str
    direction: str
    log_odds: tuple[float, float]
    """log p(word flipped to) / p(other word): untouched (never positive), edited."""
    kl: float
    """Mean over all positions of the sentence."""

    @property
    def flipped(self) -> bool:
        return self.log_odds[1] > 0


@dataclass(frozen=True, slots=True)
class Traces:
    """traces.json: the outcomes of a run's held-out pairs, and whole traces of some."""

    frame: Frame
    run: int
    """The run of the folder that the intervention is from."""
    held_out: int
    """How many pairs were held out and asked; `pairs` may be some of them."""
    pairs: tuple[PairOutcome, ...]
    traces: tuple[Trace, ...]

    def of_pair(self, pair: int) -> Trace | None:
        return next((trace for trace in self.traces if trace.pair == pair), None)

    def dumps(self) -> str:
        """A line per pair and trace, so that a person can read it and a diff shows what differs."""
        head = {
            "format": FORMAT,
            "run": self.run,
            "held_out": self.held_out,
            "frame": _frame_row(self.frame),
        }
        parts = {
            "pairs": [_outcome_row(pair) for pair in self.pairs],
            "traces": [_trace_row(trace) for trace in self.traces],
        }
        lists = ",\n".join(
            f'"{name}": [\n' + ",\n".join(map(_compact, rows)) + "\n]" for name, rows in parts.items()
        )
        return _compact(head)[:-1] + ",\n" + lists + "}\n"

    @staticmethod
    def of(content: Mapping[str, Any], where: str = "traces.json") -> Traces:
        """From the JSON of a run folder."""
        if content.get("format") != FORMAT:
            raise PivotalError(
                f"{where} must be of the format {FORMAT!r}, but it is {content.get('format')!r}. "
                "It was made by something else, or by another version of pivotal."
            )
        try:
            frame = _frame_of(content["frame"])
            return Traces(
                frame,
                int(content["run"]),
                int(content["held_out"]),
                tuple(_outcome_of(row) for row in content["pairs"]),
                tuple(_trace_of(row, frame) for row in content["traces"]),
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PivotalError(
                f"{where} is not whole: {error!r} is missing or malformed. Repeat the run to have it again."
            ) from None


def rounded(value: float, digits: int = DIGITS) -> float | None:
    """None for what JSON has no number for: a probability may be zero, and its logarithm minus infinity."""
    return float(f"{value:.{digits}g}") if isfinite(value) else None


def _number(value: float | None) -> float:
    return nan if value is None else float(value)


# -- rows of JSON ------------------------------------------------------------------------------------------


def _compact(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _frame_row(frame: Frame) -> dict[str, Any]:
    return {
        "model": frame.model,
        "phenomenon": frame.phenomenon,
        "steps": frame.steps,
        "labels": list(frame.labels),
        "units": list(frame.units),
        "numbers": list(frame.numbers),
        "values": [[None if v is None else rounded(v) for v in values] for values in frame.values],
        "layers": list(frame.layers),
    }


def _frame_of(row: Mapping[str, Any]) -> Frame:
    first, second = (tuple(None if v is None else float(v) for v in values) for values in row["values"])
    return Frame(
        model=row["model"],
        phenomenon=row["phenomenon"],
        steps=row["steps"],
        labels=(row["labels"][0], row["labels"][1]),
        units=tuple(row["units"]),
        numbers=tuple(row["numbers"]),
        values=(first, second),
        layers=tuple(row["layers"]),
    )


def _trace_row(trace: Trace) -> dict[str, Any]:
    return {
        "pair": trace.pair,
        "prefix": trace.prefix,
        "words": list(trace.words),
        "direction": trace.direction,
        "group": trace.group,
        "tokens": list(trace.tokens),
        "cue": trace.cue,
        "edited": [int(on) for on in trace.edited],
        "activation": _both_row(trace.activation),
        "log_p": _both_row(trace.log_p, LOG_P_DIGITS),
        "kl": [rounded(kl) for kl in trace.kl],
        "change": _grid_row(trace.change),
    }


def _trace_of(row: Mapping[str, Any], frame: Frame) -> Trace:
    return Trace(
        frame=frame,
        pair=row["pair"],
        prefix=row["prefix"],
        words=(row["words"][0], row["words"][1]),
        direction=row["direction"],
        group=row["group"],
        tokens=tuple(row["tokens"]),
        cue=row["cue"],
        edited=tuple(map(bool, row["edited"])),
        activation=_both_of(row["activation"]),
        log_p=_both_of(row["log_p"]),
        kl=tuple(map(_number, row["kl"])),
        change=_grid_of(row["change"]),
    )


def _outcome_row(outcome: PairOutcome) -> dict[str, Any]:
    return {
        "pair": outcome.pair,
        "prefix": outcome.prefix,
        "cue": outcome.cue,
        "words": list(outcome.words),
        "label": outcome.label,
        "group": outcome.group,
        "direction": outcome.direction,
        "log_odds": [rounded(odds) for odds in outcome.log_odds],
        "kl": rounded(outcome.kl),
        "flipped": outcome.flipped,
    }


def _outcome_of(row: Mapping[str, Any]) -> PairOutcome:
    return PairOutcome(
        pair=int(row["pair"]),
        prefix=row["prefix"],
        cue=int(row["cue"]),
        words=(row["words"][0], row["words"][1]),
        label=row["label"],
        group=row["group"],
        direction=row["direction"],
        log_odds=(_number(row["log_odds"][0]), _number(row["log_odds"][1])),
        kl=_number(row["kl"]),
    )


def _both_row(both: Both, digits: int = DIGITS) -> dict[str, Any]:
    return {"untouched": _grid_row(both.untouched, digits), "edited": _grid_row(both.edited, digits)}


def _both_of(row: Mapping[str, Any]) -> Both:
    return Both(_grid_of(row["untouched"]), _grid_of(row["edited"]))


def _grid_row(grid: Grid, digits: int = DIGITS) -> list[list[float | None]]:
    return [[rounded(value, digits) for value in row] for row in grid]


def _grid_of(rows: Sequence[Sequence[float | None]]) -> Grid:
    return tuple(tuple(map(_number, row)) for row in rows)
