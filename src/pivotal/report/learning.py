"""How a mask was learned: what history.jsonl says, as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pivotal.report.drawing import COLOURS, WIDTH, Figure, draw
from pivotal.report.tables import number, percent, table

Row = dict[str, Any]

TICKS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]


def learning_curves(history: Sequence[Mapping[str, Any]]) -> Figure | None:
    import altair as alt

    rows = curve_rows(history)
    if not rows:
        return None
    # All units at first and a few at the end: only a logarithm, one that has a zero, shows both.
    log = alt.Scale(type="symlog")
    panels = [
        _curves(rows, "loss", alt.Y("loss:Q", title="loss", scale=log, axis=alt.Axis(tickCount=4))),
        _curves(
            rows, "units", alt.Y("units:Q", title="expected units", scale=log, axis=alt.Axis(values=TICKS))
        ),
        _curves(
            rows, "accuracy", alt.Y("accuracy:Q", title="flipped", axis=alt.Axis(format="%", tickCount=4))
        ),
    ]
    updates = sorted({row["update"] for row in rows})
    kept = set(updates[:: max(1, len(updates) // 20)]) | {updates[-1]}
    data = [
        (
            row["run"],
            str(row["update"]),
            number(row["loss"]),
            number(row["units"], 1),
            percent(row["accuracy"]),
        )
        for row in rows
        if row["update"] in kept
    ]
    return Figure(
        "learning",
        "Learning curves",
        f"Loss, expected units and flipped preferences on training pairs over {updates[-1]} updates, "
        "a line per run.",
        draw(alt.vconcat(*panels, spacing=8)),
        table("", ("run", "update", "loss", "units", "flipped"), data),
    )


def _curves(rows: Sequence[Row], key: str, y: Any) -> Any:
    import altair as alt

    data = [
        {"update": row["update"], "run": row["run"], key: row[key]} for row in rows if row[key] is not None
    ]
    return (
        alt.Chart(alt.Data(values=data))
        .mark_line(strokeWidth=1.6, opacity=0.85)
        .encode(
            x=alt.X("update:Q", title="update" if key == "accuracy" else None),
            y=y,
            color=alt.Color("run:N", title="run", scale=alt.Scale(range=list(COLOURS))),
        )
        .properties(width=WIDTH - 110, height=110)
    )


def curve_rows(history: Sequence[Mapping[str, Any]], most: int = 300) -> list[Row]:
    """A row per update of the learning and run; a long history is thinned out, but never of its last update."""
    rows: list[Row] = []
    learning = [row for row in history if row["phase"] == "learn"]
    every = max(1, len(learning) // most)
    for row in learning[::-every][::-1]:
        series = {key: row[key] for key in ("loss", "units", "accuracy")}
        for r in range(max(map(len, series.values()))):
            at = {key: column[r] if r < len(column) else None for key, column in series.items()}
            rows.append({"update": row["update"], "run": str(r), **at})
    return rows
