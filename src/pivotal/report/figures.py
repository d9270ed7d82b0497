"""The figures of a run, drawn from its summary, its evidence, its history and the profiles of its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, isnan

from pivotal.printing import counted
from pivotal.records.evidence import Dose, Share
from pivotal.records.run import Progress
from pivotal.records.summary import RunScores, Summary
from pivotal.records.unit_profiles import UnitProfile
from pivotal.report import charts
from pivotal.report.charts import LETTERS, SHARES, Channel, Row, described, marks, quantity
from pivotal.report.drawing import BY_LABEL, CHOSEN, OTHERS, WIDTH, Figure, Spec, draw
from pivotal.report.tables import (
    ByKind,
    activation,
    control_sentence,
    drop_one_table,
    interval,
    number,
    percent,
    points,
    shares_table,
    signed,
    table,
)

UnitValues = Mapping[str, Mapping[str, float | None]]
"""The values of units by direction, by the names of the units."""

MOST_UNITS = 20
"""The most units that a chart shows. The table below the chart has all units."""
_COUNTS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]
_CURVES: dict[str, Channel] = {
    # The mask starts with all units and ends with a few; a symmetric logarithm shows both.
    "loss": quantity("loss", "loss", {"type": "symlog"}, tickCount=4),
    "units": quantity("units", "expected units", {"type": "symlog"}, values=_COUNTS),
    "multiplier": quantity("multiplier", "multiplier", tickCount=4),
    "accuracy": quantity("accuracy", "flipped (relaxed)", format="%", tickCount=4),
}
"""The series that are drawn over the updates, from top to bottom. Not every search has a multiplier."""


def figures(summary: Summary, history: Sequence[Progress]) -> list[Figure]:
    """All figures for which there is data."""
    dose = None if summary.evidence is None else summary.evidence.dose
    made = [
        by_construction(summary),
        values(summary),
        drop_one(summary),
        control(summary),
        learning_curves(history, summary.best),
        None if dose is None else dose_response(dose),
    ]
    return [figure for figure in made if figure is not None]


# -- scores -----------------------------------------------------------------------------------------------------------


def by_construction(summary: Summary) -> Figure:
    scores = summary.best_run
    chart, shares = shares_chart(scores, summary.labels), _shares(scores)
    worst = min(shares, key=lambda name: shares[name].value)
    return Figure(
        "by-construction",
        "Flipped preferences by construction and direction",
        f"Dots with 95% intervals for {counted(len(shares), 'kind')} of pairs, the lowest "
        f"{percent(shares[worst].value)} ({worst}).",
        draw(chart),
        shares_table(scores, ""),
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
    return charts.dots(rows, x, intervals=rows)


def _shares(scores: ByKind) -> dict[str, Share]:
    shares = {name or "all pairs": share for name, share in scores.by_group.items()}
    return shares | {f"→ {label}": share for label, share in scores.by_direction.items()}


def drop_one(summary: Summary) -> Figure | None:
    best = summary.best_run
    if not best.drop_one:
        return None
    lost = [(drop.unit, best.flip_accuracy - drop.flip_accuracy) for drop in best.drop_one]
    data = drop_one_table(best.drop_one, best.flip_accuracy)
    rows = [
        {"name": name, "value": 100 * loss, "text": points(-loss), "colour": CHOSEN} for name, loss in lost
    ]
    shown = sorted(described(rows, data), key=lambda row: -float(row["value"]))[:MOST_UNITS]
    most = shown[0]["name"]
    left = f" The chart shows the {MOST_UNITS} of {len(rows):,} units that matter most." * (
        len(shown) < len(rows)
    )
    x = quantity("value", "flipped preferences lost without the unit (points)")
    return Figure(
        "drop-one",
        "What is lost without each unit",
        f"With all units {percent(best.flip_accuracy)} are flipped; without {most}, the unit that matters most, "
        f"{percent(best.flip_accuracy - max(loss for _, loss in lost))}. The other units keep their values.{left}",
        draw(charts.bars(shown, x)),
        data,
    )


def control(summary: Summary) -> Figure | None:
    if not summary.controls.sets:
        return None
    found = [("found", CHOSEN, summary.best_run.flip_accuracy)]
    shares = found + [("random", OTHERS, share) for share in summary.controls.flip_accuracy]
    data = table("", ("set", "flipped"), [(name, percent(share)) for name, _, share in shares])
    rows = [{"name": name, "value": share, "colour": colour} for name, colour, share in shares]
    x = quantity("value", "preferences flipped", SHARES, format="%")
    chart = charts.dots((), x, means=described(rows, data))
    return Figure("control", "Found units and random units", control_sentence(summary), draw(chart), data)


# -- values -----------------------------------------------------------------------------------------------------------


def values(summary: Summary) -> Figure:
    """What the units are set to in each run, over their natural ranges."""
    best, natural = summary.best_run, summary.evidence and summary.evidence.natural
    runs = [_values_of(run) for run in summary.runs]
    names = dict(zip(best.unit_labels, runs[summary.best], strict=True))
    ranges = [one for one in natural.ranges if one.unit in names] if natural else []
    faint = " Faint dots are the values of other runs that found the same unit." if len(runs) > 1 else ""
    bars: list[Row] = [
        {"name": names[one.unit], "low": one.low, "high": one.high, "colour": OTHERS,
         "hover": f"{names[one.unit]}, natural range {activation(one.low)} to {activation(one.high)}"}
        for one in ranges
    ]  # fmt: skip
    inside = sum(one.inside for one in ranges)
    stay = "stays" if inside == 1 else "stay"
    said = (
        f" Bars are natural ranges; {inside} of {counted(len(bars), 'unit')} {stay} inside." if bars else ""
    )
    rows = _value_rows(runs, list(names.values())[:MOST_UNITS])
    cells = [(row["name"], row["label"], str(row["run"]), signed(row["value"])) for row in rows]
    return Figure(
        "values",
        "What the units are set to",
        f"Values of {counted(len(names), 'unit')}: a dot for each direction.{said}{faint}",
        draw(values_chart(runs, summary.labels, list(names.values()), summary.best, bars)),
        table("", ("unit", "direction", "run", "value"), cells, text=2),
    )


def _values_of(run: RunScores) -> UnitValues:
    return {
        unit: {label: row[i] for label, row in run.values.items()} for i, unit in enumerate(run.unit_labels)
    }


def values_chart(
    runs: Sequence[UnitValues],
    labels: Sequence[str],
    units: Sequence[str],
    chosen: int | None = None,
    ranges: Sequence[Row] = (),
) -> Spec:
    """A dot for each run and direction, over the natural ranges; `units` gives the order of the rows. If a run is
    chosen, the dots of others are faint."""
    rows = [
        {**row, "opacity": 0.75 if chosen is None else 1 if row["run"] == chosen else 0.25}
        for row in _value_rows(runs, units[:MOST_UNITS])
    ]
    x = quantity("value", "value that the unit is set to", {"padding": 10}, tickCount=6)
    legend = dict(zip(labels, BY_LABEL, strict=True))
    return charts.dots(rows, x, intervals=ranges[:MOST_UNITS], legend=legend, thickness=12)


def _value_rows(runs: Sequence[UnitValues], units: Sequence[str]) -> list[Row]:
    return [
        {"name": unit, "label": label, "value": value, "run": r,
         "hover": f"{unit}, run {r}: {signed(value)} for {label}"}
        for unit in units
        for r, run in enumerate(runs)
        for label, value in run.get(unit, {}).items()
        if value is not None
    ]  # fmt: skip


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
    text = {"baseline": "bottom", "dy": -8, **LETTERS}
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
    panels = [flips, charts.kl_axis("kl", max(dose.kl))]
    return Figure(
        "dose",
        "Dose and response",
        f"Flipped preferences and KL over the dose, from untouched (0) to the found values (1) and twice as far (2). "
        "KL is estimated from a sample of positions here, so at dose 1 it can differ from the KL of the run. "
        f"{half} From dose 0 to 1, {percent(dose.monotone)} of the pairs move towards the target at every step; "
        f"{percent(dose.wrong_way)} end up farther from it.",
        draw(charts.lines(rows, quantity("dose", "dose", tickCount=5), panels)),
        data,
    )


# -- learning ---------------------------------------------------------------------------------------------------------


def learning_curves(history: Sequence[Progress], chosen: int = 0) -> Figure | None:
    """Loss, units, multiplier and flips over the updates; the line of the chosen run stands out, and the table has its
    numbers."""
    rows = curve_rows(history)
    if not rows:
        return None
    panels = {key: axis for key, axis in _CURVES.items() if any(row[key] is not None for row in rows)}
    runs = len({row["run"] for row in rows})
    several = f", a line for each of {runs} runs; run {chosen} stands out" if runs > 1 else ""
    cells = [
        (str(row["update"]), number(row["loss"]), number(row["units"], 1), number(row["multiplier"]),
         percent(row["accuracy"]))
        for row in rows
        if row["run"] == str(chosen)
    ]  # fmt: skip
    return Figure(
        "learning",
        "Learning curves",
        f"The relaxed mask on training pairs over {rows[-1]['update']} updates{several}. From top to bottom: "
        f"{', '.join(axis['title'] for axis in panels.values())}.",
        draw(charts.lines(rows, quantity("update", "update"), list(panels.values()), chosen=str(chosen))),
        table("", ("update", "loss", "expected units", "multiplier", "flipped"), cells),
    )


def curve_rows(history: Sequence[Progress], most: int = 150) -> list[Row]:
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
