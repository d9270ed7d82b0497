"""A trace in words and as tables of text: what the command line, a figure and its alternative say alike."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from pivotal.records.traces import Trace
from pivotal.report.tables import Table, counted, number, percent, signed, table


def chance(p: float) -> str:
    """A probability; the words asked about are seldom the likeliest, so small ones are told apart too."""
    if p >= 0.0995:
        return f"{100 * p:.0f}%"
    return f"{100 * p:.2g}%" if p >= 1e-4 else f"{p:.0e}".replace("e-0", "e-")


def activation(value: float) -> str:
    """Two decimals where that says something; units of transformers may be in the hundreds."""
    if abs(value) < 0.005:
        return "0.00"
    return signed(value) if abs(value) < 100 else f"{value:+,.0f}".replace("-", "−")


def sides(trace: Trace) -> tuple[str, str]:
    """What the two sides are called."""
    return "untouched", f"→ {trace.direction}"


def unit_names(trace: Trace) -> list[str]:
    """The paper's number and ours; the number alone would not tell sites of transformers apart."""
    frame = trace.frame
    return [f"{n} ({unit})" for n, unit in zip(frame.numbers, frame.units, strict=True)]


def acting(trace: Trace) -> list[bool]:
    """Which units are set: with a mask for each direction, those of the other one are left alone."""
    return [value is not None for value in trace.frame.values[trace.target]]


def most_moved(trace: Trace, most: int) -> list[int]:
    """The units that the intervention moves farthest, in their own order."""

    def moved(unit: int) -> float:
        rows = (trace.activation.untouched[unit], trace.activation.edited[unit])
        return max(abs(a - b) for a, b in zip(*rows, strict=True))

    units = sorted(range(len(trace.frame.units)), key=moved, reverse=True)
    return sorted(units[:most])


def spread_layers(trace: Trace, most: int) -> list[int]:
    """All layers, or so many from the last that the edit leaves alone to the last there is."""
    layers = len(trace.change)
    if layers <= most:
        return list(range(layers))
    reached = next((i for i, line in enumerate(trace.change) if any(line)), 1)
    first = min(max(0, reached - 1), layers - most)
    return sorted({first + round(i * (layers - 1 - first) / (most - 1)) for i in range(most)})


def shares(trace: Trace) -> tuple[list[float], list[float]]:
    """What the word flipped to has of the probability of the two, at every step, untouched and edited: above one half
    it is preferred."""
    t = trace.target
    untouched, edited = (
        [1 / (1 + exp(min(700.0, b - a))) for a, b in zip(side[t], side[1 - t], strict=True)]
        for side in (trace.log_p.untouched, trace.log_p.edited)
    )
    return untouched, edited


def mean_kl(trace: Trace) -> float:
    """Over all positions, the prediction of the first word included, as everywhere."""
    return sum(trace.kl) / (len(trace.kl) + 1)


def told(trace: Trace) -> str:
    """What happens, in two sentences."""
    wanted, other = trace.words[trace.target], trace.words[1 - trace.target]
    before, after = shares(trace)
    units = counted(sum(acting(trace)), "unit")
    if trace.frame.steps == "every":
        when = "at every word"
    else:
        when = f"at “{trace.tokens[trace.cue]}”" if trace.cue is not None else "at the cue"
    return (
        f"“{trace.prefix} …” with {units} of {trace.frame.model} set {when} for {trace.direction}: of what "
        f"{wanted} and {other} get, {wanted} has {percent(before[-1])} untouched and {percent(after[-1])} edited. "
        f"{verdict(trace)} KL {number(mean_kl(trace))}, averaged over positions."
    )


def verdict(trace: Trace) -> str:
    before, after = trace.log_odds
    wanted, other = trace.words[trace.target], trace.words[1 - trace.target]
    if trace.flipped:
        return f"The preference flips from {other} to {wanted}."
    if before > 0:
        return f"The untouched model prefers {wanted} already" + (
            "." if after > 0 else f", and the edit turns it to {other}."
        )
    return f"The preference stays with {other}."


def numbers(trace: Trace) -> Table:
    """Everything in the trace, a column per step."""
    rows: list[Sequence[str]] = []
    for side, grid in zip(sides(trace), (trace.activation.untouched, trace.activation.edited), strict=True):
        rows += [
            (side, name, *map(activation, line)) for name, line in zip(unit_names(trace), grid, strict=True)
        ]
    for w, word in enumerate(trace.words):
        steps = [trace.probability(w, step) for step in range(len(trace.tokens))]
        rows += [
            (side, f"p({word})", *(chance(two[s]) for two in steps)) for s, side in enumerate(sides(trace))
        ]
    wanted = trace.words[trace.target]
    rows += [
        (side, f"{wanted} of the two", *map(percent, line))
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
        note="The cue is in brackets; * is a step at which units are set. Moved: how far a layer's state is from where "
        "it was, as a share of its length.",
    )


def steps_named(trace: Trace) -> list[str]:
    """The tokens, with marks that survive where there is no colour."""
    return [
        (f"[{token}]" if step == trace.cue else token) + ("*" if on else "")
        for step, (token, on) in enumerate(zip(trace.tokens, trace.edited, strict=True))
    ]
