"""How a mask was learned: the curves of history.jsonl, and the scores from the relaxed mask to the final units."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from pivotal.records.run import Progress
from pivotal.records.summary import Summary
from pivotal.report.drawing import CHOSEN, HOVER, OTHERS, WIDTH, Figure, draw
from pivotal.report.tables import Table, number, percent, shown_stage, stages_table, table

Row = dict[str, Any]

TICKS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
SERIES = ("loss", "units", "multiplier", "accuracy")
"""The series that are drawn over the updates, from top to bottom. Not every search has a multiplier."""


def learning_curves(history: Sequence[Progress], chosen: int = 0) -> Figure | None:
    """Loss, units, multiplier and flips over the updates; the line of the chosen run stands out."""
    import altair as alt

    rows = curve_rows(history)
    if not rows:
        return None
    # The mask starts with all units and ends with a few; a symmetric logarithm shows both.
    log = alt.Scale(type="symlog")
    axes = {
        "loss": alt.Y("loss:Q", title="loss", scale=log, axis=alt.Axis(tickCount=4)),
        "units": alt.Y("units:Q", title="expected units", scale=log, axis=alt.Axis(values=TICKS)),
        "multiplier": alt.Y("multiplier:Q", title="multiplier", axis=alt.Axis(tickCount=4)),
        "accuracy": alt.Y("accuracy:Q", title="flipped (relaxed)", axis=alt.Axis(format="%", tickCount=4)),
    }
    drawn = [key for key in SERIES if any(row[key] is not None for row in rows)]
    panels = [_curves(rows, key, axes[key], chosen, last=key == drawn[-1]) for key in drawn]
    runs = len({row["run"] for row in rows})
    lines = f", a line for each of {runs} runs; run {chosen} stands out" if runs > 1 else ""
    return Figure(
        "learning",
        "Learning curves",
        f"{_listed(drawn)} of the relaxed mask on training pairs over {rows[-1]['update']} updates{lines}.",
        draw(alt.vconcat(*panels, spacing=8)),
        _curves_table(rows, runs),
    )


def _listed(drawn: Sequence[str]) -> str:
    names = {"units": "expected units", "accuracy": "flipped preferences", "multiplier": "the multiplier"}
    *first, last = (names.get(key, key) for key in drawn)
    text = f"{', '.join(first)} and {last}" if first else last
    return text[0].upper() + text[1:]


def _curves(rows: Sequence[Row], key: str, y: Any, chosen: int, *, last: bool) -> Any:
    import altair as alt

    data = [
        {"update": row["update"], "run": row["run"], key: row[key]} for row in rows if row[key] is not None
    ]
    lines = [
        alt.Chart(alt.Data(values=part))
        .mark_line(**look)
        .encode(x=alt.X("update:Q", title="update" if last else None), y=y, detail="run:N")
        for part, look in _by_run(data, chosen)
    ]
    return alt.layer(*lines).properties(width=WIDTH - 110, height=100)


def _by_run(rows: Sequence[Row], chosen: int) -> list[tuple[list[Row], dict[str, Any]]]:
    """The rows of the other runs and those of the chosen run, each with its look; the chosen run is drawn last."""
    others = [row for row in rows if row["run"] != str(chosen)]
    own = [row for row in rows if row["run"] == str(chosen)]
    looks: tuple[dict[str, Any], ...] = (
        {"color": OTHERS, "strokeWidth": 1.2, "opacity": 0.5},
        {"color": CHOSEN, "strokeWidth": 2.2, "opacity": 1},
    )
    return [(part, look) for part, look in zip((others, own), looks, strict=True) if part]


def _curves_table(rows: Sequence[Row], runs: int, most: int = 60) -> Table:
    """All runs at some of the updates, about `most` lines."""
    updates = sorted({row["update"] for row in rows})
    kept = set(updates[:: -max(1, round(len(updates) * runs / most))])
    data = [
        (
            row["run"],
            str(row["update"]),
            number(row["loss"]),
            number(row["units"], 1),
            number(row["multiplier"]),
            percent(row["accuracy"]),
        )
        for row in rows
        if row["update"] in kept
    ]
    return table("", ("run", "update", "loss", "expected units", "multiplier", "flipped"), data)


def curve_rows(history: Sequence[Progress], most: int = 300) -> list[Row]:
    """A row per update and run. A long history is thinned out, but its last update is kept."""
    rows: list[Row] = []
    learning = [row for row in history if row.phase == "learn"]
    every = max(1, len(learning) // most)
    for row in learning[::-every][::-1]:
        series = {"loss": row.loss, "units": row.units, "accuracy": row.accuracy, **row.extra}
        for r in range(max(len(series.get(key, [])) for key in SERIES)):
            at = {key: _at(series.get(key, []), r) for key in SERIES}
            rows.append({"update": row.update, "run": str(r), **at})
    return rows


def _at(column: Sequence[float], run: int) -> float | None:
    """The number of a run; None if there is none or it is NaN."""
    return column[run] if run < len(column) and not isnan(column[run]) else None


def stages(summary: Summary) -> Figure | None:
    """Flips and units on training pairs, from the relaxed mask to the final units."""
    import altair as alt

    rows: list[Row] = [
        {"run": str(r), "stage": name, "accuracy": stage.get("accuracy"), "units": stage.get("units"),
         "hover": f"Run {r}, {name}: {shown_stage(stage)}"}
        for r, run in enumerate(summary.runs)
        for name, stage in run.stages.items()
    ]  # fmt: skip
    names = list(dict.fromkeys(row["stage"] for row in rows))
    if len(names) < 2:
        return None
    panels = []
    for key, title, axis in (
        ("accuracy", "flipped", alt.Axis(format="~%", tickCount=4)),
        ("units", "units", alt.Axis(tickCount=4)),
    ):
        measured = [row for row in rows if row[key] is not None]
        layers = []
        for part, look in _by_run(measured, summary.best):
            base = alt.Chart(alt.Data(values=part)).encode(
                x=alt.X("stage:O", sort=names, title=None, axis=alt.Axis(labelAngle=0)),
                y=alt.Y(f"{key}:Q", title=title, scale=alt.Scale(zero=False), axis=axis),
                detail="run:N",
            )
            dots = base.mark_point(
                filled=True, size=40, color=look["color"], opacity=look["opacity"], **HOVER
            )
            layers += [base.mark_line(**look), dots.encode(description="hover:N")]
        panels.append(alt.layer(*layers).properties(width=WIDTH - 110, height=110))
    best = summary.best_run.stages
    listed = ", ".join(f"{name} {percent(stage.get('accuracy'))}" for name, stage in best.items())
    several = len(summary.runs) > 1
    lines = f", a line for each run. Run {summary.best}, which stands out" if several else ". The run"
    return Figure(
        "stages",
        "From the relaxed mask to the final units",
        f"Flipped preferences and units on training pairs{lines}: {listed}.",
        draw(alt.vconcat(*panels, spacing=8)),
        stages_table(summary),
    )
