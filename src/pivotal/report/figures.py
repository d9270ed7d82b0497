"""The figures of a run, drawn from its summary and its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from pivotal.records.history import Progress
from pivotal.records.summary import Summary
from pivotal.report.drawing import COLOURS, WIDTH, Figure, draw
from pivotal.report.evidence import MOST_UNITS, dose_figure, natural_figure
from pivotal.report.learning import learning_curves, stages
from pivotal.report.tables import ByKind, counted, interval, number, percent, points, signed, table

Row = dict[str, Any]


@runtime_checkable
class UnitValues(Protocol):
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
        learning_curves(history),
        stages(summary),
        *evidence_figures(summary),
    )
    return [figure for figure in made if figure is not None]


def evidence_figures(summary: Summary) -> list[Figure | None]:
    """The natural ranges and the dose, as far as they were measured."""
    evidence = summary.evidence
    if evidence is None:
        return []
    return [
        None if evidence.natural is None else natural_figure(evidence.natural),
        None if evidence.dose is None else dose_figure(evidence.dose),
    ]


# -- the figures -------------------------------------------------------------------------------------------


def by_construction(summary: Summary) -> Figure:
    best = summary.best_run
    rows = _share_rows(best)
    worst = min(rows, key=lambda row: row["value"])
    run = f" Run {summary.best}." if len(summary.runs) > 1 else ""
    data = [(r["name"], f"{r['n']:,}", percent(r["value"]), interval(r["low"], r["high"])) for r in rows]
    return Figure(
        "by-construction",
        "Flipped preferences by construction and direction",
        f"Dots with 95% intervals for {len(rows)} kinds of pairs, the lowest {percent(worst['value'])} "
        f"({worst['name']}).{run}",
        draw(shares_chart(best)),
        table("", ("", "pairs", "flipped", "95% interval"), data),
    )


def shares_chart(scores: ByKind) -> Any:
    """Dots with intervals."""
    import altair as alt

    rows = _share_rows(scores)
    order = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=order, title=None)
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(range=list(COLOURS)))
    scale = alt.Scale(domain=[min(0.5, *(row["low"] for row in rows)), 1])
    x = alt.X("value:Q", title="preferences flipped", scale=scale, axis=alt.Axis(format="%"))
    base = alt.Chart(alt.Data(values=rows))
    return (
        base.mark_rule(strokeWidth=3, opacity=0.45).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=colour
        )
        + base.mark_point(size=70, filled=True, opacity=1).encode(x=x, y=y, color=colour)
    ).properties(width=WIDTH - 130, height=22 * len(rows))


def _share_rows(scores: ByKind) -> list[Row]:
    return [
        {
            "name": f"{mark}{name or 'all pairs'}",
            "kind": kind,
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "n": share.n,
        }
        for kind, mark, shares in (
            ("construction", "", scores.by_group),
            ("direction", "→ ", scores.by_direction),
        )
        for name, share in shares.items()
    ]


def values(summary: Summary) -> Figure:
    units = [f"{found.number} ({label})" for label, found in summary.prevalence.items()][:MOST_UNITS]
    rows = _value_rows(summary.runs, units)
    data = [(row["unit"], row["direction"], str(row["run"]), signed(row["value"])) for row in rows]
    return Figure(
        "values",
        "What the units are set to",
        f"Values of {counted(len(units), 'unit')}: a dot for each run and direction. The table below has the numbers.",
        draw(values_chart(summary.runs, summary.labels, units)),
        table("", ("unit", "direction", "run", "value"), data, text=2),
    )


def values_chart(runs: Sequence[UnitValues], labels: Sequence[str], units: Sequence[str]) -> Any:
    """A dot for each run and direction; `units` gives the order of the rows."""
    import altair as alt

    units, labels = list(units)[:MOST_UNITS], list(labels)
    return (
        alt.Chart(alt.Data(values=_value_rows(runs, units)))
        .mark_point(filled=True, size=80, opacity=0.75)
        .encode(
            x=alt.X("value:Q", title="value that the unit is set to", scale=alt.Scale(padding=10)),
            y=alt.Y("unit:N", sort=units, title=None),
            # The same domain for both, otherwise there would be two legends.
            color=alt.Color(
                "direction:N", title="to flip to", scale=alt.Scale(domain=labels, range=list(COLOURS[:2]))
            ),
            shape=alt.Shape("direction:N", title="to flip to", scale=alt.Scale(domain=labels)),
        )
        .properties(width=WIDTH - 130, height=24 * len(units))
    )


def _value_rows(runs: Sequence[UnitValues], units: Sequence[str]) -> list[Row]:
    rows = [
        {"unit": f"{unit} ({label})", "direction": direction, "value": value, "run": r}
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
    rows: list[Row] = [
        {"unit": f"{one.number} ({one.unit})", "flipped": one.flip_accuracy} for one in best.drop_one
    ]
    shown = sorted(rows, key=lambda row: float(row["flipped"]))[:MOST_UNITS]
    base = alt.Chart(alt.Data(values=shown))
    bars = base.mark_bar(color=COLOURS[0], height=14).encode(
        x=alt.X("flipped:Q", title="flipped without the unit (line: with all units)",
                scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        y=alt.Y("unit:N", sort="x", title=None),
    )  # fmt: skip
    whole = alt.Data(values=[{"all": best.flip_accuracy}])
    line = alt.Chart(whole).mark_rule(color=COLOURS[1], strokeWidth=2).encode(x="all:Q")
    data = [
        (row["unit"], percent(row["flipped"]), points(row["flipped"] - best.flip_accuracy)) for row in rows
    ]
    least = shown[0]
    left = (
        ""
        if len(shown) == len(rows)
        else f" The chart shows the {len(shown)} of {len(rows):,} units that matter most."
    )
    return Figure(
        "drop-one",
        "Without each unit",
        f"With all units {percent(best.flip_accuracy)} are flipped; without {least['unit']}, the unit that "
        f"matters most, {percent(least['flipped'])}.{left}",
        draw((bars + line).properties(width=WIDTH - 130, height=24 * len(shown))),
        table("", ("without", "flipped", "points"), data),
    )


def control(summary: Summary) -> Figure | None:
    import altair as alt

    found = summary.controls
    if not found.sets:
        return None
    best = summary.best_run
    rows: list[Row] = [{"set": "random", "flipped": share} for share in found.flip_accuracy]
    rows.append({"set": "found", "flipped": best.flip_accuracy})
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_tick(thickness=3, size=22)
        .encode(
            x=alt.X(
                "flipped:Q",
                title="preferences flipped",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%"),
            ),
            y=alt.Y("set:N", title=None, sort=["found", "random"]),
            color=alt.Color(
                "set:N",
                legend=None,
                scale=alt.Scale(domain=["found", "random"], range=[COLOURS[1], COLOURS[6]]),
            ),
        )
        .properties(width=WIDTH - 130, height=68)
    )
    return Figure(
        "control",
        "Found units and random units",
        f"{found.sets} random sets of the same size flip {percent(found.mean)} on average and "
        f"{percent(found.best)} at best; the found units flip {percent(best.flip_accuracy)}.",
        draw(chart),
        table("", ("set", "flipped"), [(row["set"], percent(row["flipped"])) for row in reversed(rows)]),
    )


def accuracy_and_kl(summary: Summary) -> Figure | None:
    import altair as alt

    rows: list[Row] = [
        {"run": str(r), "kl": run.kl, "flipped": run.flip_accuracy, "units": str(run.units)}
        for r, run in enumerate(summary.runs)
    ]
    if len(rows) < 2:
        return None
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("kl:Q", title="KL to the untouched model", scale=alt.Scale(zero=True)),
        y=alt.Y(
            "flipped:Q", title="preferences flipped", scale=alt.Scale(zero=False), axis=alt.Axis(format=".1%")
        ),
    )
    dots = base.mark_point(filled=True, size=90, opacity=0.85).encode(
        color=alt.Color("units:N", title="units", scale=alt.Scale(range=list(COLOURS)))
    )
    names = base.mark_text(dx=9, align="left", color="currentColor").encode(text="run:N")
    chart = dots + names if len(rows) <= _NAMED else dots
    data = [(r["run"], r["units"], percent(r["flipped"]), number(r["kl"])) for r in rows]
    return Figure(
        "accuracy-kl",
        "Accuracy and KL of the runs",
        f"{len(rows)} runs. The most accurate run flips {percent(max(r['flipped'] for r in rows))}; the lowest KL is "
        f"{number(min(r['kl'] for r in rows))}.",
        draw(chart.properties(width=WIDTH - 130, height=220)),
        table("", ("run", "units", "flipped", "KL"), data),
    )
