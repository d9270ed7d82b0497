"""The figures of a study: every run of every cell, and the mean of each cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pivotal.report.drawing import COLOURS, KL_SCALE, KL_TICKS, WIDTH, Figure, draw
from pivotal.report.study_cells import CellRows
from pivotal.report.tables import counted, number, percent, table

_NAMES = 150
"""Pixels for the names of cells, which the three panels share."""


def study_figures(cells: Sequence[CellRows]) -> list[Figure]:
    """The figures; an empty list if no run has finished."""
    there = [cell for cell in cells if cell.done]
    return [_by_cell(there), _trade_off(there)] if there else []


def _runs(cells: Sequence[CellRows]) -> list[dict[str, Any]]:
    return [
        {"cell": cell.name, "seed": row.seed, "flipped": row.accuracy, "kl": row.kl, "units": row.units}
        for cell in cells
        for row in cell.done
    ]


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    data = [
        (row["cell"], str(row["seed"]), percent(row["flipped"]), number(row["kl"]), str(row["units"]))
        for row in rows
    ]
    return table("", ("cell", "seed", "flipped", "KL", "units"), data)


def _by_cell(cells: Sequence[CellRows]) -> Figure:
    import altair as alt

    rows = _runs(cells)
    names = [cell.name for cell in cells]
    share = alt.Axis(format="%", tickCount=3)
    nats = alt.Axis(values=KL_TICKS, format="~g", labelOverlap=True)
    x = {
        "flipped": alt.X("flipped:Q", title="flipped", scale=alt.Scale(domain=[0, 1]), axis=share),
        "kl": alt.X("kl:Q", title="KL", scale=KL_SCALE, axis=nats),
        "units": alt.X("units:Q", title="units", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=3, format="d")),
    }  # fmt: skip
    panels: list[Any] = []
    for key, colour in zip(x, COLOURS, strict=False):
        labels = alt.Axis(labelLimit=_NAMES + 40) if not panels else None
        base = alt.Chart(alt.Data(values=[row for row in rows if row[key] is not None])).encode(
            y=alt.Y("cell:N", sort=names, title=None, axis=labels)
        )
        dots = base.mark_point(filled=True, size=40, opacity=0.45, color=colour).encode(x=x[key])
        means = base.mark_tick(thickness=3, size=14, color=colour).encode(x=alt.X(f"mean({key}):Q"))
        width = (WIDTH - _NAMES - 20) // 3
        panels.append((dots + means).properties(width=width, height=22 * len(names)))
    best = max(rows, key=lambda row: row["flipped"])
    least = min(rows, key=lambda row: row["flipped"])
    return Figure(
        "by-cell",
        "Flips, KL and units, cell by cell",
        f"A dot for each of {counted(len(rows), 'run')}, a bar at the mean of each of {counted(len(names), 'cell')}. "
        f"The most flips are {percent(best['flipped'])} ({best['cell']}), the fewest {percent(least['flipped'])} "
        f"({least['cell']}).",
        draw(alt.hconcat(*panels, spacing=14)),
        _table(rows),
    )


def _trade_off(cells: Sequence[CellRows]) -> Figure:
    import altair as alt

    rows = _runs(cells)
    names = [cell.name for cell in cells]
    # With more cells than colours, all dots have one colour; the first figure shows the names.
    few = len(names) <= len(COLOURS)
    scale = alt.Scale(domain=names, range=list(COLOURS[: len(names)]))
    legend = alt.Legend(columns=2, labelLimit=220, symbolOpacity=1)
    colour = alt.Color("cell:N", title=None, scale=scale, legend=legend) if few else alt.value(COLOURS[0])
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, opacity=0.7)
        .encode(
            x=alt.X("kl:Q", title="KL to the untouched model", scale=KL_SCALE,
                    axis=alt.Axis(values=KL_TICKS, format="~g")),
            y=alt.Y("flipped:Q", title="preferences flipped", scale=alt.Scale(domain=[0, 1]),
                    axis=alt.Axis(format="%")),
            size=alt.Size("units:Q", title="units", scale=alt.Scale(range=[30, 200]),
                          legend=alt.Legend(tickCount=3, format="d")),
            color=colour,
        )
        .properties(width=WIDTH - 110, height=260)
    )  # fmt: skip
    near = min(rows, key=lambda row: math.inf if row["kl"] is None else row["kl"])
    return Figure(
        "trade-off",
        "Flips, KL and units of every run",
        "A dot per run; larger dots have more units. The run with the lowest KL has KL "
        f"{number(near['kl'])} and flips {percent(near['flipped'])} ({near['cell']}, seed {near['seed']}).",
        draw(chart),
        _table(rows),
    )
