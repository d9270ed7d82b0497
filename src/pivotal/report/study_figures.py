"""The figures of a study: every run of every cell or, for a frontier, lines along one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pivotal.jobs.study.recipe import TableLayout
from pivotal.report.drawing import COLOURS, KL_SCALE, KL_TICKS, WIDTH, Figure, draw
from pivotal.report.study_tables import CellRows
from pivotal.report.tables import counted, number, percent, table

_NAMES = 150
"""Pixels for the names of cells, which the three panels share."""
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)

_SCALES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "flipped": ("preferences flipped", {"domain": [0, 1]}, {"format": "%", "tickCount": 5}),
    "kl": ("KL to the untouched model", KL_SCALE, {"values": KL_TICKS, "format": "~g", "labelOverlap": True}),
    "units": ("units", {"zero": True}, {"tickCount": 3, "format": "d"}),
    "seconds": ("seconds", {"type": "log"}, {"tickCount": 4, "format": "~g"}),
    "nodes": ("node evaluations", {"type": "log"}, {"tickCount": 4, "format": "~s"}),
}
"""By quantity: its title, its scale and its axis."""


def study_figures(cells: Sequence[CellRows], layout: TableLayout) -> list[Figure]:
    """The figures; an empty list if no run has finished."""
    cells = [cell for cell in cells if cell.done]
    if not cells:
        return []
    if layout.kind == "frontier" and layout.across is not None:
        return _frontier(cells, layout.across)
    return [_by_cell(cells), _trade_off(cells)]


# -- helpers of the charts ---------------------------------------------------------------------------------


def _channel(kind: str, quantity: str, field: str = "", *, title: str = "", from_zero: bool = False) -> Any:
    """An x or y channel of a quantity, with its title, scale and axis. `field` is where its numbers are."""
    import altair as alt

    its_title, scale, axis = _SCALES[quantity]
    if from_zero:
        scale, axis = {"zero": True}, {}
    make = alt.X if kind == "x" else alt.Y
    return make(
        f"{field or quantity}:Q", title=title or its_title, scale=alt.Scale(**scale), axis=alt.Axis(**axis)
    )


def _colour(field: str, names: Sequence[str], columns: int = 2) -> Any:
    """Colours by name, or one colour if there are more names than colours."""
    import altair as alt

    if len(names) > len(COLOURS):
        return alt.value(COLOURS[0])
    scale = alt.Scale(domain=list(names), range=list(COLOURS[: len(names)]))
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=scale,
        legend=alt.Legend(columns=columns, labelLimit=220, symbolOpacity=1),
    )


def _lines(base: Any, y: Any, names: Sequence[str], order: str | None = None) -> Any:
    """Lines with a mark at every point; `base` has the colours of `names`."""
    import altair as alt

    lines = base.mark_line(strokeWidth=1.8, opacity=0.8).encode(y=y)
    shapes = alt.Scale(domain=list(names), range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))])
    # The same domain and title as for the colour, otherwise there would be two legends.
    marks = base.mark_point(size=55, filled=True, opacity=1).encode(
        y=y, shape=alt.Shape("line:N", title=None, scale=shapes)
    )
    return (lines if order is None else lines.encode(order=f"{order}:Q")) + marks


def _chart(rows: Sequence[dict[str, Any]], **channels: Any) -> Any:
    import altair as alt

    return alt.Chart(alt.Data(values=list(rows))).encode(**channels)


# -- every run ---------------------------------------------------------------------------------------------


def _runs(cells: Sequence[CellRows]) -> list[dict[str, Any]]:
    return [
        {"cell": cell.name, "seed": row.seed, "flipped": row.accuracy, "kl": row.kl, "units": row.units}
        for cell in cells
        for row in cell.done
    ]


def _runs_table(rows: Sequence[dict[str, Any]]) -> Any:
    data = [
        (row["cell"], str(row["seed"]), percent(row["flipped"]), number(row["kl"]), str(row["units"]))
        for row in rows
    ]
    return table("", ("cell", "seed", "flipped", "KL", "units"), data)


def _by_cell(cells: Sequence[CellRows]) -> Figure:
    import altair as alt

    rows, names = _runs(cells), [cell.name for cell in cells]
    panels: list[Any] = []
    titles = {"flipped": "flipped", "kl": "KL", "units": "units"}
    for (quantity, title), colour in zip(titles.items(), COLOURS, strict=False):
        labels = None if panels else alt.Axis(labelLimit=_NAMES + 40)
        base = _chart(
            [row for row in rows if row[quantity] is not None],
            y=alt.Y("cell:N", sort=names, title=None, axis=labels),
        )
        x = _channel("x", quantity, title=title)
        dots = base.mark_point(filled=True, size=40, opacity=0.45, color=colour).encode(x=x)
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
        _runs_table(rows),
    )


def _trade_off(cells: Sequence[CellRows]) -> Figure:
    import altair as alt

    rows, names = _runs(cells), [cell.name for cell in cells]
    size = alt.Size(
        "units:Q",
        title="units",
        scale=alt.Scale(range=[30, 200]),
        legend=alt.Legend(tickCount=3, format="d"),
    )
    chart = _chart(
        rows, x=_channel("x", "kl"), y=_channel("y", "flipped"), size=size, color=_colour("cell", names)
    ).mark_point(filled=True, opacity=0.7)
    near = min(rows, key=lambda row: math.inf if row["kl"] is None else row["kl"])
    return Figure(
        "trade-off",
        "Flips, KL and units of every run",
        "A dot per run; larger dots have more units. The run with the lowest KL has KL "
        f"{number(near['kl'])} and flips {percent(near['flipped'])} ({near['cell']}, seed {near['seed']}).",
        draw(chart.properties(width=WIDTH - 110, height=260)),
        _runs_table(rows),
    )


# -- a frontier --------------------------------------------------------------------------------------------


def _frontier(cells: Sequence[CellRows], axis: str) -> list[Figure]:
    """Flips, KL and cost against the values of an axis, such as the number of units, with a line for each search."""
    points = [
        {
            "line": ", ".join(value for name, value in cell.label.items() if name != axis),
            "at": cell.label.get(axis, ""),
            **{
                quantity: [v for row in cell.done if (v := of(row)) is not None]
                for quantity, of in _OF.items()
            },
            "seconds": cell.seconds or 0.0,
            "nodes": cell.nodes,
        }
        for cell in cells
    ]
    return [
        _against(points, axis, "flipped", "accuracy-units", percent),
        _against(points, axis, "kl", "kl-units", number),
        _flips_and_kl(points, axis),
        _cost(points, axis),
    ]


_OF = {"flipped": lambda row: row.accuracy, "kl": lambda row: row.kl}


def _means(points: Sequence[dict[str, Any]], *quantities: str) -> list[dict[str, Any]]:
    """The points that have these quantities, with their mean, minimum and maximum over the runs."""
    return [
        {"line": point["line"], "at": point["at"], "order": i}
        | {key: sum(point[key]) / len(point[key]) for key in quantities}
        | {"least": min(point[quantities[0]]), "most": max(point[quantities[0]])}
        for i, point in enumerate(points)
        if all(point[key] for key in quantities)
    ]


def _names(rows: Sequence[dict[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def _along(points: Sequence[dict[str, Any]], axis: str) -> Any:
    import altair as alt

    return alt.X("at:O", title=axis.replace("_", " "), sort=_names(points, "at"), axis=alt.Axis(labelAngle=0))


def _against(points: Sequence[dict[str, Any]], axis: str, quantity: str, name: str, shown: Any) -> Figure:

    rows = _means(points, quantity)
    names, last = _names(rows, "line"), _names(points, "at")[-1]
    base = _chart(rows, x=_along(points, axis), color=_colour("line", names, 4))
    y, low = (_channel("y", quantity, f, from_zero=quantity == "kl") for f in (quantity, "least"))
    spread = base.mark_rule(strokeWidth=2, opacity=0.45).encode(y=low, y2="most:Q")
    ends = sorted((row for row in rows if row["at"] == last), key=lambda row: row[quantity])
    said = ""
    if ends:
        said = (
            f" At {last}, the highest mean is {shown(ends[-1][quantity])} ({ends[-1]['line']}), the lowest "
            f"{shown(ends[0][quantity])} ({ends[0]['line']})."
        )
    what = "Flipped preferences" if quantity == "flipped" else "KL"
    return Figure(
        name,
        f"{what} against {axis.replace('_', ' ')}",
        f"A line per search: the mean over the runs, with bars from minimum to maximum.{said}",
        draw((spread + _lines(base, y, names)).properties(width=WIDTH - 110, height=240)),
        table(
            "",
            ("search", axis, "mean", "min", "max"),
            [(r["line"], r["at"], *(shown(r[key]) for key in (quantity, "least", "most"))) for r in rows],
        ),
    )


def _flips_and_kl(points: Sequence[dict[str, Any]], axis: str) -> Figure:
    rows = _means(points, "flipped", "kl")
    names = _names(rows, "line")
    base = _chart(rows, x=_channel("x", "kl"), color=_colour("line", names, 4))
    y = _channel("y", "flipped")
    labels = base.mark_text(dx=8, dy=-6, fontSize=10).encode(y=y, text="at:N")
    best = max(rows, key=lambda row: row["flipped"])
    return Figure(
        "accuracy-kl",
        "Flipped preferences against KL",
        f"A dot per search and value of {axis.replace('_', ' ')}, which is its label. Means over the runs. The most "
        f"flips, {percent(best['flipped'])} ({best['line']}, {best['at']}), come with KL {number(best['kl'])}.",
        draw((_lines(base, y, names, "order") + labels).properties(width=WIDTH - 110, height=260)),
        table(
            "",
            ("search", axis, "flipped", "KL"),
            [(row["line"], row["at"], percent(row["flipped"]), number(row["kl"])) for row in rows],
        ),
    )


def _cost(points: Sequence[dict[str, Any]], axis: str) -> Figure:
    import altair as alt

    names = _names(points, "line")
    # A logarithmic axis has no zero, so a cost of zero is drawn at the smallest value.
    rows = [{**p, "seconds": max(p["seconds"], 0.001), "nodes": max(p["nodes"], 1)} for p in points]
    panels = [
        _lines(
            _chart(rows, x=_along(points, axis), color=_colour("line", names, 4)),
            _channel("y", quantity),
            names,
        ).properties(width=WIDTH - 110, height=150)
        for quantity in ("seconds", "nodes")
    ]
    least, *_, most = sorted([*points, points[0]], key=lambda point: point["nodes"])
    return Figure(
        "cost",
        f"Cost against {axis.replace('_', ' ')}",
        "Seconds and node evaluations of all runs together, on logarithmic axes, from "
        f"{least['nodes']:,} nodes ({least['line']}, {least['at']}) to {most['nodes']:,} ({most['line']}, "
        f"{most['at']}).",
        draw(alt.vconcat(*panels, spacing=8)),
        table(
            "",
            ("search", axis, "seconds", "nodes"),
            [(p["line"], p["at"], f"{p['seconds']:.1f}", f"{p['nodes']:,}") for p in points],
        ),
    )
