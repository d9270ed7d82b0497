"""The figures of a run, drawn from its summary, its evidence, its history and the profiles of its units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import floor, isnan

from pivotal.records.evidence import Dose, Evidence, Natural, Share
from pivotal.records.run import Progress
from pivotal.records.summary import RunScores, Summary
from pivotal.records.unit_profiles import UnitProfile
from pivotal.report import charts
from pivotal.report.charts import SHARES, Channel, Row, described, marks, quantity
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, REAL, WIDTH, Figure, Spec, draw
from pivotal.report.tables import (
    ByKind,
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

UnitValues = Mapping[str, Mapping[str, float | None]]
"""The values of units by direction, by the names of the units."""

MOST_UNITS = 20
"""The most units that a chart shows. The table below the chart has all units."""
_NAMED = 10
"""With more runs than this, the labels of the runs would overlap and are not drawn."""
_COUNTS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
_CURVES: dict[str, tuple[str, Channel]] = {
    # The mask starts with all units and ends with a few; a symmetric logarithm shows both.
    "loss": ("loss", quantity("loss", "loss", {"type": "symlog"}, tickCount=4)),
    "units": ("expected units", quantity("units", "expected units", {"type": "symlog"}, values=_COUNTS)),
    "multiplier": ("the multiplier", quantity("multiplier", "multiplier", tickCount=4)),
    "accuracy": ("flipped preferences", quantity("accuracy", "flipped (relaxed)", format="%", tickCount=4)),
}
"""The series that are drawn over the updates, from top to bottom: in words, and their axes. Not every search has a
multiplier."""


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
    scores = summary.best_run
    chart, shares = shares_chart(scores, summary.labels), _shares(scores)
    worst = min(shares, key=lambda name: shares[name].value)
    cells = [
        (name, f"{share.n:,}", percent(share.value), interval(share.low, share.high))
        for name, share in shares.items()
    ]
    return Figure(
        "by-construction",
        "Flipped preferences by construction and direction",
        f"Dots with 95% intervals for {counted(len(shares), 'kind')} of pairs, the lowest "
        f"{percent(shares[worst].value)} ({worst}).",
        draw(chart),
        table("", ("", "pairs", "flipped", "95% interval"), cells),
    )


def shares_chart(scores: ByKind, labels: Sequence[str] = ()) -> Spec:
    """Dots with intervals. `labels` gives the order of the directions, which decides their colours."""
    colours = {f"→ {label}": c for label, c in zip(labels or scores.by_direction, BY_LABEL, strict=False)}
    rows: list[Row] = [
        {"name": name, "colour": colours.get(name, CHOSEN), "value": share.value, "low": share.low, "high": share.high,
         "hover": f"{name}: {percent(share.value)} of {share.n:,} pairs ({interval(share.low, share.high)})"}
        for name, share in _shares(scores).items()
    ]  # fmt: skip
    least = floor(10 * min(0.5, *(row["low"] for row in rows))) / 10
    x = quantity("value", "preferences flipped", {"domain": [least, 1]}, format="%")
    return charts.dots(rows, x, intervals=rows, step=22)


def _shares(scores: ByKind) -> dict[str, Share]:
    shares = {name or "all pairs": share for name, share in scores.by_group.items()}
    return shares | {f"→ {label}": share for label, share in scores.by_direction.items()}


def drop_one(summary: Summary) -> Figure | None:
    best = summary.best_run
    if not best.drop_one:
        return None
    lost = {f"{drop.number} ({drop.unit})": best.flip_accuracy - drop.flip_accuracy for drop in best.drop_one}
    cells = [(name, percent(best.flip_accuracy - loss), points(-loss)) for name, loss in lost.items()]
    data = table("", ("without", "flipped", "points"), cells)
    rows = [
        {"name": name, "value": 100 * loss, "text": points(-loss), "colour": CHOSEN}
        for name, loss in lost.items()
    ]
    shown = sorted(described(rows, data), key=lambda row: -float(row["value"]))[:MOST_UNITS]
    most = shown[0]["name"]
    left = (
        f" The chart shows the {len(shown)} of {len(rows):,} units that matter most."
        if len(shown) < len(rows)
        else ""
    )
    x = quantity("value", "flipped preferences lost without the unit (points)")
    return Figure(
        "drop-one",
        "What is lost without each unit",
        f"With all units {percent(best.flip_accuracy)} are flipped; without {most}, the unit that matters most, "
        f"{percent(best.flip_accuracy - lost[most])}. The other units keep their values.{left}",
        draw(charts.bars(shown, x)),
        data,
    )


def control(summary: Summary) -> Figure | None:
    controls, best = summary.controls, summary.best_run
    if not controls.sets:
        return None
    shares = [("found", CHOSEN, best.flip_accuracy)]
    shares += [("random", OTHERS, share) for share in controls.flip_accuracy]
    data = table("", ("set", "flipped"), [(name, percent(share)) for name, _, share in shares])
    rows = [{"name": name, "value": share, "colour": colour} for name, colour, share in shares]
    x = quantity("value", "preferences flipped", SHARES, format="%")
    return Figure(
        "control",
        "Found units and random units",
        f"{counted(controls.sets, 'random set')} of the same size: {percent(controls.mean)} flipped on average and "
        f"{percent(controls.best)} at best; with the found units {percent(best.flip_accuracy)}.",
        draw(charts.dots(described(rows, data), x, kind="tick", step=34)),
        data,
    )


def accuracy_and_kl(summary: Summary) -> Figure | None:
    runs = summary.runs
    if len(runs) < 2:
        return None
    cells = [
        (str(r), str(run.units), percent(run.flip_accuracy), number(run.kl)) for r, run in enumerate(runs)
    ]
    data = table("", ("run", "units", "flipped", "KL"), cells)
    colours = [CHOSEN if r == summary.best else OTHERS for r in range(len(runs))]
    rows: list[Row] = [
        {"name": str(r), "kl": run.kl, "flipped": run.flip_accuracy, "colour": colours[r]}
        for r, run in enumerate(runs)
    ]
    # Runs that found the same units are in one place, and their numbers would cover each other.
    places: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        places[percent(row["flipped"]), number(row["kl"])].append(row)
    names = [{**same[0], "name": ", ".join(row["name"] for row in same)} for same in places.values()]
    x = quantity("kl", "KL to the untouched model", {"zero": True}, tickCount=6)
    y = quantity("flipped", "preferences flipped", {"zero": False}, format="~%", tickCount=4)
    return Figure(
        "accuracy-kl",
        "Accuracy and KL of the runs",
        f"{len(runs)} runs, by number; run {summary.best} is the chosen one. "
        f"The most accurate run flips {percent(max(run.flip_accuracy for run in runs))}; the lowest KL is "
        f"{number(min(run.kl for run in runs))}.",
        draw(charts.scatter(described(rows, data), x, y, names=names if len(rows) <= _NAMED else ())),
        data,
    )


# -- values -----------------------------------------------------------------------------------------------------------


def values(summary: Summary) -> Figure:
    runs = [_values_of(run) for run in summary.runs]
    units = list(runs[summary.best])[:MOST_UNITS]
    faint = " Faint dots are the values of other runs that found the same unit." if len(runs) > 1 else ""
    cells = [
        (row["name"], row["label"], str(row["run"]), signed(row["value"])) for row in _value_rows(runs, units)
    ]
    return Figure(
        "values",
        "What the units are set to",
        f"Values of {counted(len(units), 'unit')}: a dot for each direction.{faint}",
        draw(values_chart(runs, summary.labels, units, summary.best)),
        table("", ("unit", "direction", "run", "value"), cells, text=2),
    )


def _values_of(run: RunScores) -> UnitValues:
    names = [f"{number} ({label})" for number, label in zip(run.unit_numbers, run.unit_labels, strict=True)]
    return {name: {label: row[i] for label, row in run.values.items()} for i, name in enumerate(names)}


def values_chart(
    runs: Sequence[UnitValues], labels: Sequence[str], units: Sequence[str], chosen: int | None = None
) -> Spec:
    """A dot for each run and direction; `units` gives the order of the rows. If a run is chosen, the dots of others are
    faint."""
    rows = [
        {**row, "opacity": 0.75 if chosen is None else 1 if row["run"] == chosen else 0.25}
        for row in _value_rows(runs, units[:MOST_UNITS])
    ]
    x = quantity("value", "value that the unit is set to", {"padding": 10}, tickCount=6)
    return charts.dots(rows, x, legend=dict(zip(labels, BY_LABEL, strict=True)), legend_title="to flip to")


def _value_rows(runs: Sequence[UnitValues], units: Sequence[str]) -> list[Row]:
    return [
        {"name": unit, "label": label, "value": value, "run": r,
         "hover": f"{unit}, run {r}: {signed(value)} for {label}"}
        for unit in units
        for r, run in enumerate(runs)
        for label, value in run.get(unit, {}).items()
        if value is not None
    ]  # fmt: skip


def natural(found: Natural) -> Figure | None:
    """The natural range of each unit, and the values that it is set to."""
    if not found.ranges:
        return None
    directions = list(found.ranges[0].values)
    cells = [
        (unit.unit, *map(activation, (unit.low, unit.high, *(unit.values[d] for d in directions))))
        for unit in found.ranges
    ]
    data = table("", ("unit", "1st percentile", "99th percentile", *(f"→ {d}" for d in directions)), cells)
    bars = [
        {"name": unit.unit, "low": unit.low, "high": unit.high, "colour": OTHERS} for unit in found.ranges
    ]
    bars = described(bars, data)[:MOST_UNITS]
    dots = [
        {"name": unit.unit, "label": f"→ {label}", "value": value, "hover": bar["hover"]}
        for unit, bar in zip(found.ranges, bars, strict=False)
        for label, value in unit.values.items()
        if value is not None
    ]
    inside = sum(unit.inside for unit in found.ranges)
    x = quantity("value", "activation", {"padding": 10}, tickCount=6)
    legend = {f"→ {direction}": colour for direction, colour in zip(directions, BY_LABEL, strict=False)}
    return Figure(
        "natural",
        "Natural ranges",
        f"The natural range of each unit as a bar, and the values that it is set to as dots. {inside} of "
        f"{counted(len(found.ranges), 'unit')} {'stays' if inside == 1 else 'stay'} inside.",
        draw(charts.dots(dots, x, intervals=bars, legend=legend, step=26, thickness=12)),
        data,
    )


def histogram(profile: UnitProfile, name: str) -> Figure:
    """The natural states of a unit, and the values that it is set to."""
    natural = profile.natural
    bins = len(next(iter(natural.counts.values())))
    ends = [natural.low + b * (natural.high - natural.low) / bins for b in range(bins + 1)]
    cells = [
        (activation(ends[b]), *(f"{counts[b]:,}" for counts in natural.counts.values())) for b in range(bins)
    ]
    data = table("", ("from", *(f"prefers {label}" for label in natural.counts)), cells)
    total = sum(map(sum, natural.counts.values()))
    values = ", ".join(f"{activation(v)} for {label}" for label, v in profile.values.items() if v is not None)
    # Shares, because there may be more states of one label than of the other.
    states = [
        {"from": ends[b], "to": ends[b + 1], "share": counts[b] / max(1, sum(counts)), "label": f"prefers {label}",
         "hover": hover["hover"]}
        for label, counts in natural.counts.items()
        for b, hover in enumerate(described([{}] * bins, data))
        if counts[b]
    ]  # fmt: skip
    return Figure(
        f"states-{name}",
        "Natural states, and the values that it is set to",
        f"Histogram of {total:,} states in the untouched model at the edited steps, by the label that the model "
        f"prefers there. Vertical lines are the values that the unit is set to: {values}.",
        draw(_histogram_chart(states, profile.values)),
        data,
    )


def _histogram_chart(states: Sequence[Row], values: Mapping[str, float | None]) -> Spec:
    lines = [
        {"value": value, "label": label, "colour": colour, "hover": f"Set to {activation(value)} for {label}"}
        for (label, value), colour in zip(values.items(), BY_LABEL, strict=False)
        if value is not None
    ]
    labels = {"domain": [f"prefers {label}" for label in values], "range": list(BY_LABEL)}
    x = quantity("from", "state of the unit", {"zero": False, "nice": False, "padding": 8})
    y = {**quantity("share", "share of states", format="%", tickCount=4), "stack": None}
    colour: Channel = {"field": "label", "type": "nominal", "title": None, "scale": labels}
    own: Channel = {"field": "colour", "type": "nominal", "scale": None}
    text = {"baseline": "bottom", "fontSize": 13, "color": "currentColor", "dy": -8}
    name: Channel = {"field": "label", "type": "nominal"}
    layers = [
        marks(states, "bar", {"opacity": 0.5}, x=x, x2={"field": "to"}, y=y, y2={"datum": 0}, color=colour),
        marks(lines, "rule", {"strokeWidth": 3}, x=quantity("value"), color=own),
        marks(lines, "text", text, x=quantity("value"), y={"value": 0}, text=name),
    ]
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
    data = table("", ("dose", "flipped", "KL"), [(f"{d:g}", percent(f), number(k)) for d, f, k in measured])
    rows = described([{"run": "", "dose": d, "flipped": f, "kl": k} for d, f, k in measured], data)
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
        data,
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
    data = table(
        "", ("", "KL", "flipped"), [(name, number(kl), percent(share)) for name, kl, _, share in costs]
    )
    rows = [
        {"name": name, "value": kl, "colour": colour, "text": number(kl)} for name, kl, colour, _ in costs
    ]
    ratio = (
        f" The units cost {summary.kl / swap.kl:.2f} times as much as a real change of the cue."
        if swap.kl
        else ""
    )
    x = quantity("value", "KL to the untouched model (nats)")
    return Figure(
        "cost",
        "The cost, on the scale of a real change",
        f"KL to the untouched model: {'; '.join(f'{name} {number(kl)}' for name, kl, _, _ in costs)}.{ratio}",
        draw(charts.bars(described(rows, data), x, bound=summary.max_kl, step=30)),
        data,
    )


# -- learning ---------------------------------------------------------------------------------------------------------


def learning_curves(history: Sequence[Progress], chosen: int = 0, most: int = 60) -> Figure | None:
    """Loss, units, multiplier and flips over the updates; the line of the chosen run stands out. The table has all runs
    at some of the updates, about `most` lines."""
    rows = curve_rows(history)
    if not rows:
        return None
    drawn = [key for key in _CURVES if any(row[key] is not None for row in rows)]
    *first, last = (_CURVES[key][0] for key in drawn)
    listed = f"{', '.join(first)} and {last}" if first else last
    runs, updates = len({row["run"] for row in rows}), sorted({row["update"] for row in rows})
    several = f", a line for each of {runs} runs; run {chosen} stands out" if runs > 1 else ""
    kept = set(updates[:: -max(1, round(len(updates) * runs / most))])
    cells = [
        (row["run"], str(row["update"]), number(row["loss"]), number(row["units"], 1), number(row["multiplier"]),
         percent(row["accuracy"]))
        for row in rows
        if row["update"] in kept
    ]  # fmt: skip
    panels = [_CURVES[key][1] for key in drawn]
    return Figure(
        "learning",
        "Learning curves",
        f"{listed[0].upper()}{listed[1:]} of the relaxed mask on training pairs over {updates[-1]} updates{several}.",
        draw(charts.lines(rows, quantity("update", "update"), panels, chosen=str(chosen), height=100)),
        table("", ("run", "update", "loss", "expected units", "multiplier", "flipped"), cells),
    )


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
        {"run": str(r), "stage": name, "accuracy": stage.get("accuracy"), "units": stage.get("units"),
         "hover": f"Run {r}, {name}: {shown_stage(stage)}"}
        for r, run in enumerate(summary.runs)
        for name, stage in run.stages.items()
    ]  # fmt: skip
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
