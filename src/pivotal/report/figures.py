"""The figures of a run, drawn from its summary and its history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import floor
from typing import Any, Protocol, runtime_checkable

from pivotal.records.run import Progress
from pivotal.records.summary import Summary
from pivotal.report.drawing import BY_LABEL, CHOSEN, HOVER, OTHERS, WIDTH, Figure, draw
from pivotal.report.evidence_figures import MOST_UNITS, cost_figure, dose_figure, natural_figure
from pivotal.report.learning import learning_curves, stages
from pivotal.report.tables import ByKind, counted, interval, number, percent, points, signed, table

Row = dict[str, Any]


@runtime_checkable
class HasUnitValues(Protocol):
    """The units of a run and their values by direction."""

    @property
    def unit_labels(self) -> tuple[str, ...]: ...

    @property
    def unit_numbers(self) -> tuple[int, ...]: ...

    @property
    def values(self) -> dict[str, tuple[float | None, ...]]: ...


_NAMED = 10
"""With more runs than this, the labels of the runs would overlap and are not drawn."""


def figures(summary: Summary, history: Sequence[Progress]) -> list[Figure]:
    """All figures for which there is data."""
    made = (
        by_construction(summary),
        values(summary),
        drop_one(summary),
        control(summary),
        accuracy_and_kl(summary),
        learning_curves(history, summary.best),
        stages(summary),
        *evidence_figures(summary),
    )
    return [figure for figure in made if figure is not None]


def evidence_figures(summary: Summary) -> list[Figure | None]:
    """The cost, the natural ranges and the dose, as far as they were measured."""
    evidence = summary.evidence
    if evidence is None:
        return []
    return [
        cost_figure(summary, evidence),
        None if evidence.natural is None else natural_figure(evidence.natural),
        None if evidence.dose is None else dose_figure(evidence.dose),
    ]


# -- the figures -------------------------------------------------------------------------------------------


def by_construction(summary: Summary) -> Figure:
    best = summary.best_run
    rows = _share_rows(best)
    worst = min(rows, key=lambda row: row["value"])
    data = [(r["name"], f"{r['n']:,}", percent(r["value"]), interval(r["low"], r["high"])) for r in rows]
    return Figure(
        "by-construction",
        "Flipped preferences by construction and direction",
        f"Dots with 95% intervals for {counted(len(rows), 'kind')} of pairs, the lowest {percent(worst['value'])} "
        f"({worst['name']}).",
        draw(shares_chart(best, summary.labels)),
        table("", ("", "pairs", "flipped", "95% interval"), data),
    )


def shares_chart(scores: ByKind, labels: Sequence[str] = ()) -> Any:
    """Dots with intervals. `labels` gives the order of the directions, which decides their colours."""
    import altair as alt

    rows = _share_rows(scores, labels)
    order = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=order, title=None)
    colour = alt.Color("colour:N", legend=None, scale=None)
    least = min(0.5, *(row["low"] for row in rows))
    scale = alt.Scale(domain=[floor(10 * least) / 10, 1])
    x = alt.X("value:Q", title="preferences flipped", scale=scale, axis=alt.Axis(format="%"))
    base = alt.Chart(alt.Data(values=rows))
    return (
        base.mark_rule(strokeWidth=3, opacity=0.45).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=colour
        )
        + base.mark_point(size=70, filled=True, opacity=1, **HOVER).encode(
            x=x, y=y, color=colour, description="hover:N"
        )
    ).properties(width=WIDTH - 130, height=22 * len(rows))


def _share_rows(scores: ByKind, labels: Sequence[str] = ()) -> list[Row]:
    colours = dict(zip(labels or scores.by_direction, BY_LABEL, strict=False))
    return [
        {
            "name": f"{mark}{name or 'all pairs'}",
            "colour": CHOSEN if not mark else colours.get(name, OTHERS),
            "hover": f"{mark}{name or 'all pairs'}: {percent(share.value)} of {share.n:,} pairs "
            f"({interval(share.low, share.high)})",
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "n": share.n,
        }
        for mark, shares in (("", scores.by_group), ("→ ", scores.by_direction))
        for name, share in shares.items()
    ]


def values(summary: Summary) -> Figure:
    best = summary.best_run
    own = zip(best.unit_numbers, best.unit_labels, strict=True)
    units = [f"{number} ({label})" for number, label in own][:MOST_UNITS]
    rows = _value_rows(summary.runs, units)
    others = (
        " Faint dots are the values of other runs that found the same unit." if len(summary.runs) > 1 else ""
    )
    data = [(row["unit"], row["direction"], str(row["run"]), signed(row["value"])) for row in rows]
    return Figure(
        "values",
        "What the units are set to",
        f"Values of {counted(len(units), 'unit')}: a dot for each direction.{others}",
        draw(values_chart(summary.runs, summary.labels, units, summary.best)),
        table("", ("unit", "direction", "run", "value"), data, text=2),
    )


def values_chart(
    runs: Sequence[HasUnitValues], labels: Sequence[str], units: Sequence[str], chosen: int | None = None
) -> Any:
    """A dot for each run and direction; `units` gives the order of the rows. If a run is chosen, the dots of others are
    faint."""
    import altair as alt

    units, labels = list(units)[:MOST_UNITS], list(labels)
    return (
        alt.Chart(alt.Data(values=_value_rows(runs, units)))
        .mark_point(filled=True, size=80, **HOVER)
        .encode(
            opacity=alt.value(0.75)
            if chosen is None
            else alt.condition(f"datum.run == {chosen}", alt.value(1), alt.value(0.25)),
            description="hover:N",
            x=alt.X(
                "value:Q",
                title="value that the unit is set to",
                scale=alt.Scale(padding=10),
                axis=alt.Axis(tickCount=6),
            ),
            y=alt.Y("unit:N", sort=units, title=None),
            # The same domain for both, otherwise there would be two legends.
            color=alt.Color(
                "direction:N", title="to flip to", scale=alt.Scale(domain=labels, range=list(BY_LABEL))
            ),
            shape=alt.Shape("direction:N", title="to flip to", scale=alt.Scale(domain=labels)),
        )
        .properties(width=WIDTH - 130, height=24 * len(units))
    )


def _value_rows(runs: Sequence[HasUnitValues], units: Sequence[str]) -> list[Row]:
    rows = [
        {
            "unit": f"{unit} ({label})",
            "direction": direction,
            "value": value,
            "run": r,
            "hover": f"{unit} ({label}), run {r}: {'' if value is None else signed(value)} for {direction}",
        }
        for r, run in enumerate(runs)
        for direction, numbers in run.values.items()
        for label, unit, value in zip(run.unit_labels, run.unit_numbers, numbers, strict=True)
    ]
    return [row for row in rows if row["value"] is not None and row["unit"] in units]


def drop_one(summary: Summary) -> Figure | None:
    import altair as alt

    best = summary.best_run
    if not best.drop_one:
        return None
    lost = {one.unit: best.flip_accuracy - one.flip_accuracy for one in best.drop_one}
    rows: list[Row] = [
        {"unit": f"{one.number} ({one.unit})", "flipped": one.flip_accuracy, "lost": 100 * lost[one.unit],
         "text": points(-lost[one.unit]),
         "hover": f"Without {one.number} ({one.unit}): {percent(one.flip_accuracy)} flipped"}
        for one in best.drop_one
    ]  # fmt: skip
    shown = sorted(rows, key=lambda row: -float(row["lost"]))[:MOST_UNITS]
    base = alt.Chart(alt.Data(values=shown)).encode(
        x=alt.X("lost:Q", title="flipped preferences lost without the unit (points)"),
        y=alt.Y("unit:N", sort=[row["unit"] for row in shown], title=None),
    )
    bars = base.mark_bar(color=CHOSEN, height=14, **HOVER).encode(description="hover:N")
    # A unit whose removal helps has a bar to the left of zero, and its number beside zero.
    numbers = base.mark_text(align="left", dx=5, color="currentColor", fontSize=13).encode(
        x=alt.X("end:Q"), text="text:N"
    ).transform_calculate(end="max(0, datum.lost)")  # fmt: skip
    data = [(row["unit"], percent(row["flipped"]), row["text"]) for row in rows]
    most = shown[0]
    left = (
        ""
        if len(shown) == len(rows)
        else f" The chart shows the {len(shown)} of {len(rows):,} units that matter most."
    )
    return Figure(
        "drop-one",
        "What is lost without each unit",
        f"With all units {percent(best.flip_accuracy)} are flipped; without {most['unit']}, the unit that "
        f"matters most, {percent(most['flipped'])}. The other units keep their values.{left}",
        draw((bars + numbers).properties(width=WIDTH - 150, height=24 * len(shown))),
        table("", ("without", "flipped", "points"), data),
    )


def control(summary: Summary) -> Figure | None:
    import altair as alt

    found = summary.controls
    if not found.sets:
        return None
    best = summary.best_run
    rows: list[Row] = [
        {"set": "random", "flipped": share, "hover": f"A random set: {percent(share)} flipped"}
        for share in found.flip_accuracy
    ]
    said = f"The found units: {percent(best.flip_accuracy)} flipped"
    rows.append({"set": "found", "flipped": best.flip_accuracy, "hover": said})
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_tick(thickness=3, size=22, **HOVER)
        .encode(
            x=alt.X(
                "flipped:Q",
                title="preferences flipped",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            y=alt.Y("set:N", title=None, sort=["found", "random"]),
            description="hover:N",
            color=alt.Color(
                "set:N",
                legend=None,
                scale=alt.Scale(domain=["found", "random"], range=[CHOSEN, OTHERS]),
            ),
        )
        .properties(width=WIDTH - 130, height=68)
    )
    return Figure(
        "control",
        "Found units and random units",
        f"{counted(found.sets, 'random set')} of the same size: {percent(found.mean)} flipped on average and "
        f"{percent(found.best)} at best; with the found units {percent(best.flip_accuracy)}.",
        draw(chart),
        table("", ("set", "flipped"), [(row["set"], percent(row["flipped"])) for row in reversed(rows)]),
    )


def accuracy_and_kl(summary: Summary) -> Figure | None:
    import altair as alt

    rows: list[Row] = [
        {"run": str(r), "kl": run.kl, "flipped": run.flip_accuracy, "units": str(run.units),
         "colour": CHOSEN if r == summary.best else OTHERS,
         "hover": f"Run {r}: {counted(run.units, 'unit')}, {percent(run.flip_accuracy)} flipped, KL {number(run.kl)}"}
        for r, run in enumerate(summary.runs)
    ]  # fmt: skip
    if len(rows) < 2:
        return None
    x = alt.X("kl:Q", title="KL to the untouched model", scale=alt.Scale(zero=True))
    y = alt.Y(
        "flipped:Q",
        title="preferences flipped",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format="~%", tickCount=4),
    )
    dots = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=90, opacity=0.85, **HOVER)
        .encode(x=x, y=y, color=alt.Color("colour:N", scale=None), description="hover:N")
    )
    # Runs that found the same units are in one place, and their numbers would cover each other.
    places: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        places[percent(row["flipped"]), number(row["kl"])].append(row)
    named = [{**there[0], "run": ", ".join(row["run"] for row in there)} for there in places.values()]
    names = (
        alt.Chart(alt.Data(values=named))
        .mark_text(dx=9, align="left", color="currentColor")
        .encode(x=x, y=y, text="run:N")
    )
    chart = dots + names if len(rows) <= _NAMED else dots
    data = [(r["run"], r["units"], percent(r["flipped"]), number(r["kl"])) for r in rows]
    return Figure(
        "accuracy-kl",
        "Accuracy and KL of the runs",
        f"{len(rows)} runs, by number; run {summary.best} is the chosen one. "
        f"The most accurate run flips {percent(max(r['flipped'] for r in rows))}; the lowest KL is "
        f"{number(min(r['kl'] for r in rows))}.",
        draw(chart.properties(width=WIDTH - 130, height=220)),
        table("", ("run", "units", "flipped", "KL"), data),
    )
