"""The figures of a study: every run of every cell and, for a frontier, flips and KL along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pivotal.jobs.study.recipe import TableLayout
from pivotal.report.drawing import COLOURS, KL_SCALE, KL_TICKS, WIDTH, Figure, draw
from pivotal.report.study_tables import CellRows
from pivotal.report.tables import Table, counted, number, percent, table

_NAMES = 150
"""Pixels for the names of cells, which the three panels share."""

_SCALES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "flipped": ("preferences flipped", {"domain": [0, 1]}, {"format": "%", "tickCount": 5}),
    "kl": ("KL to the untouched model", KL_SCALE, {"values": KL_TICKS, "format": "~g", "labelOverlap": True}),
    "units": ("units", {"zero": True}, {"tickCount": 3, "format": "d"}),
}
"""By quantity: its title, its scale and its axis."""

Points = Sequence[dict[str, Any]]


def study_figures(cells: Sequence[CellRows], layout: TableLayout) -> list[Figure]:
    """The figures; an empty list if no run has finished."""
    cells = [cell for cell in cells if cell.done]
    if not cells:
        return []
    if layout.kind == "frontier" and layout.across is not None:
        return [_against(cells, layout.across, quantity) for quantity in ("flipped", "kl")] + [
            _trade_off(cells)
        ]
    return [_by_cell(cells), _trade_off(cells)]


def _runs(cells: Sequence[CellRows]) -> list[dict[str, Any]]:
    return [
        {"cell": cell.name, "seed": row.seed, "flipped": row.accuracy, "kl": row.kl, "units": row.units}
        for cell in cells
        for row in cell.done
    ]


def _table(rows: Points) -> Table:
    data = [
        (row["cell"], str(row["seed"]), percent(row["flipped"]), number(row["kl"]), str(row["units"]))
        for row in rows
    ]
    return table("", ("cell", "seed", "flipped", "KL", "units"), data)


def _by_cell(cells: Sequence[CellRows]) -> Figure:
    import altair as alt

    rows, names = _runs(cells), [cell.name for cell in cells]
    panels: list[Any] = []
    for (quantity, title), colour in zip(
        {"flipped": "flipped", "kl": "KL", "units": "units"}.items(), COLOURS, strict=False
    ):
        base = _chart(
            [row for row in rows if row[quantity] is not None],
            y=alt.Y(
                "cell:N", sort=names, title=None, axis=None if panels else alt.Axis(labelLimit=_NAMES + 40)
            ),
        )
        dots = base.mark_point(filled=True, size=40, opacity=0.45, color=colour).encode(
            x=_channel(alt.X, quantity, title=title)
        )
        means = base.mark_tick(thickness=3, size=14, color=colour).encode(x=alt.X(f"mean({quantity}):Q"))
        panels.append((dots + means).properties(width=(WIDTH - _NAMES - 20) // 3, height=22 * len(names)))
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
    chart = _chart(
        rows,
        x=_channel(alt.X, "kl"),
        y=_channel(alt.Y, "flipped"),
        size=alt.Size("units:Q", title="units", scale=alt.Scale(range=[30, 200]),
                      legend=alt.Legend(tickCount=3, format="d")),
        color=_colour("cell", rows),
    ).mark_point(filled=True, opacity=0.7)  # fmt: skip
    near = min(rows, key=lambda row: math.inf if row["kl"] is None else row["kl"])
    return Figure(
        "trade-off",
        "Flips, KL and units of every run",
        "A dot per run; larger dots have more units. The run with the lowest KL has KL "
        f"{number(near['kl'])} and flips {percent(near['flipped'])} ({near['cell']}, seed {near['seed']}).",
        draw(chart.properties(width=WIDTH - 110, height=260)),
        _table(rows),
    )


def _against(cells: Sequence[CellRows], axis: str, quantity: str) -> Figure:
    """Flips or KL against the values of an axis, such as the number of units, with a line for each search."""
    import altair as alt

    shown, title = percent if quantity == "flipped" else number, axis.replace("_", " ")
    rows: list[dict[str, Any]] = []
    for cell in cells:
        values = [row.accuracy if quantity == "flipped" else row.kl for row in cell.done]
        numbers = [value for value in values if value is not None]
        line = ", ".join(value for name, value in cell.label.items() if name != axis)
        if numbers:
            rows.append({"line": line, "at": cell.label.get(axis, ""), "mean": sum(numbers) / len(numbers),
                         "least": min(numbers), "most": max(numbers)})  # fmt: skip
    base = _chart(
        rows,
        x=alt.X(
            "at:O",
            title=title,
            sort=list(dict.fromkeys(row["at"] for row in rows)),
            axis=alt.Axis(labelAngle=0),
        ),
        # Side by side, because searches often find the same.
        xOffset=alt.XOffset("line:N", sort=None, scale=alt.Scale(type="point", padding=5)),
        color=_colour("line", rows),
    )
    spread = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        y=_channel(alt.Y, quantity, "least"), y2="most:Q"
    )
    y = _channel(alt.Y, quantity, "mean")
    lines = base.mark_line(strokeWidth=1.8, opacity=0.8).encode(y=y) + base.mark_point(
        size=55, filled=True, opacity=1
    ).encode(y=y)
    low, *_, high = sorted([*rows, rows[0]], key=lambda row: row["mean"])
    return Figure(
        f"{quantity}-{axis}".replace(" ", "-"),
        f"{'Flipped preferences' if quantity == 'flipped' else 'KL'} against {title}",
        "A line per search: the mean over the runs, with bars from minimum to maximum. The highest mean is "
        f"{shown(high['mean'])} ({high['line']}, {high['at']}), the lowest {shown(low['mean'])} ({low['line']}, "
        f"{low['at']}).",
        draw((spread + lines).properties(width=WIDTH - 110, height=240)),
        table(
            "",
            ("search", title, "mean", "min", "max"),
            [
                (row["line"], row["at"], *(shown(row[key]) for key in ("mean", "least", "most")))
                for row in rows
            ],
        ),
    )


# -- what the charts share ---------------------------------------------------------------------------------


def _chart(rows: Points, **channels: Any) -> Any:
    import altair as alt

    return alt.Chart(alt.Data(values=list(rows))).encode(**channels)


def _channel(kind: Any, quantity: str, field: str = "", *, title: str = "") -> Any:
    """An x or y channel of a quantity, with its title, scale and axis. `field` is where its numbers are."""
    import altair as alt

    its_title, scale, axis = _SCALES[quantity]
    shorthand = f"{field or quantity}:Q"
    return kind(shorthand, title=title or its_title, scale=alt.Scale(**scale), axis=alt.Axis(**axis))


def _colour(field: str, rows: Points) -> Any:
    """Colours by name. With more names than colours, all marks have one colour."""
    import altair as alt

    names = list(dict.fromkeys(row[field] for row in rows))
    if len(names) > len(COLOURS):
        return alt.value(COLOURS[0])
    scale = alt.Scale(domain=names, range=list(COLOURS[: len(names)]))
    legend = alt.Legend(columns=2, labelLimit=220, symbolOpacity=1)
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=legend)
