"""The figures of the evidence: the natural ranges, the cost and the dose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotal.records.evidence import Dose, Evidence, Natural, UnitRange
from pivotal.records.summary import Summary
from pivotal.report.drawing import (
    BY_LABEL,
    CHOSEN,
    HOVER,
    KL_SCALE,
    KL_TICKS,
    OTHERS,
    REAL,
    WIDTH,
    Figure,
    draw,
)
from pivotal.report.tables import counted, number, percent, signed, table

MOST_UNITS = 20
"""The most units that a chart shows. The table below the chart has all units."""


def natural_figure(natural: Natural) -> Figure | None:
    """The natural range of each unit, and the values that it is set to."""
    shown = natural.ranges[:MOST_UNITS]
    if not shown:
        return None
    directions = list(shown[0].values)
    rows = [
        (one.unit, signed(one.low), signed(one.high), *(_value(one.values[d]) for d in directions))
        for one in natural.ranges
    ]
    inside = sum(one.inside for one in natural.ranges)
    return Figure(
        "natural",
        "Natural ranges",
        f"The natural range of each unit as a bar, and the values that it is set to as dots. {inside} of "
        f"{counted(len(natural.ranges), 'unit')} {'stays' if inside == 1 else 'stay'} inside.",
        draw(_natural_chart(shown)),
        table("", ("unit", "1st percentile", "99th percentile", *(f"→ {d}" for d in directions)), rows),
    )


def _value(value: float | None) -> str:
    return "left alone" if value is None else signed(value)


def _natural_chart(ranges: Sequence[UnitRange]) -> Any:
    import altair as alt

    order = [one.unit for one in ranges]
    bars = [
        {
            "unit": one.unit,
            "low": one.low,
            "high": one.high,
            "hover": f"{one.unit}: natural range {signed(one.low)} to {signed(one.high)}",
        }
        for one in ranges
    ]
    labels = [f"→ {direction}" for direction in ranges[0].values]
    dots = [
        {
            "unit": one.unit,
            "direction": f"→ {direction}",
            "value": value,
            "hover": f"{one.unit}: {signed(value)} for {direction}",
        }
        for one in ranges
        for direction, value in one.values.items()
        if value is not None
    ]
    y = alt.Y("unit:N", sort=order, title=None)
    bar = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(height=12, opacity=0.35, color=OTHERS, **HOVER)
        .encode(
            x=alt.X("low:Q", title="activation", scale=alt.Scale(padding=10), axis=alt.Axis(tickCount=6)),
            x2="high:Q",
            y=y,
            description="hover:N",
        )
    )
    colour = alt.Color("direction:N", title=None, scale=alt.Scale(domain=labels, range=list(BY_LABEL)))
    shape = alt.Shape("direction:N", title=None, scale=alt.Scale(domain=labels))
    dot = (
        alt.Chart(alt.Data(values=dots))
        .mark_point(size=70, filled=True, opacity=1, **HOVER)
        .encode(x="value:Q", y=y, color=colour, shape=shape, description="hover:N")
    )
    return (bar + dot).properties(width=WIDTH - 130, height=26 * len(ranges))


def dose_figure(dose: Dose) -> Figure:
    """Flips and KL over the dose."""
    half = "No dose up to 2 flips half." if dose.half is None else f"Half flip at dose {dose.half:.2f}."
    rows = [
        (f"{d:g}", percent(f), number(k))
        for d, f, k in zip(dose.doses, dose.flip_accuracy, dose.kl, strict=True)
    ]
    return Figure(
        "dose",
        "Dose and response",
        f"Flipped preferences and KL over the dose, from untouched (0) to the found values (1) and twice as far (2). "
        "KL is estimated from a sample of positions here, so at dose 1 it can differ from the KL of the run. "
        f"{half} From dose 0 to 1, {percent(dose.monotone)} of the pairs move towards the target at every step; "
        f"{percent(dose.wrong_way)} end up farther from it.",
        draw(_dose_chart(dose)),
        table("", ("dose", "flipped", "KL"), rows),
    )


def _dose_chart(dose: Dose) -> Any:
    import altair as alt

    rows = [
        {"dose": d, "flipped": f, "kl": k, "hover": f"Dose {d:g}: {percent(f)} flipped, KL {number(k)}"}
        for d, f, k in zip(dose.doses, dose.flip_accuracy, dose.kl, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("dose:Q", title="dose", axis=alt.Axis(tickCount=5))
    )
    scale: Any = KL_SCALE
    axes = (
        alt.Y(
            "flipped:Q",
            title="flipped",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=4),
        ),
        alt.Y("kl:Q", title="KL", scale=scale, axis=_kl_axis(max(dose.kl))),
    )
    panels = []
    for y in axes:
        line = base.mark_line(color=CHOSEN, strokeWidth=2).encode(y=y)
        dots = base.mark_point(color=CHOSEN, filled=True, size=50, opacity=1, **HOVER).encode(
            y=y, description="hover:N"
        )
        panels.append(
            (line + dots.encode(y=y, description="hover:N")).properties(width=WIDTH - 130, height=130)
        )
    return alt.vconcat(*panels)


def _kl_axis(most: float) -> Any:
    """An axis of KL whose labels are far enough apart to be read."""
    import altair as alt

    ticks = [tick for tick in KL_TICKS if tick <= most] or KL_TICKS[:2]
    # d3 rounds the labels of a symmetric logarithm to one decimal, so they are written here.
    return alt.Axis(values=ticks[:: 1 + len(ticks) // 8], labelExpr="'' + datum.value")


def cost_figure(summary: Summary, evidence: Evidence) -> Figure | None:
    """The KL of the intervention beside that of a real change of the cue."""
    if evidence.swap is None:
        return None
    rows = [("these units", summary.kl, CHOSEN, summary.flip_accuracy)]
    if evidence.natural is not None and summary.values != "natural":
        natural = evidence.natural
        rows.append(("values in the natural range", natural.kl, CHOSEN, natural.flipped.value))
    rows.append(("a real change of the cue", evidence.swap.kl, REAL, evidence.swap.flipped.value))
    ratio = summary.kl / evidence.swap.kl if evidence.swap.kl > 0 else None
    times = "" if ratio is None else f" The units cost {ratio:.2f} times as much as a real change of the cue."
    return Figure(
        "cost",
        "The cost, on the scale of a real change",
        f"KL to the untouched model: {'; '.join(f'{name} {number(kl)}' for name, kl, _, _ in rows)}.{times}",
        draw(_cost_chart(rows, summary.max_kl)),
        table("", ("", "KL", "flipped"), [(name, number(kl), percent(share)) for name, kl, _, share in rows]),
    )


def _cost_chart(rows: Sequence[tuple[str, float, str, float]], bound: float | None) -> Any:
    import altair as alt

    data = [
        {"name": name, "kl": kl, "colour": colour, "text": number(kl),
         "hover": f"{name}: KL {number(kl)}, {percent(share)} flipped"}
        for name, kl, colour, share in rows
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("kl:Q", title="KL to the untouched model (nats)"),
        y=alt.Y("name:N", sort=[name for name, *_ in rows], title=None),
    )
    bars = base.mark_bar(height=16, **HOVER).encode(
        color=alt.Color("colour:N", scale=None), description="hover:N"
    )
    chart = bars + base.mark_text(align="left", dx=5, color="currentColor", fontSize=13).encode(text="text:N")
    if bound is not None:
        limit = [{"bound": bound, "hover": f"The bound on KL: {bound:g}"}]
        line = alt.Chart(alt.Data(values=limit)).mark_rule(
            color="currentColor", strokeDash=[4, 3], strokeWidth=2
        )
        chart = chart + line.encode(x="bound:Q")
    return chart.properties(width=WIDTH - 170, height=30 * len(rows))
