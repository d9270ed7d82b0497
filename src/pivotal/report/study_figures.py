"""The figures of a study: every run of every cell or, for a frontier, flips and KL along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pivotal.jobs.study.recipe import TableLayout
from pivotal.printing import counted
from pivotal.records.study import StudyRow
from pivotal.report import charts
from pivotal.report.charts import SHARES, Channel, Row, described, marks, quantity
from pivotal.report.drawing import COLOURS, WIDTH, Figure, Spec, draw
from pivotal.report.study_tables import CellRows
from pivotal.report.tables import number, percent, table

_QUANTITIES: dict[str, tuple[str, Callable[[StudyRow], float | None], Callable[[float | None], str]]] = {
    "flipped": ("flipped preferences", lambda row: row.accuracy, percent),
    "kl": ("KL to the untouched model", lambda row: row.kl, number),
    "units": ("units", lambda row: row.units, lambda units: number(units, 0)),
}
"""By name: the title of a quantity, its value in a run, and that value as text."""


def study_figures(cells: Sequence[CellRows], layout: TableLayout) -> list[Figure]:
    """The figures; an empty list if no run has finished."""
    cells = [cell for cell in cells if cell.done]
    if not cells:
        return []
    if layout.kind == "frontier" and layout.across is not None:
        return [_against(cells, layout.across, name) for name in ("flipped", "kl")]
    return [_by_cell(cells)]


def _by_cell(cells: Sequence[CellRows]) -> Figure:
    """A panel for each quantity, with a dot for each run and a tick at the mean of each cell."""
    runs = [(cell, row) for cell in cells for row in cell.done]
    texts = [[text(of(row)) for _, of, text in _QUANTITIES.values()] for _, row in runs]
    lines = [(cell.name, str(row.seed), *shown) for (cell, row), shown in zip(runs, texts, strict=True)]
    data = table("", ("cell", "seed", "flipped", "KL", "units"), lines)
    panels: list[Spec] = []
    for (name, (_, of, _)), colour in zip(_QUANTITIES.items(), COLOURS, strict=False):
        look = {"colour": colour, "opacity": 0.45}
        dots = described([{"name": cell.name, "value": of(row), **look} for cell, row in runs], data)
        dots = [dot for dot in dots if dot["value"] is not None]
        spreads = [(cell.name, cell.spread(of)) for cell in cells]
        means = [{"name": cell, "value": mean[0], "colour": colour} for cell, mean in spreads if mean]
        x = {**_axis(name, [dot["value"] for dot in dots], "value"), "title": "KL" if name == "kl" else name}
        panels.append(charts.dots(dots, x, means=means, width=(WIDTH - 170) // 3, named=not panels))
    flips = [(row.accuracy, cell.name) for cell, row in runs if row.accuracy is not None]
    best, least = max(flips), min(flips)
    return Figure(
        "by-cell",
        "Flips, KL and units, cell by cell",
        f"A dot for each of {counted(len(runs), 'run')}, a bar at the mean of each of {counted(len(cells), 'cell')}. "
        f"The most flips are {percent(best[0])} ({best[1]}), the fewest {percent(least[0])} ({least[1]}).",
        draw({"hconcat": panels, "spacing": 14}),
        data,
    )


def _against(cells: Sequence[CellRows], axis: str, name: str) -> Figure:
    """Flips or KL against the values of an axis, such as the number of units, with a line for each search."""
    (title, of, text), across = _QUANTITIES[name], axis.replace("_", " ")
    rows: list[Row] = []
    for cell in cells:
        values = [value for row in cell.done if (value := of(row)) is not None]
        line = ", ".join(value for label, value in cell.label.items() if label != axis)
        if values:
            rows.append({"line": line, "at": cell.label.get(axis, ""), "mean": sum(values) / len(values),
                         "least": min(values), "most": max(values)})  # fmt: skip
    cells_of = [
        (row["line"], row["at"], *(text(row[key]) for key in ("mean", "least", "most"))) for row in rows
    ]
    data = table("", ("search", across, "mean", "min", "max"), cells_of)
    order = list(dict.fromkeys(row["at"] for row in rows))
    beside = {"type": "point", "padding": 5}
    encoding: dict[str, Channel] = {
        "x": {"field": "at", "type": "ordinal", "title": across, "sort": order, "axis": {"labelAngle": 0}},
        # Side by side, because searches often find the same.
        "xOffset": {"field": "line", "type": "nominal", "sort": None, "scale": beside},
        "color": _colour([row["line"] for row in rows]),
    }
    y = _axis(name, [row["most"] for row in rows], "mean") | {"title": title}
    layers = [
        marks(rows, "rule", {"strokeWidth": 2, "opacity": 0.45}, y={**y, "field": "least"}, y2={"field": "most"},
              **encoding),
        marks(rows, "line", {"strokeWidth": 1.8, "opacity": 0.8}, y=y, **encoding),
        marks(described(rows, data), "point", {"size": 55, "filled": True, "opacity": 1}, y=y, **encoding),
    ]  # fmt: skip
    low, *_, high = sorted([*rows, rows[0]], key=lambda row: row["mean"])
    return Figure(
        f"{name}-{axis}".replace(" ", "-"),
        f"{title[0].upper()}{title[1:]} against {across}",
        "A line per search: the mean over the runs, with bars from minimum to maximum. The highest mean is "
        f"{text(high['mean'])} ({high['line']}, {high['at']}), the lowest {text(low['mean'])} ({low['line']}, "
        f"{low['at']}).",
        draw({"layer": layers, "width": WIDTH - 110, "height": 240}),
        data,
    )


def _axis(name: str, values: Sequence[float], field: str) -> Channel:
    if name == "kl":
        return charts.kl_axis(field, max(values, default=0.0))
    if name == "units":
        return quantity(field, "units", {"zero": True}, tickCount=3, format="d")
    return quantity(field, "flipped", SHARES, format="%", tickCount=5)


def _colour(names: Sequence[str]) -> Channel:
    """Colours by line. With more lines than colours, all marks have one colour."""
    names = list(dict.fromkeys(names))
    if len(names) > len(COLOURS):
        return {"value": COLOURS[0]}
    scale = {"domain": names, "range": list(COLOURS[: len(names)])}
    legend = {"columns": 2, "labelLimit": 220, "symbolOpacity": 1}
    return {"field": "line", "type": "nominal", "title": None, "scale": scale, "legend": legend}
