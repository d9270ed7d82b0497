"""The evidence of a run, for the command line and the page: the checks of the verdict, and the figures behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotal.records.evidence import Dose, Effect, Evidence, Natural, TextCost, UnitRange, Verdict
from pivotal.records.summary import Kept, Summary
from pivotal.report.drawing import COLOURS, KL_SCALE, KL_TICKS, WIDTH, Figure, draw
from pivotal.report.tables import Table, interval, number, percent, points, signed, table

MOST_UNITS = 20
"""The most units that a chart shows. The table below the chart has all units."""
MARKS = {True: "passed", False: "failed", None: "not checked"}


def checks_table(verdict: Verdict) -> Table:
    """Every check with its outcome and what was found."""
    rows = [
        (check.name, MARKS[check.passed], f"{check.found} {'' if check.passed else check.cure}".strip())
        for check in verdict.checks
    ]
    return Table("Checks", ("check", "", "found"), tuple(rows))


def failed_table(verdict: Verdict) -> Table:
    """The checks that did not pass, for the terminal."""
    rows = [row for row in checks_table(verdict).rows if row[1] != MARKS[True]]
    return Table("Checks that did not pass", ("check", "", "found"), tuple(rows))


def cost_sentences(summary: Summary, evidence: Evidence) -> list[str]:
    """What the intervention changes besides the preferences, beside what a real change of the cue changes."""
    said = [
        f"KL {number(summary.kl)} is the mean over sentences of the mean over all positions. Over the positions from "
        f"the first edited step on, KL is {number(summary.kl_after_edit)}."
    ]
    if (swap := evidence.swap) is not None:
        said.append(
            f"A real change of the cue costs KL {number(swap.kl)} in this model on these sentences, and flips "
            f"{percent(swap.flipped.value)} of the preferences (95% interval "
            f"{interval(swap.flipped.low, swap.flipped.high)})."
        )
    if (text := evidence.text) is not None:
        said.append(text_sentence(text))
    if (paths := evidence.paths) is not None:
        direct = (
            "" if paths.direct is None else f" {percent(paths.direct)} of it goes straight to the output."
        )
        said.append(
            f"The edit changes the log odds by {paths.change:.2f} nats on average.{direct} Set at the last step only, "
            f"the units keep {percent(paths.last_step)} of it."
        )
    if (divergence := evidence.divergence) is not None:
        said.append(
            f"Edited last states are {divergence.ratio:.2f} times as far from the nearest natural state as natural "
            "states are from one another (median)."
        )
    return said


def text_sentence(text: TextCost) -> str:
    """The perplexity of ordinary text, untouched and edited."""
    edited = " and ".join(f"{value:.1f} towards {label}" for label, value in text.edited.items())
    return (
        f"The perplexity of ordinary text ({text.text}, {text.tokens:,} tokens) is {text.untouched:.1f} untouched, "
        f"{edited}."
    )


def natural_sentences(evidence: Evidence) -> list[str]:
    """What the units do inside their natural range, and with their counterfactual states."""
    said = []
    if (natural := evidence.natural) is not None:
        said.append(
            f"With every value moved into the natural range of its unit, {percent(natural.flipped.value)} flip (95% "
            f"interval {interval(natural.flipped.low, natural.flipped.high)}) at KL {number(natural.kl)}."
        )
    if (swapped := evidence.interchange) is not None:
        cost = "" if swapped.kl is None else f" at KL {number(swapped.kl)}"
        said.append(
            f"With each unit set to its state in the counterfactual prefix, {percent(swapped.flipped.value)} flip (95% "
            f"interval {interval(swapped.flipped.low, swapped.flipped.high)}){cost}; with all units of their sites set "
            f"so, {percent(swapped.whole_site.value)}."
        )
        if evidence.natural is None and swapped.fixed is not None:
            said.append(
                "A text without a counterfactual prefix gets the means of these states, the same for every text. On "
                f"the same pairs the means flip {percent(swapped.fixed.value)} (95% interval "
                f"{interval(swapped.fixed.low, swapped.fixed.high)})."
            )
    return said


def kept_sentences(kept: Kept) -> list[str]:
    """What had to stay, in words."""
    said = [
        f"The KL after the sentences that had to stay is {number(kept.kl)}; its bound is {kept.max_kl:g}. The other "
        "figures are about sentences of the same questions and texts that the search did not read."
    ]
    return [*said, *map(text_sentence, kept.texts)]


def natural_figure(natural: Natural) -> Figure | None:
    """The natural range of each unit, and the values that it is set to."""
    shown = natural.ranges[:MOST_UNITS]
    if not shown:
        return None
    directions = list(shown[0].values)
    rows = [
        (one.unit, signed(one.low), signed(one.high), *(_value(one.values[d]) for d in directions))
        for one in natural.ranges
    ]
    inside = sum(one.inside for one in natural.ranges)
    return Figure(
        "natural",
        "Natural ranges",
        f"The natural range of each unit as a bar, and the values that it is set to as dots. {inside} of "
        f"{len(natural.ranges)} units stay inside.",
        draw(_natural_chart(shown)),
        table("", ("unit", "1st percentile", "99th percentile", *(f"→ {d}" for d in directions)), rows),
    )


def _value(value: float | None) -> str:
    return "left alone" if value is None else signed(value)


def _natural_chart(ranges: Sequence[UnitRange]) -> Any:
    import altair as alt

    order = [one.unit for one in ranges]
    bars = [{"unit": one.unit, "low": one.low, "high": one.high} for one in ranges]
    dots = [
        {"unit": one.unit, "direction": f"→ {direction}", "value": value}
        for one in ranges
        for direction, value in one.values.items()
        if value is not None
    ]
    y = alt.Y("unit:N", sort=order, title=None)
    bar = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(height=12, opacity=0.35, color=COLOURS[6])
        .encode(x=alt.X("low:Q", title="activation"), x2="high:Q", y=y)
    )
    colour = alt.Color("direction:N", title=None, scale=alt.Scale(range=list(COLOURS)))
    dot = (
        alt.Chart(alt.Data(values=dots))
        .mark_point(size=70, filled=True, opacity=1)
        .encode(x="value:Q", y=y, color=colour)
    )
    return (bar + dot).properties(width=WIDTH - 130, height=26 * len(ranges))


def effects_table(
    effects: Sequence[Effect], title: str = "Other phenomena with the intervention applied"
) -> Table | None:
    """Other phenomena with the intervention applied, the most changed first."""
    if not effects:
        return None
    directions = list(effects[0].edited)
    rows = []
    for effect in sorted(effects, key=lambda effect: (effect.related, -effect.moved)):
        flipped = "–" if effect.flipped is None else percent(effect.flipped.value)
        edited = [points(effect.edited[d].value - effect.untouched.value) for d in directions]
        kind = "related" if effect.related else "unrelated"
        rows.append(
            (effect.phenomenon, kind, str(effect.pairs), percent(effect.untouched.value), *edited, flipped)
        )
    columns = ("phenomenon", "", "pairs", "untouched", *(f"→ {d}, points" for d in directions), "flipped")
    return table(title, columns, rows, text=2)


def dose_figure(dose: Dose) -> Figure:
    """Flips and KL over the dose."""
    half = "No dose up to 2 flips half." if dose.half is None else f"Half flip at dose {dose.half:.2f}."
    rows = [
        (f"{d:g}", percent(f), number(k))
        for d, f, k in zip(dose.doses, dose.flip_accuracy, dose.kl, strict=True)
    ]
    return Figure(
        "dose",
        "Dose and response",
        f"Flipped preferences and KL over the dose, from untouched (0) to the found values (1) and twice as far (2). "
        f"{half} From dose 0 to 1, {percent(dose.monotone)} of the pairs move towards the target at every step; "
        f"{percent(dose.wrong_way)} end up farther from it.",
        draw(_dose_chart(dose)),
        table("", ("dose", "flipped", "KL"), rows),
    )


def _dose_chart(dose: Dose) -> Any:
    import altair as alt

    rows = [
        {"dose": d, "flipped": f, "kl": k}
        for d, f, k in zip(dose.doses, dose.flip_accuracy, dose.kl, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("dose:Q", title="dose"))
    line: dict[str, Any] = {"point": True, "strokeWidth": 2}
    scale: Any = KL_SCALE
    flips = base.mark_line(color=COLOURS[0], **line).encode(
        y=alt.Y(
            "flipped:Q",
            title="preferences flipped",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%"),
        )
    )
    kl = base.mark_line(color=COLOURS[1], **line).encode(
        y=alt.Y("kl:Q", title="KL", scale=scale, axis=alt.Axis(values=KL_TICKS, format="~g"))
    )
    size: dict[str, Any] = {"width": WIDTH - 130, "height": 130}
    return alt.vconcat(flips.properties(**size), kl.properties(**size))
