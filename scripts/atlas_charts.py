"""The figures of docs/atlas-findings.md; scripts/atlas_findings.py draws them."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean
from typing import Any

import altair as alt

from atlas_tables import groups, layer_of
from phenomenon_families import FAMILIES, family_of
from pivotal.report.atlas.entries import Atlas
from pivotal.report.drawing import COLOURS


def natural_chart(atlas: Atlas) -> Any:
    """Flips with natural values, a dot for each phenomenon, by family."""
    values = [
        {
            "model": model,
            "steps": steps,
            "family": family_of(entry.phenomenon),
            "natural": entry.row.judged.natural,
        }
        for model, steps, entries in groups(atlas)
        for entry in entries
        if entry.row and entry.row.judged and entry.row.judged.natural is not None
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_circle(size=55, opacity=0.6)
        .encode(
            x=alt.X("natural:Q", title="flipped with natural values", axis=alt.Axis(format="%")),
            y=alt.Y("family:N", title=None, sort=list(FAMILIES), axis=alt.Axis(labelLimit=200)),
            color=alt.Color(
                "steps:N", title="steps", scale=alt.Scale(domain=["every", "single"], range=list(COLOURS[:2]))
            ),
        )
        .properties(width=300, height=alt.Step(22))
    )
    return chart.facet(column=alt.Column("model:N", title=None, sort=list(atlas.models)))


def effects_chart(atlas: Atlas) -> Any:
    """The mean change of the phenomena of each family, by the family of the intervention."""
    values = []
    for model, steps, entries in groups(atlas):
        moved: dict[tuple[str, str], list[float]] = defaultdict(list)
        for entry in entries:
            for score in entry.cross:
                if (entry.model, score.phenomenon) not in atlas.unknown:
                    moved[family_of(entry.phenomenon), family_of(score.phenomenon)].append(score.moved)
        panel = f"{model}, {steps}"
        values += [
            {"panel": panel, "of": of, "on": on, "points": round(100 * fmean(found))}
            for (of, on), found in moved.items()
        ]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "on:N", title="phenomena of", sort=list(FAMILIES), axis=alt.Axis(labelAngle=-50, labelLimit=200)
        ),
        y=alt.Y("of:N", title="interventions of", sort=list(FAMILIES), axis=alt.Axis(labelLimit=200)),
    )
    heat = base.mark_rect().encode(
        color=alt.Color(
            "points:Q",
            title="points",
            scale=alt.Scale(domain=[0, 50], range=["#eef1f4", COLOURS[1]], clamp=True, interpolate="rgb"),
        )
    )
    text = base.mark_text(color="#1d2329", fontSize=9).encode(text="points:Q")
    return (
        alt.layer(heat, text)
        .properties(width=alt.Step(24), height=alt.Step(20))
        .facet(
            facet=alt.Facet("panel:N", title=None, sort=[f"{m}, {s}" for m, s, _ in groups(atlas)]), columns=2
        )
    )


def layers_chart(atlas: Atlas) -> Any:
    """The share of the units in each layer, counted from the bottom."""
    values = []
    for model, steps, entries in groups(atlas):
        counts = Counter(layer_of(unit.site)[1] for entry in entries for unit in entry.units)
        total = sum(counts.values())
        values += [
            {"model": model, "steps": steps, "layer": layer, "share": n / total}
            for layer, n in sorted(counts.items())
        ]
    return (
        alt.Chart(alt.Data(values=values))
        .mark_bar(size=12)
        .encode(
            x=alt.X("share:Q", title="share of the units", axis=alt.Axis(format="%")),
            y=alt.Y("layer:O", title="layer", sort="descending"),
            color=alt.Color("steps:N", legend=None, scale=alt.Scale(range=list(COLOURS[:2]))),
        )
        .properties(width=180, height=alt.Step(18))
        .facet(
            row=alt.Row("model:N", title=None, sort=list(atlas.models)),
            column=alt.Column("steps:N", title=None),
        )
        .resolve_scale(y="independent")
    )


CHARTS = {"atlas-natural": natural_chart, "atlas-effects": effects_chart, "atlas-layers": layers_chart}
