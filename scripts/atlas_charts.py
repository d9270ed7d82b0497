"""The figures of docs/atlas-findings.md; scripts/atlas_findings.py draws them."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean
from typing import Any

import altair as alt

from atlas_tables import accuracy, groups, layer_of, layers
from phenomenon_families import FAMILIES, family_of
from pivotal.report.atlas.entries import Atlas
from pivotal.report.drawing import COLOURS


def flips_chart(atlas: Atlas) -> Any:
    """Flips, a dot for each phenomenon, by family. The two kinds of steps are on two lines of a family."""
    values = [
        {"model": model, "steps": steps, "family": family_of(entry.phenomenon), "flips": accuracy(entry)}
        for model, steps, entries in groups(atlas)
        for entry in entries
    ]
    kinds = list(dict.fromkeys(steps for _, steps, _ in groups(atlas)))
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_circle(size=40, opacity=0.65)
        .encode(
            x=alt.X("flips:Q", title="flipped", axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])),
            y=alt.Y("family:N", title=None, sort=list(FAMILIES), axis=alt.Axis(labelLimit=200, grid=False)),
            yOffset=alt.YOffset("steps:N", sort=kinds, scale=alt.Scale(paddingOuter=0.4)),
            color=alt.Color(
                "steps:N", title="steps", scale=alt.Scale(domain=kinds, range=list(COLOURS[: len(kinds)]))
            ),
        )
        .properties(width=200, height=alt.Step(12))
    )
    return chart.facet(column=alt.Column("model:N", title=None, sort=list(atlas.models)), spacing=34)


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
    # The fonts of a browser may be wider than those that the layout is computed with.
    look: dict[str, Any] = {"labelLimit": 200, "labelFontSize": 10, "titlePadding": 14}
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("on:N", title="phenomena of", sort=list(FAMILIES), axis=alt.Axis(labelAngle=-50, **look)),
        y=alt.Y("of:N", title="interventions of", sort=list(FAMILIES), axis=alt.Axis(**look)),
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
    """The share of the units in each layer, counted from the bottom. Each model has its own number of layers."""
    tops = layers(atlas)
    panels: dict[str, list[Any]] = defaultdict(list)
    for model, steps, entries in groups(atlas):
        counts = Counter(layer_of(unit.site)[1] for entry in entries for unit in entry.units)
        last = tops[model]
        total, every = sum(counts.values()), range(last + 1)
        values = [{"layer": layer, "share": counts[layer] / total} for layer in every]
        many = len(every) > 12
        panels[model].append(
            alt.Chart(
                alt.Data(values=values), title=alt.Title(f"{model}, {steps}", fontSize=11, anchor="start")
            )
            .mark_bar(size=6 if many else 12, color=COLOURS[steps == "single"])
            .encode(
                x=alt.X(
                    "share:Q",
                    title="share of the units",
                    axis=alt.Axis(format="%", values=[0, 0.2, 0.4, 0.6, 0.8]),
                    scale=alt.Scale(domain=[0, 0.85]),
                ),
                y=alt.Y(
                    "layer:O",
                    title="layer",
                    sort="descending",
                    axis=alt.Axis(
                        values=[n for n in every if not many or n == last or (n % 5 == 0 and n < last - 2)]
                    ),
                ),
            )
            .properties(width=220, height=alt.Step(8 if many else 18))
        )
    return alt.vconcat(*(alt.hconcat(*charts) for charts in panels.values()))


CHARTS = {"atlas-flips": flips_chart, "atlas-effects": effects_chart, "atlas-layers": layers_chart}
