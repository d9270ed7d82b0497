"""The figures of a comparison: a line for each search, with the spread over its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pivotal.records.comparison import ComparisonRecord, ComparisonRow, RunSpread
from pivotal.report.comparison_tables import MODES, modes_of, rows_of, searches_of
from pivotal.report.drawing import COLOURS, KL_SCALE, KL_TICKS, WIDTH, Figure, draw
from pivotal.report.tables import counted, number, percent, table

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
Score = Literal["flip_accuracy", "kl"]

_SCORES: dict[Score, Callable[[ComparisonRow], RunSpread]] = {
    "flip_accuracy": lambda row: row.flip_accuracy,
    "kl": lambda row: row.kl,
}
_DODGE = 0.05
"""The horizontal distance, in units, between the marks of two searches, so that no mark hides another."""


def comparison_figures(result: ComparisonRecord) -> list[Figure]:
    made = []
    for mode in modes_of(result):
        rows = rows_of(result, mode)
        of = "" if len(modes_of(result)) == 1 else f" ({MODES[mode]})"
        prefix = "" if mode == modes_of(result)[0] else f"{mode}-"
        made += [
            _against_units(rows, f"{prefix}accuracy-units", f"Flipped preferences against units{of}",
                           "flip_accuracy", percent),
            _against_units(rows, f"{prefix}kl-units", f"KL against units{of}", "kl", number),
            _accuracy_kl(rows, f"{prefix}accuracy-kl", f"Flipped preferences against KL{of}"),
            _cost(rows, f"{prefix}cost", f"Cost against units{of}"),
        ]  # fmt: skip
    return made


def overview(result: ComparisonRecord) -> Any:
    """Flips and KL side by side, in the first mode: a figure for a paper."""
    import altair as alt

    rows = rows_of(result, modes_of(result)[0])
    panels = [_panel(rows, "flip_accuracy", 300), _panel(rows, "kl", 300)]
    return alt.hconcat(*panels, spacing=24)


def _against_units(rows: Sequence[ComparisonRow], name: str, title: str, key: Score, shown: Any) -> Figure:
    of = _SCORES[key]
    largest = max(row.size for row in rows)
    at_most = [row for row in rows if row.size == largest]
    top = max(at_most, key=lambda row: of(row).mean)
    low = min(at_most, key=lambda row: of(row).mean)
    data = [
        (row.search, str(row.size), *(shown(part) for part in (each.mean, each.sd, each.min, each.max)))
        for row in rows
        for each in (of(row),)
    ]
    return Figure(
        name,
        title,
        f"A line per search: the mean over the runs, with bars from minimum to maximum. With "
        f"{counted(largest, 'unit')}, the highest mean is {shown(of(top).mean)} ({top.search}), "
        f"the lowest {shown(of(low).mean)} ({low.search}).",
        draw(_panel(rows, key, WIDTH - 110)),
        table("", ("search", "units", "mean", "sd", "min", "max"), data),
    )


def _panel(rows: Sequence[ComparisonRow], key: Score, width: int) -> Any:
    import altair as alt

    of = _SCORES[key]
    searches = searches_of(rows)
    data = [
        {"search": row.search, "x": _beside(row, searches), "mean": of(row).mean, "least": of(row).min,
         "most": of(row).max}
        for row in rows
    ]  # fmt: skip
    flips = key == "flip_accuracy"
    scale = alt.Scale(domain=[0, 1]) if flips else alt.Scale(zero=True)
    axis = alt.Axis(format="%") if flips else alt.Axis()
    title = "preferences flipped" if flips else "KL to the untouched model"
    base = alt.Chart(alt.Data(values=data)).encode(x=_units(rows), color=_colour(searches))
    spread = base.mark_rule(strokeWidth=2, opacity=0.45).encode(
        y=alt.Y("least:Q", scale=scale, axis=axis, title=title), y2="most:Q"
    )
    y = alt.Y("mean:Q", scale=scale, axis=axis, title=title)
    lines = base.mark_line(strokeWidth=1.8, opacity=0.85).encode(y=y)
    dots = base.mark_point(size=55, filled=True, opacity=1).encode(y=y, shape=_shape(searches))
    return (spread + lines + dots).properties(width=width, height=240)


def _accuracy_kl(rows: Sequence[ComparisonRow], name: str, title: str) -> Figure:
    import altair as alt

    searches = searches_of(rows)
    data = [
        {"search": row.search, "size": row.size, "kl": row.kl.mean, "flipped": row.flip_accuracy.mean}
        for row in rows
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("kl:Q", title="KL to the untouched model", scale=KL_SCALE,
                axis=alt.Axis(values=KL_TICKS, format="~g")),
        y=alt.Y("flipped:Q", title="preferences flipped", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
        color=_colour(searches),
    )  # fmt: skip
    lines = base.mark_line(strokeWidth=1.4, opacity=0.6).encode(order="size:Q")
    dots = base.mark_point(size=55, filled=True, opacity=1).encode(shape=_shape(searches))
    names = base.mark_text(dx=8, dy=-6, fontSize=10).encode(text="size:N")
    table_rows = [
        (row.search, str(row.size), percent(row.flip_accuracy.mean), number(row.kl.mean)) for row in rows
    ]
    best = max(rows, key=lambda row: row.flip_accuracy.mean)
    return Figure(
        name,
        title,
        f"A dot per search and number of units; the label is the number of units. Means over the runs. The most flips, "
        f"{percent(best.flip_accuracy.mean)} ({best.search}, {counted(best.size, 'unit')}), come with KL "
        f"{number(best.kl.mean)}.",
        draw((lines + dots + names).properties(width=WIDTH - 110, height=260)),
        table("", ("search", "units", "flipped", "KL"), table_rows),
    )


def _cost(rows: Sequence[ComparisonRow], name: str, title: str) -> Figure:
    import altair as alt

    searches = searches_of(rows)
    panels = []
    for key, of, says, form in (
        ("seconds", lambda row: row.seconds, "seconds", "~g"),
        ("nodes", lambda row: row.nodes, "node evaluations", "~s"),
    ):
        # A logarithmic axis has no zero, so a cost of zero is drawn at the smallest value.
        data = [{"search": row.search, "x": _beside(row, searches), key: max(of(row), 0.001)} for row in rows]
        base = alt.Chart(alt.Data(values=data)).encode(
            x=_units(rows),
            y=alt.Y(f"{key}:Q", title=says, scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=4, format=form)),
            color=_colour(searches),
        )  # fmt: skip
        lines = base.mark_line(strokeWidth=1.8, opacity=0.85)
        dots = base.mark_point(size=55, filled=True, opacity=1).encode(shape=_shape(searches))
        panels.append((lines + dots).properties(width=WIDTH - 110, height=150))
    most = max(rows, key=lambda row: row.nodes)
    least = min(rows, key=lambda row: row.nodes)
    table_rows = [
        (row.search, str(row.size), f"{row.seconds:.1f}", f"{row.forward_nodes:,}", f"{row.backward_nodes:,}")
        for row in rows
    ]
    return Figure(
        name,
        title,
        f"Seconds and node evaluations of all runs together, on logarithmic axes, from {least.nodes:,} nodes "
        f"({least.search}, {counted(least.size, 'unit')}) to {most.nodes:,} ({most.search}, "
        f"{counted(most.size, 'unit')}).",
        draw(alt.vconcat(*panels, spacing=8)),
        table("", ("search", "units", "seconds", "forward nodes", "backward nodes"), table_rows),
    )


# -- what the figures share --------------------------------------------------------------------------------


def _beside(row: ComparisonRow, searches: Sequence[str]) -> float:
    return float(row.size + _DODGE * (searches.index(row.search) - (len(searches) - 1) / 2))


def _units(rows: Sequence[ComparisonRow]) -> Any:
    import altair as alt

    sizes = sorted({row.size for row in rows})
    return alt.X(
        "x:Q",
        title="units allowed",
        scale=alt.Scale(domain=[sizes[0] - 0.4, sizes[-1] + 0.4], nice=False),
        axis=alt.Axis(values=sizes, format="d", grid=False),
    )


def _colour(searches: Sequence[str]) -> Any:
    import altair as alt

    # The same domain and title as for the shape, otherwise there would be two legends.
    return alt.Color(
        "search:N",
        title=None,
        legend=alt.Legend(symbolOpacity=1, columns=4),
        scale=alt.Scale(domain=list(searches), range=_cycle(COLOURS, searches)),
    )


def _shape(searches: Sequence[str]) -> Any:
    import altair as alt

    return alt.Shape(
        "search:N", title=None, scale=alt.Scale(domain=list(searches), range=_cycle(_SHAPES, searches))
    )


def _cycle(values: Sequence[str], searches: Sequence[str]) -> list[str]:
    return [values[i % len(values)] for i in range(len(searches))]
