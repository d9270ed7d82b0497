"""The figure of a trace, an extension of the paper's figure.

From top to bottom, over the same words: the units without and with the intervention, the probability of the two words,
the share of the word flipped to, KL, and the change of each layer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import floor, log10
from typing import Any

from pivotal.printing import chance
from pivotal.records.traces import Grid, Trace
from pivotal.report.drawing import ABOVE, BELOW, BY_LABEL, OTHERS, Figure, draw
from pivotal.report.trace import (
    acting,
    activation,
    asked,
    most_moved,
    numbers,
    shares,
    sides,
    spread_layers,
    told,
    unit_names,
)

Row = dict[str, Any]

_UNITS, _LAYERS = 40, 48
"""The most rows of a panel. The table below the figure has all rows."""
_STEP, _LETTER, _ROW, _MARGIN = 58, 8, 20, 130
"""Pixels: the least width of a step, a letter, the height of a row, and the margin for names. They are the same in all
panels, so that the steps are aligned."""
_LEAST = 1e-9
"""The least probability on the logarithmic axis."""
_UPRIGHT, _MEASURED = 9, 14
"""The most steps for which tokens are horizontal, and for which cells show their numbers."""


def trace_figure(trace: Trace) -> Figure:
    return Figure(
        "trace", f"“{trace.prefix} …”", alternative(trace), draw(trace_chart(trace)), numbers(trace)
    )


def alternative(trace: Trace) -> str:
    before, after = trace.log_odds
    return (
        f"Heat maps of {len(trace.frame.units)} units over {len(trace.tokens)} steps, without and with the "
        f"intervention, the probability of {' and '.join(asked(trace))}, KL, and the change of each layer. "
        f"{told(trace)} Log-odds of {asked(trace)[trace.target]}: {before:.2f} before, {after:.2f} after. "
        f"KL is largest after “{trace.tokens[trace.kl.index(max(trace.kl))]}”."
    )


# -- the panels ------------------------------------------------------------------------------------------------


def trace_chart(trace: Trace) -> Any:
    import altair as alt

    untouched, edited = sides(trace)
    scale = _unit_scale(trace)
    panels = [
        _units(trace, trace.activation.untouched, scale, f"{untouched}: activations of the units", False),
        _units(trace, trace.activation.edited, scale, f"{edited}: the same with the intervention", True),
        _words(trace),
        _share(trace),
        _kl(trace),
        _layers(trace),
    ]
    return alt.vconcat(*panels, spacing=16).resolve_scale(color="independent")


def _unit_scale(trace: Trace) -> list[float]:
    """The largest activation of each unit. Units of transformers have no common scale, so each has its own."""
    both = zip(trace.activation.untouched, trace.activation.edited, strict=True)
    return [max(map(abs, (*a, *b))) or 1.0 for a, b in both]


def _units(trace: Trace, grid: Grid, scale: Sequence[float], title: str, set_: bool) -> Any:
    import altair as alt

    names, shown, acts = unit_names(trace), most_moved(trace, _UNITS), acting(trace)
    rows = [
        {"step": step, "name": names[unit], "share": grid[unit][step] / scale[unit],
         "text": activation(grid[unit][step]), "set": set_ and acts[unit] and trace.edited[step]}
        for unit in shown for step in range(len(trace.tokens))
    ]  # fmt: skip
    colour = alt.Color(
        "share:Q", legend=None, scale=alt.Scale(domain=[-1, 0, 1], range=[BELOW, "#f4f4f4", ABOVE])
    )
    y = _names_axis([names[unit] for unit in shown])
    chart = _heat_map(rows, _steps_axis(trace), y, colour)
    if set_:
        framed = [row for row in rows if row["set"]]
        chart = chart + alt.Chart(alt.Data(values=framed)).mark_rect(
            filled=False, stroke="#1d2329", strokeWidth=1.4
        ).encode(x=_steps_axis(trace), y=y)
    return chart.properties(title=_title(title), **_size(trace, len(shown)))


def _words(trace: Trace) -> Any:
    import altair as alt

    rows: list[Row] = [
        {"step": step, "word": word, "side": side, "p": max(_LEAST, trace.probability(w, step)[s])}
        for w, word in enumerate(asked(trace))
        for s, side in enumerate(sides(trace))
        for step in range(len(trace.tokens))
    ]
    exponents = [floor(log10(row["p"])) for row in rows]
    tens = [10.0**n for n in range(min(exponents), max(exponents) + 2)]
    axis = alt.Axis(format=".0e", values=tens[:: 1 + len(tens) // 6], minExtent=_MARGIN)
    y = alt.Y(
        "p:Q", title=None, axis=axis, scale=alt.Scale(type="log", domain=[tens[0], tens[-1]], nice=False)
    )
    word = alt.Color("word:N", title=None, scale=alt.Scale(domain=list(asked(trace)), range=list(BY_LABEL)))
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=45), strokeWidth=2)
        .encode(x=_steps_axis(trace), y=y, color=word, strokeDash=_dashes(trace))
        .properties(
            title=_title("Probability that each word comes next (dashed: untouched)"), **_size(trace, 6)
        )
    )


def _share(trace: Trace) -> Any:
    import altair as alt

    rows = [
        {"step": step, "side": side, "share": share}
        for side, line in zip(sides(trace), shares(trace), strict=True)
        for step, share in enumerate(line)
    ]
    colour = BY_LABEL[trace.target]
    axis = alt.Axis(format="%", values=[0, 0.5, 1], minExtent=_MARGIN)
    y = alt.Y("share:Q", title=None, axis=axis, scale=alt.Scale(domain=[0, 1]))
    line = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=45, color=colour), strokeWidth=2, color=colour)
        .encode(x=_steps_axis(trace), y=y, strokeDash=_dashes(trace))
    )
    half = alt.Chart(alt.Data(values=[{"share": 0.5}])).mark_rule(color=OTHERS).encode(y=y)
    title = f"Share of “{asked(trace)[trace.target]}” in the probability of both labels' words (dashed: untouched)"
    return (half + line).properties(title=_title(title), **_size(trace, 4))


def _dashes(trace: Trace) -> Any:
    """Dashes for the two sides. The titles explain them, because a legend would draw dashes as dots."""
    import altair as alt

    scale = alt.Scale(domain=list(sides(trace)), range=[[5, 4], [1, 0]])
    return alt.StrokeDash("side:N", legend=None, scale=scale)


def _kl(trace: Trace) -> Any:
    import altair as alt

    rows = [{"step": step, "kl": kl} for step, kl in enumerate(trace.kl)]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(color=OTHERS, width=22)
        .encode(
            x=_steps_axis(trace), y=alt.Y("kl:Q", title=None, axis=alt.Axis(tickCount=3, minExtent=_MARGIN))
        )
        .properties(title=_title("KL to the untouched model"), **_size(trace, 3))
    )


def _layers(trace: Trace) -> Any:
    import altair as alt

    shown = spread_layers(trace, _LAYERS)
    names = [trace.frame.layers[layer] for layer in shown]
    rows: list[Row] = [
        {
            "step": step,
            "name": trace.frame.layers[layer],
            "share": share,
            "text": chance(share) if share else "0",
        }
        for layer in shown
        for step, share in enumerate(trace.change[layer])
    ]
    colour = alt.Color(
        "share:Q",
        legend=None,
        scale=alt.Scale(domain=[0, max(row["share"] for row in rows) or 1], range=["#f4f4f4", OTHERS]),
    )
    return _heat_map(rows, _steps_axis(trace), _names_axis(names[::-1]), colour).properties(
        title=_title("Change of each layer's state, relative to its norm"),
        **_size(trace, len(shown)),
    )


def _heat_map(rows: Sequence[Row], x: Any, y: Any, colour: Any) -> Any:
    """Coloured cells, with their numbers if there is room."""
    import altair as alt

    base = alt.Chart(alt.Data(values=list(rows))).encode(x=x, y=y)
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(color=colour)
    if max(row["step"] for row in rows) >= _MEASURED:
        return cells + base.mark_text(
            opacity=0
        )  # with the same chart layers in all cases, panels keep their axes
    return cells + base.mark_text(fontSize=11, color="#1d2329").encode(text="text:N")


def _steps_axis(trace: Trace) -> Any:
    """The axis of steps. Steps are numbers with tokens as labels, because a token may occur twice."""
    import altair as alt

    names = [f"▲ {token}" if step == trace.cue else token for step, token in enumerate(trace.tokens)]
    labels = f"{json.dumps(names, ensure_ascii=False)}[datum.value]"
    return alt.X(
        "step:O",
        title=None,
        scale=alt.Scale(domain=list(range(len(names)))),
        axis=alt.Axis(
            labelExpr=labels, labelAngle=0 if len(names) <= _UPRIGHT else -40, grid=False, ticks=False
        ),
    )


def _names_axis(names: Sequence[str]) -> Any:
    import altair as alt

    return alt.Y("name:N", title=None, sort=list(names), axis=alt.Axis(minExtent=_MARGIN, ticks=False))


def _size(trace: Trace, rows: int) -> dict[str, int]:
    longest = max(map(len, trace.tokens)) + 3 if len(trace.tokens) <= _UPRIGHT else 0
    return {"width": max(_STEP, _LETTER * longest) * len(trace.tokens), "height": _ROW * rows}


def _title(text: str) -> Any:
    import altair as alt

    return alt.TitleParams(text, anchor="start", fontSize=13, fontWeight="normal", color="currentColor")
