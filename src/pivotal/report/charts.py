"""The kinds of charts that figures are made of, as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pivotal.report.drawing import ABOVE, BELOW, CHOSEN, OTHERS, WIDTH, Spec
from pivotal.report.tables import Table

Row = dict[str, Any]
Channel = dict[str, Any]

INK, ZERO = "#1d2329", "#f4f4f4"
"""The text in a heat map, and a cell of zero."""
SHARES = {"domain": [0, 1]}
LETTERS = {"color": "currentColor", "fontSize": 13}
"""Text in a chart, in the colour of the page."""

_KL_TICKS = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]
_OWN_COLOUR: Channel = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
_POINTED = ("point", "bar", "tick", "rule")
"""The marks that show the text of their field `hover` when the pointer rests on them."""


def quantity(
    field: str, title: str | None = None, scale: Mapping[str, Any] | None = None, **axis: Any
) -> Channel:
    """A channel of numbers; `axis` has the properties of its axis."""
    return {"field": field, "type": "quantitative", "title": title, "scale": dict(scale or {}), "axis": axis}


def kl_axis(field: str, most: float) -> Channel:
    """A channel of KL whose labels are far enough apart to be read. KL ranges from almost zero to several nats; a
    symmetric logarithm shows both ends."""
    scale = {"type": "symlog", "constant": 0.01, "domainMin": 0, "nice": False}
    ticks = [tick for tick in _KL_TICKS if tick <= most] or _KL_TICKS[:2]
    # d3 rounds the labels of a symmetric logarithm to one decimal, so they are written here.
    axis = {"values": ticks[:: 1 + len(ticks) // 8], "labelExpr": "'' + datum.value", "labelOverlap": True}
    return quantity(field, "KL", scale, **axis)


def described(rows: Sequence[Row], data: Table) -> list[Row]:
    """The rows with the text that is shown when the pointer rests on a mark: what the table says of each."""
    return [
        {
            **row,
            "hover": ", ".join(
                f"{head} {cell}".strip() for head, cell in zip(data.columns, cells, strict=True)
            ),
        }
        for row, cells in zip(rows, data.rows, strict=True)
    ]


def marks(rows: Sequence[Row], kind: str, look: Mapping[str, Any] | None = None, **encoding: Channel) -> Spec:
    """One layer of a chart."""
    mark = {"type": kind, **(look or {})}
    if kind in _POINTED and rows and "hover" in rows[0]:
        mark["aria"] = True
        encoding["description"] = {"field": "hover", "type": "nominal"}
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def dots(
    rows: Sequence[Row],
    x: Channel,
    *,
    intervals: Sequence[Row] = (),
    means: Sequence[Row] = (),
    legend: Mapping[str, str] | None = None,
    thickness: int = 4,
    width: int = WIDTH - 130,
    named: bool = True,
) -> Spec:
    """A line for each name, with a dot at each of its values, over a bar from `low` to `high` of each interval, and a
    tick at each of `means`.

    A row has a name, a value, a colour and perhaps an opacity. `legend` gives the colours of labels: rows then have a
    label, and each label also has a shape.
    """
    names = list(dict.fromkeys(row["name"] for row in (*intervals, *rows, *means)))
    y: Channel = {"field": "name", "type": "nominal", "sort": names, "title": None}
    if not named:
        y["axis"] = None
    encoding: dict[str, Channel] = {"color": _OWN_COLOUR}
    if legend is not None:
        by_label = {"field": "label", "type": "nominal", "title": None}
        scale = {"domain": list(legend)}  # the same for both, otherwise there would be two legends
        encoding["color"] = {**by_label, "scale": {**scale, "range": list(legend.values())}}
        encoding["shape"] = {**by_label, "scale": scale}
    if rows and "opacity" in rows[0]:
        encoding["opacity"] = {"field": "opacity", "type": "quantitative", "scale": None, "legend": None}
    low, look = {**x, "field": "low"}, {"height": thickness, "opacity": 0.4}
    layers = [
        marks(intervals, "bar", look, x=low, x2={"field": "high"}, y=y, color=_OWN_COLOUR),
        marks(rows, "point", {"filled": True, "size": 75, "opacity": 1}, x=x, y=y, **encoding),
        marks(means, "tick", {"thickness": 3, "size": 14}, x=x, y=y, color=_OWN_COLOUR),
    ]
    resolve = {"scale": {"color": "independent", "shape": "independent"}}  # one legend, of the dots
    layers = [layer for layer in layers if layer["data"]["values"]]
    return {"layer": layers, "resolve": resolve, "width": width, "height": 24 * len(names)}


def bars(rows: Sequence[Row], x: Channel) -> Spec:
    """A bar for each name, its length beside it as text. A bar to the left of zero has its text beside zero."""
    y: Channel = {"field": "name", "type": "nominal", "sort": [row["name"] for row in rows], "title": None}
    ends = [{**row, "end": max(0.0, row["value"])} for row in rows]
    look = {"align": "left", "dx": 5, **LETTERS}
    layers = [
        marks(rows, "bar", {"height": 15}, x=x, y=y, color=_OWN_COLOUR),
        marks(ends, "text", look, x={**x, "field": "end"}, y=y, text={"field": "text", "type": "nominal"}),
    ]
    return {"layer": layers, "width": WIDTH - 160, "height": 24 * len(rows)}


def lines(rows: Sequence[Row], x: Channel, panels: Sequence[Channel], *, chosen: str = "") -> Spec:
    """A panel for each quantity, one below the other, with a line for each run. The line of the chosen run stands out.

    A row has a run, the field of `x` and those of the panels, which may be None. Rows with a text `hover` have dots.
    """
    looks: dict[bool, dict[str, Any]] = {
        False: {"color": OTHERS, "strokeWidth": 1.2, "opacity": 0.5},
        True: {"color": CHOSEN, "strokeWidth": 2.2, "opacity": 1},
    }
    drawn, detail = [], {"field": "run", "type": "nominal"}
    for y in panels:
        layers = []
        below = {**x, "title": x["title"] if y is panels[-1] else None}
        for own, look in looks.items():
            part = [row for row in rows if (row["run"] == chosen) == own and row[y["field"]] is not None]
            if part:
                layers.append(marks(part, "line", look, x=below, y=y, detail=detail))
            if part and "hover" in part[0]:
                dot = {"filled": True, "size": 40, "color": look["color"], "opacity": look["opacity"]}
                layers.append(marks(part, "point", dot, x=below, y=y, detail=detail))
        drawn.append({"layer": layers, "width": WIDTH - 120, "height": 110})
    return {"vconcat": drawn, "spacing": 8}


def heat_map(
    rows: Sequence[Row],
    x: Channel,
    y: Channel,
    *,
    signed: bool,
    title: str,
    size: tuple[int, int],
    numbers: bool,
) -> Spec:
    """Cells coloured by `share`, from -1 or 0 to 1, with their texts if `numbers`. Cells that are `set` are framed."""
    scale = (
        {"domain": [-1, 0, 1], "range": [BELOW, ZERO, ABOVE]}
        if signed
        else {"domain": [0, 1], "range": [ZERO, OTHERS]}
    )
    colour: Channel = {"field": "share", "type": "quantitative", "legend": None, "scale": scale}
    # With the same layers in all cases, panels keep their axes.
    text = {"fontSize": 11, "color": INK, "opacity": float(numbers)}
    framed = [row for row in rows if row["set"]]
    layers = [
        marks(rows, "rect", {"stroke": "white", "strokeWidth": 1}, x=x, y=y, color=colour),
        marks(rows, "text", text, x=x, y=y, text={"field": "text", "type": "nominal"}),
        marks(framed, "rect", {"filled": False, "stroke": INK, "strokeWidth": 1.4}, x=x, y=y),
    ]
    heading = {"text": title, "anchor": "start", "fontWeight": "normal", **LETTERS}
    return {"layer": layers, "title": heading, "width": size[0], "height": size[1]}
