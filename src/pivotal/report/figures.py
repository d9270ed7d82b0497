"""The figures of a run, drawn from its summary, its evidence, its history and the profiles of its units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import floor, isnan
from typing import Any, Protocol, runtime_checkable

from pivotal.records.evidence import Dose, Evidence, Natural
from pivotal.records.run import Progress
from pivotal.records.summary import Summary
from pivotal.records.unit_profiles import UnitProfile
from pivotal.report import charts
from pivotal.report.charts import SHARES, Row, marks, quantity
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, REAL, WIDTH, Figure, Spec, draw
from pivotal.report.tables import (
    ByKind,
    Table,
    activation,
    counted,
    interval,
    number,
    percent,
    points,
    shown_stage,
    signed,
    stages_table,
    table,
)

MOST_UNITS = 20
"""The most units that a chart shows. The table below the chart has all units."""
_NAMED = 10
"""With more runs than this, the labels of the runs would overlap and are not drawn."""
_COUNTS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
_CURVES = {
    # The mask starts with all units and ends with a few; a symmetric logarithm shows both.
    "loss": ("loss", quantity("loss", "loss", {"type": "symlog"}, tickCount=4)),
    "units": ("expected units", quantity("units", "expected units", {"type": "symlog"}, values=_COUNTS)),
    "multiplier": ("the multiplier", quantity("multiplier", "multiplier", tickCount=4)),
    "accuracy": (
        "flipped preferences",
        quantity("accuracy", "flipped (relaxed)", format="%", tickCount=4),
    ),
}
"""The series that are drawn over the updates, from top to bottom: in words, and their axes. Not every search has a
multiplier."""


@runtime_checkable
class HasUnitValues(Protocol):
    """The units of a run and their values by direction."""

    @property
    def unit_labels(self) -> tuple[str, ...]: ...

    @property
    def unit_numbers(self) -> tuple[int, ...]: ...

    @property
    def values(self) -> dict[str, tuple[float | None, ...]]: ...


def figures(summary: Summary, history: Sequence[Progress]) -> list[Figure]:
    """All figures for which there is data."""
    evidence = summary.evidence
    made = [
        by_construction(summary),
        values(summary),
        drop_one(summary),
        control(summary),
        accuracy_and_kl(summary),
        learning_curves(history, summary.best),
        stages(summary),
    ]
    if evidence is not None:
        made.append(cost(summary, evidence))
        made.append(None if evidence.natural is None else natural(evidence.natural))
        made.append(None if evidence.dose is None else dose_response(evidence.dose))
    return [figure for figure in made if figure is not None]


# -- scores -----------------------------------------------------------------------------------------------------------


def by_construction(summary: Summary) -> Figure:
    best = summary.best_run
    rows = _share_rows(best)
    worst = min(rows, key=lambda row: row["value"])
    data = [(r["name"], f"{r['n']:,}", percent(r["value"]), interval(r["low"], r["high"])) for r in rows]
    return Figure(
        "by-construction",
        "Flipped preferences by construction and direction",
        f"Dots with 95% intervals for {counted(len(rows), 'kind')} of pairs, the lowest {percent(worst['value'])} "
        f"({worst['name']}).",
        draw(shares_chart(best, summary.labels)),
        table("", ("", "pairs", "flipped", "95% interval"), data),
    )


def shares_chart(scores: ByKind, labels: Sequence[str] = ()) -> Spec:
    """Dots with intervals. `labels` gives the order of the directions, which decides their colours."""
    rows = _share_rows(scores, labels)
    least = floor(10 * min(0.5, *(row["low"] for row in rows))) / 10
    x = quantity("value", "preferences flipped", {"domain": [least, 1]}, format="%")
    return charts.dots(rows, x, intervals=rows, step=22)


def _share_rows(scores: ByKind, labels: Sequence[str] = ()) -> list[Row]:
    colours = dict(zip(labels or scores.by_direction, BY_LABEL, strict=False))
    kinds = [("", name or "all pairs", CHOSEN, share) for name, share in scores.by_group.items()]
    kinds += [("→ ", name, colours.get(name, OTHERS), share) for name, share in scores.by_direction.items()]
    return [
        {
            "name": f"{mark}{name}",
            "colour": colour,
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "n": share.n,
            "hover": f"{mark}{name}: {percent(share.value)} of {share.n:,} pairs ({interval(share.low, share.high)})",
        }
        for mark, name, colour, share in kinds
    ]


def drop_one(summary: Summary) -> Figure | None:
    best = summary.best_run
    if not best.drop_one:
        return None
    rows: list[Row] = [
        {
            "name": f"{drop.number} ({drop.unit})",
            "flipped": drop.flip_accuracy,
            "value": 100 * (best.flip_accuracy - drop.flip_accuracy),
            "text": points(drop.flip_accuracy - best.flip_accuracy),
            "colour": CHOSEN,
            "hover": f"Without {drop.number} ({drop.unit}): {percent(drop.flip_accuracy)} flipped",
        }
        for drop in best.drop_one
    ]
    shown = sorted(rows, key=lambda row: -float(row["value"]))[:MOST_UNITS]
    most, left = shown[0], ""
    if len(shown) < len(rows):
        left = f" The chart shows the {len(shown)} of {len(rows):,} units that matter most."
    x = quantity("value", "flipped preferences lost without the unit (points)")
    return Figure(
        "drop-one",
        "What is lost without each unit",
        f"With all units {percent(best.flip_accuracy)} are flipped; without {most['name']}, the unit that "
        f"matters most, {percent(most['flipped'])}. The other units keep their values.{left}",
        draw(charts.bars(shown, x)),
        table(
            "",
            ("without", "flipped", "points"),
            [(r["name"], percent(r["flipped"]), r["text"]) for r in rows],
        ),
    )


def control(summary: Summary) -> Figure | None:
    controls, best = summary.controls, summary.best_run
    if not controls.sets:
        return None
    shares = [("found", CHOSEN, "The found units", best.flip_accuracy)]
    shares += [("random", OTHERS, "A random set", share) for share in controls.flip_accuracy]
    rows: list[Row] = [
        {"name": name, "value": share, "colour": colour, "hover": f"{text}: {percent(share)} flipped"}
        for name, colour, text, share in shares
    ]
    x = quantity("value", "preferences flipped", SHARES, format="%")
    return Figure(
        "control",
        "Found units and random units",
        f"{counted(controls.sets, 'random set')} of the same size: {percent(controls.mean)} flipped on average and "
        f"{percent(controls.best)} at best; with the found units {percent(best.flip_accuracy)}.",
        draw(charts.dots(rows, x, kind="tick", step=34)),
        table("", ("set", "flipped"), [(row["name"], percent(row["value"])) for row in rows]),
    )


def accuracy_and_kl(summary: Summary) -> Figure | None:
    runs = summary.runs
    if len(runs) < 2:
        return None
    rows: list[Row] = [
        {
            "name": str(r),
            "kl": run.kl,
            "flipped": run.flip_accuracy,
            "colour": CHOSEN if r == summary.best else OTHERS,
            "hover": f"Run {r}: {counted(run.units, 'unit')}, {percent(run.flip_accuracy)}, KL {number(run.kl)}",
        }
        for r, run in enumerate(runs)
    ]
    # Runs that found the same units are in one place, and their numbers would cover each other.
    places: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        places[percent(row["flipped"]), number(row["kl"])].append(row)
    names = [{**same[0], "name": ", ".join(row["name"] for row in same)} for same in places.values()]
    x = quantity("kl", "KL to the untouched model", {"zero": True})
    y = quantity("flipped", "preferences flipped", {"zero": False}, format="~%", tickCount=4)
    data = [
        (str(r), str(run.units), percent(run.flip_accuracy), number(run.kl)) for r, run in enumerate(runs)
    ]
    return Figure(
        "accuracy-kl",
        "Accuracy and KL of the runs",
        f"{len(runs)} runs, by number; run {summary.best} is the chosen one. "
        f"The most accurate run flips {percent(max(run.flip_accuracy for run in runs))}; the lowest KL is "
        f"{number(min(run.kl for run in runs))}.",
        draw(charts.scatter(rows, x, y, names=names if len(rows) <= _NAMED else ())),
        table("", ("run", "units", "flipped", "KL"), data),
    )


# -- values -----------------------------------------------------------------------------------------------------------


def values(summary: Summary) -> Figure:
    best, labels = summary.best_run, summary.labels
    own = zip(best.unit_numbers, best.unit_labels, strict=True)
    units = [f"{number} ({label})" for number, label in own][:MOST_UNITS]
    several = len(summary.runs) > 1
    others = " Faint dots are the values of other runs that found the same unit." if several else ""
    rows = _value_rows(summary.runs, units)
    data = [(row["name"], row["label"], str(row["run"]), signed(row["value"])) for row in rows]
    return Figure(
        "values",
        "What the units are set to",
        f"Values of {counted(len(units), 'unit')}: a dot for each direction.{others}",
        draw(values_chart(summary.runs, labels, units, summary.best)),
        table("", ("unit", "direction", "run", "value"), data, text=2),
    )


def values_chart(
    runs: Sequence[HasUnitValues], labels: Sequence[str], units: Sequence[str], chosen: int | None = None
) -> Spec:
    """A dot for each run and direction; `units` gives the order of the rows. If a run is chosen, the dots of others are
    faint."""
    order = {unit: place for place, unit in enumerate(units[:MOST_UNITS])}
    rows = [
        {**row, "opacity": 0.75 if chosen is None else 1 if row["run"] == chosen else 0.25}
        for row in _value_rows(runs, list(order))
    ]
    x = quantity("value", "value that the unit is set to", {"padding": 10}, tickCount=6)
    rows.sort(key=lambda row: order[row["name"]])
    legend = dict(zip(labels, BY_LABEL, strict=True))
    return charts.dots(rows, x, legend=legend, legend_title="to flip to")


def _value_rows(runs: Sequence[HasUnitValues], units: Sequence[str]) -> list[Row]:
    rows = [
        {
            "name": f"{unit} ({label})",
            "label": direction,
            "value": value,
            "run": r,
            "hover": f"{unit} ({label}), run {r}: {'' if value is None else signed(value)} for {direction}",
        }
        for r, run in enumerate(runs)
        for direction, numbers in run.values.items()
        for label, unit, value in zip(run.unit_labels, run.unit_numbers, numbers, strict=True)
    ]
    return [row for row in rows if row["value"] is not None and row["name"] in units]


def natural(found: Natural) -> Figure | None:
    """The natural range of each unit, and the values that it is set to."""
    if not found.ranges:
        return None
    directions = list(found.ranges[0].values)
    shown = found.ranges[:MOST_UNITS]
    ranges = [
        {
            "name": unit.unit,
            "low": unit.low,
            "high": unit.high,
            "colour": OTHERS,
            "hover": f"{unit.unit}: natural range {signed(unit.low)} to {signed(unit.high)}",
        }
        for unit in shown
    ]
    dots = [
        {
            "name": unit.unit,
            "label": f"→ {direction}",
            "value": value,
            "hover": f"{unit.unit}: {signed(value)} for {direction}",
        }
        for unit in shown
        for direction, value in unit.values.items()
        if value is not None
    ]
    rows = [
        (
            unit.unit,
            signed(unit.low),
            signed(unit.high),
            *("left alone" if (value := unit.values[d]) is None else signed(value) for d in directions),
        )
        for unit in found.ranges
    ]
    inside = sum(unit.inside for unit in found.ranges)
    x = quantity("value", "activation", {"padding": 10}, tickCount=6)
    legend = {f"→ {direction}": colour for direction, colour in zip(directions, BY_LABEL, strict=False)}
    return Figure(
        "natural",
        "Natural ranges",
        f"The natural range of each unit as a bar, and the values that it is set to as dots. {inside} of "
        f"{counted(len(found.ranges), 'unit')} {'stays' if inside == 1 else 'stay'} inside.",
        draw(charts.dots(dots, x, intervals=ranges, legend=legend, step=26, thickness=12)),
        table("", ("unit", "1st percentile", "99th percentile", *(f"→ {d}" for d in directions)), rows),
    )


def histogram(profile: UnitProfile, name: str) -> Figure:
    """The natural states of a unit, and the values that it is set to."""
    natural = profile.natural
    bins = len(next(iter(natural.counts.values())))
    ends = [natural.low + b * (natural.high - natural.low) / bins for b in range(bins + 1)]
    rows = [
        (activation(ends[b]), *(f"{counts[b]:,}" for counts in natural.counts.values())) for b in range(bins)
    ]
    total = sum(map(sum, natural.counts.values()))
    values = ", ".join(f"{activation(v)} for {label}" for label, v in profile.values.items() if v is not None)
    return Figure(
        f"states-{name}",
        "Natural states, and the values that it is set to",
        f"Histogram of {total:,} states in the untouched model at the edited steps, by the label that the model "
        f"prefers there. Vertical lines are the values that the unit is set to: {values}.",
        draw(_histogram_chart(profile, ends)),
        table("", ("from", *(f"prefers {label}" for label in natural.counts)), rows),
    )


def _histogram_chart(profile: UnitProfile, ends: Sequence[float]) -> Spec:
    counts = profile.natural.counts
    # Shares, because there may be more states of one label than of the other.
    states = [
        {
            "from": ends[b],
            "to": ends[b + 1],
            "share": count / max(1, sum(of_label)),
            "none": 0,
            "label": f"prefers {label}",
            "hover": f"{activation(ends[b])} to {activation(ends[b + 1])}: {count:,} states that prefer {label}",
        }
        for label, of_label in counts.items()
        for b, count in enumerate(of_label)
        if count
    ]
    values = [
        {"value": value, "label": label, "colour": colour, "hover": f"Set to {activation(value)} for {label}"}
        for (label, value), colour in zip(profile.values.items(), BY_LABEL, strict=False)
        if value is not None
    ]
    labels = {"domain": [f"prefers {label}" for label in counts], "range": list(BY_LABEL)}
    x = quantity("from", "state of the unit", {"zero": False, "nice": False, "padding": 8})
    y = quantity("share", "share of states", format="%", tickCount=4)
    colour: dict[str, Any] = {"field": "label", "type": "nominal", "title": None, "scale": labels}
    text = {"baseline": "bottom", "fontSize": 13, "color": "currentColor", "dy": -8}
    at = quantity("value")
    layers = [
        marks(states, "bar", {"opacity": 0.5}, x=x, x2={"field": "to"}, y={**y, "stack": None}, y2={"field": "none"},
              color=colour),
        marks(values, "rule", {"strokeWidth": 3}, x=at, color={"field": "colour", "type": "nominal", "scale": None}),
        marks(values, "text", text, x=at, y={"value": 0}, text={"field": "label", "type": "nominal"}),
    ]  # fmt: skip
    return {
        "layer": layers,
        "resolve": {"scale": {"color": "independent"}},
        "width": WIDTH - 110,
        "height": 150,
    }


# -- the evidence -----------------------------------------------------------------------------------------------------


def dose_response(dose: Dose) -> Figure:
    """Flips and KL over the dose."""
    half = "No dose up to 2 flips half." if dose.half is None else f"Half flip at dose {dose.half:.2f}."
    measured = list(zip(dose.doses, dose.flip_accuracy, dose.kl, strict=True))
    rows: list[Row] = [
        {
            "run": "",
            "dose": d,
            "flipped": f,
            "kl": k,
            "hover": f"Dose {d:g}: {percent(f)} flipped, KL {number(k)}",
        }
        for d, f, k in measured
    ]
    flips = quantity("flipped", "flipped", SHARES, format="%", tickCount=4)
    panels = [flips, charts.kl_axis("kl", "KL", max(dose.kl))]
    return Figure(
        "dose",
        "Dose and response",
        f"Flipped preferences and KL over the dose, from untouched (0) to the found values (1) and twice as far (2). "
        "KL is estimated from a sample of positions here, so at dose 1 it can differ from the KL of the run. "
        f"{half} From dose 0 to 1, {percent(dose.monotone)} of the pairs move towards the target at every step; "
        f"{percent(dose.wrong_way)} end up farther from it.",
        draw(charts.lines(rows, quantity("dose", "dose", tickCount=5), panels, height=130)),
        table("", ("dose", "flipped", "KL"), [(f"{d:g}", percent(f), number(k)) for d, f, k in measured]),
    )


def cost(summary: Summary, evidence: Evidence) -> Figure | None:
    """The KL of the intervention beside that of a real change of the cue."""
    natural, swap = evidence.natural, evidence.swap
    if swap is None:
        return None
    costs = [("these units", summary.kl, CHOSEN, summary.flip_accuracy)]
    if natural is not None and summary.values != "natural":
        costs.append(("values in the natural range", natural.kl, CHOSEN, natural.flipped.value))
    costs.append(("a real change of the cue", swap.kl, REAL, swap.flipped.value))
    rows: list[Row] = [
        {
            "name": name,
            "value": kl,
            "colour": colour,
            "text": number(kl),
            "hover": f"{name}: KL {number(kl)}, {percent(share)} flipped",
        }
        for name, kl, colour, share in costs
    ]
    times = ""
    if swap.kl > 0:
        times = f" The units cost {summary.kl / swap.kl:.2f} times as much as a real change of the cue."
    x = quantity("value", "KL to the untouched model (nats)")
    return Figure(
        "cost",
        "The cost, on the scale of a real change",
        f"KL to the untouched model: {'; '.join(f'{name} {number(kl)}' for name, kl, _, _ in costs)}.{times}",
        draw(charts.bars(rows, x, bound=summary.max_kl, step=30)),
        table(
            "", ("", "KL", "flipped"), [(name, number(kl), percent(share)) for name, kl, _, share in costs]
        ),
    )


# -- learning ---------------------------------------------------------------------------------------------------------


def learning_curves(history: Sequence[Progress], chosen: int = 0) -> Figure | None:
    """Loss, units, multiplier and flips over the updates; the line of the chosen run stands out."""
    rows = curve_rows(history)
    if not rows:
        return None
    drawn = [key for key in _CURVES if any(row[key] is not None for row in rows)]
    *first, last = (_CURVES[key][0] for key in drawn)
    listed = f"{', '.join(first)} and {last}" if first else last
    runs = len({row["run"] for row in rows})
    lines = f", a line for each of {runs} runs; run {chosen} stands out" if runs > 1 else ""
    x, panels = quantity("update", "update"), [_CURVES[key][1] for key in drawn]
    return Figure(
        "learning",
        "Learning curves",
        f"{listed[0].upper()}{listed[1:]} of the relaxed mask on training pairs over {rows[-1]['update']} "
        f"updates{lines}.",
        draw(charts.lines(rows, x, panels, chosen=str(chosen), height=100)),
        _curves_table(rows, runs),
    )


def _curves_table(rows: Sequence[Row], runs: int, most: int = 60) -> Table:
    """All runs at some of the updates, about `most` lines."""
    updates = sorted({row["update"] for row in rows})
    kept = set(updates[:: -max(1, round(len(updates) * runs / most))])
    data = [
        (
            row["run"],
            str(row["update"]),
            number(row["loss"]),
            number(row["units"], 1),
            number(row["multiplier"]),
            percent(row["accuracy"]),
        )
        for row in rows
        if row["update"] in kept
    ]
    return table("", ("run", "update", "loss", "expected units", "multiplier", "flipped"), data)


def curve_rows(history: Sequence[Progress], most: int = 300) -> list[Row]:
    """A row per update and run. A long history is thinned out, but its last update is kept."""
    rows: list[Row] = []
    learning = [row for row in history if row.phase == "learn"]
    every = max(1, len(learning) // most)
    for row in learning[::-every][::-1]:
        series = {"loss": row.loss, "units": row.units, "accuracy": row.accuracy, **row.extra}
        for r in range(max(len(series.get(key, [])) for key in _CURVES)):
            at = {key: _at(series.get(key, []), r) for key in _CURVES}
            rows.append({"update": row.update, "run": str(r), **at})
    return rows


def _at(column: Sequence[float], run: int) -> float | None:
    """The number of a run; None if there is none or it is NaN."""
    return column[run] if run < len(column) and not isnan(column[run]) else None


def stages(summary: Summary) -> Figure | None:
    """Flips and units on training pairs, from the relaxed mask to the final units."""
    rows: list[Row] = [
        {
            "run": str(r),
            "stage": name,
            "accuracy": stage.get("accuracy"),
            "units": stage.get("units"),
            "hover": f"Run {r}, {name}: {shown_stage(stage)}",
        }
        for r, run in enumerate(summary.runs)
        for name, stage in run.stages.items()
    ]
    names = list(dict.fromkeys(row["stage"] for row in rows))
    if len(names) < 2:
        return None
    best = summary.best_run.stages
    listed = ", ".join(f"{name} {percent(stage.get('accuracy'))}" for name, stage in best.items())
    several = len(summary.runs) > 1
    lines = f", a line for each run. Run {summary.best}, which stands out" if several else ". The run"
    x = {"field": "stage", "type": "ordinal", "sort": names, "title": None, "axis": {"labelAngle": 0}}
    panels = [
        quantity("accuracy", "flipped", {"zero": False}, format="~%", tickCount=4),
        quantity("units", "units", {"zero": False}, tickCount=4),
    ]
    return Figure(
        "stages",
        "From the relaxed mask to the final units",
        f"Flipped preferences and units on training pairs{lines}: {listed}.",
        draw(charts.lines(rows, x, panels, chosen=str(summary.best))),
        stages_table(summary),
    )
