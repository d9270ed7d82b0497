"""Sentences and tables about a trace, for the command line, figures and their text alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from pivotal.printing import chance
from pivotal.questions.minimal_pair import shown
from pivotal.records.traces import Trace
from pivotal.report.tables import Table, counted, number, percent, signed, table


def activation(value: float) -> str:
    """An activation: two decimals, or none for large values, which transformers may have."""
    if abs(value) < 0.005:
        return "0.00"
    return signed(value) if abs(value) < 100 else f"{value:+,.0f}".replace("-", "−")


def sides(trace: Trace) -> tuple[str, str]:
    """The names of the two sides."""
    return "untouched", f"→ {trace.direction}"


def unit_names(trace: Trace) -> list[str]:
    """Number and site of each unit. The number alone would be ambiguous in transformers."""
    frame = trace.frame
    return [f"{n} ({unit})" for n, unit in zip(frame.numbers, frame.units, strict=True)]


def acting(trace: Trace) -> list[bool]:
    """Whether each unit is set. With a mask per direction, units of the other direction are not set."""
    return [value is not None for value in trace.frame.values[trace.target]]


def most_moved(trace: Trace, most: int) -> list[int]:
    """The units whose activation changes most, in their own order."""

    def moved(unit: int) -> float:
        rows = (trace.activation.untouched[unit], trace.activation.edited[unit])
        return max(abs(a - b) for a, b in zip(*rows, strict=True))

    units = sorted(range(len(trace.frame.units)), key=moved, reverse=True)
    return sorted(units[:most])


def spread_layers(trace: Trace, most: int) -> list[int]:
    """All layers, or at most `most` of them, from the last unchanged layer to the last layer."""
    layers = len(trace.change)
    if layers <= most:
        return list(range(layers))
    reached = next((i for i, line in enumerate(trace.change) if any(line)), 1)
    first = min(max(0, reached - 1), layers - most)
    return sorted({first + round(i * (layers - 1 - first) / (most - 1)) for i in range(most)})


def shares(trace: Trace) -> tuple[list[float], list[float]]:
    """The share of the words flipped to in the probability of the words of both labels, at every step, untouched and
    edited. Above one half they are preferred."""
    t = trace.target
    untouched, edited = (
        [1 / (1 + exp(min(700.0, b - a))) for a, b in zip(side[t], side[1 - t], strict=True)]
        for side in (trace.log_p.untouched, trace.log_p.edited)
    )
    return untouched, edited


def mean_kl(trace: Trace) -> float:
    """The mean over all positions, including the prediction of the first word, as in all scores."""
    return sum(trace.kl) / (len(trace.kl) + 1)


def asked(trace: Trace) -> tuple[str, str]:
    """The two words as they are shown. A long set of words is shortened."""
    first, second = trace.words
    return shown(first), shown(second)


def told(trace: Trace) -> str:
    """The outcome, in some sentences."""
    wanted, other = asked(trace)[trace.target], asked(trace)[1 - trace.target]
    before, after = shares(trace)
    units = counted(sum(acting(trace)), "unit")
    if trace.frame.steps == "every":
        when = "at every word"
    else:
        when = f"at “{trace.tokens[trace.cue]}”" if trace.cue is not None else "at the cue"
    return (
        f"“{trace.prefix} …” with {units} of {trace.frame.model} set {when} for {trace.direction}: the share of "
        f"“{wanted}” in the probability of “{wanted}” and “{other}” is {percent(before[-1])} untouched and "
        f"{percent(after[-1])} edited. "
        f"{verdict(trace)} KL {number(mean_kl(trace))}, averaged over positions."
    )


def verdict(trace: Trace) -> str:
    before, after = trace.log_odds
    wanted, other = asked(trace)[trace.target], asked(trace)[1 - trace.target]
    if trace.flipped:
        return f"The preference flips from “{other}” to “{wanted}”."
    if before > 0:
        return f"The untouched model prefers “{wanted}” already" + (
            "." if after > 0 else f", and the edit turns it to “{other}”."
        )
    return f"The preference stays with “{other}”."


def numbers(trace: Trace) -> Table:
    """All numbers of the trace, a column per step."""
    rows: list[Sequence[str]] = []
    for side, grid in zip(sides(trace), (trace.activation.untouched, trace.activation.edited), strict=True):
        rows += [
            (side, name, *map(activation, line)) for name, line in zip(unit_names(trace), grid, strict=True)
        ]
    for w, word in enumerate(asked(trace)):
        steps = [trace.probability(w, step) for step in range(len(trace.tokens))]
        rows += [
            (side, f"p({word})", *(chance(two[s]) for two in steps)) for s, side in enumerate(sides(trace))
        ]
    wanted = asked(trace)[trace.target]
    rows += [
        (side, f"share of “{wanted}”", *map(percent, line))
        for side, line in zip(sides(trace), shares(trace), strict=True)
    ]
    rows.append(("", "KL", *(number(kl) for kl in trace.kl)))
    rows += [
        ("moved", layer, *map(percent, line))
        for layer, line in zip(trace.frame.layers, trace.change, strict=True)
    ]
    return table(
        "",
        ("", "", *steps_named(trace)),
        rows,
        text=2,
        note="The cue is in brackets; * is a step at which units are set. Moved: distance of a layer's state from the "
        "untouched state, relative to the norm of the untouched state.",
    )


def steps_named(trace: Trace) -> list[str]:
    """The tokens, with marks for the cue and for edited steps."""
    return [
        (f"[{token}]" if step == trace.cue else token) + ("*" if on else "")
        for step, (token, on) in enumerate(zip(trace.tokens, trace.edited, strict=True))
    ]
