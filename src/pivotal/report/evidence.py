"""The evidence of a run, for the command line and the page: the checks of the verdict, the numbers behind them, and the
units of the chosen run."""

from __future__ import annotations

from collections.abc import Sequence

from pivotal.records.evidence import Effect, Evidence, TextCost, UnitRange, Verdict
from pivotal.records.summary import Kept, Summary
from pivotal.report.tables import Table, activation, drop_of, interval, number, percent, points, table

MARKS = {True: "passed", False: "failed", None: "not checked"}
UNDECIDED = "not decided"
SIGNS = {"passed": "✓", "failed": "✗", "not checked": "–", UNDECIDED: "?"}


def checks_table(verdict: Verdict) -> Table:
    """Every check with its outcome and what was found."""
    rows = [
        (
            check.name,
            UNDECIDED if check.undecided else MARKS[check.passed],
            f"{check.found} {'' if check.passed else check.cure}".strip(),
        )
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
        f"The perplexity of ordinary text ({text.text}, {text.tokens:,} predicted tokens) is {text.untouched:.1f} "
        f"untouched, {edited}."
    )


def natural_sentences(summary: Summary, evidence: Evidence) -> list[str]:
    """What the units do inside their natural range, and with their counterfactual states."""
    said = []
    if summary.values == "natural":
        said.append("The search kept every value inside the natural range of its unit.")
    elif (natural := evidence.natural) is not None:
        said.append(
            f"With every value moved into the natural range of its unit, {percent(natural.flipped.value)} flip (95% "
            f"interval {interval(natural.flipped.low, natural.flipped.high)}) at KL {number(natural.kl)}."
        )
    if (swapped := evidence.interchange) is not None:
        cost = "" if swapped.kl is None else f" at KL {number(swapped.kl)}"
        said.append(
            f"With each unit set to its state in the counterfactual prefix, {percent(swapped.flipped.value)} flip (95% "
            f"interval {interval(swapped.flipped.low, swapped.flipped.high)}){cost}; with all units of their sites, "
            f"{percent(swapped.whole_site.value)}."
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
    said = []
    if kept.max_change is not None:
        said.append(
            "The change of a question is the mean change of the probability of the expected word, among the two words "
            "of a pair, in the direction that changes it more. It is measured on pairs that the search read, and its "
            f"bound is {kept.max_change:g}."
        )
    if kept.max_kl is not None:
        said.append(
            f"The KL after the sentences that had to stay the same is {number(kept.kl)}; its bound is {kept.max_kl:g}."
        )
    said.append(
        "The other figures are about sentences of the same questions and texts that the search did not read."
    )
    return [*said, *map(text_sentence, kept.texts)]


def kept_table(kept: Kept, title: str) -> Table | None:
    """The questions that had to stay, the most changed first, each with its change and the bound on it."""
    listed = effects_table(kept.effects, title)
    if listed is None or kept.max_change is None:
        return listed
    rows = [(*row, number(kept.changes.get(row[0])), f"{kept.max_change:g}") for row in listed.rows]
    return table(title, (*listed.columns, "change", "bound"), rows, text=2)


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


# -- the units of the chosen run ---------------------------------------------------------------------------


def chosen_table(summary: Summary) -> Table:
    """The units of the chosen run: their values, their natural ranges, and what is lost without each."""
    run, ranges = summary.best_run, _ranges(summary)
    rows = []
    for i, (unit, label) in enumerate(zip(run.unit_numbers, run.unit_labels, strict=True)):
        values = [activation(run.values[direction][i]) for direction in summary.labels]
        drop = drop_of(run, label)
        lost = "the only unit" if drop is None and len(run.unit_labels) == 1 else points(drop)
        cells = [str(unit), label, *values]
        if ranges:
            found = ranges.get(label)
            cells.append("–" if found is None else f"{activation(found.low)} to {activation(found.high)}")
        cells.append(lost)
        if len(summary.runs) > 1:
            cells.append(
                f"{sum(label in other.unit_labels for other in summary.runs)} of {len(summary.runs)}"
            )
        rows.append(tuple(cells))
    columns = ["unit", "site", *(f"→ {label}" for label in summary.labels)]
    columns += ["natural range"] * bool(ranges) + ["without it"] + ["found by runs"] * (len(summary.runs) > 1)
    return Table("Units", tuple(columns), tuple(rows), frozenset({0, *range(2, len(columns))}))


def note(summary: Summary) -> str:
    """What the columns of the table mean, as far as they are there."""
    said = [
        "“unit” is the number of the unit, from 1 over all layers. “site” is the same unit as layer and index, from 0. "
        "“→” is the value that the unit is set to for flipping to that label."
    ]
    if summary.values == "interchange":
        said.append(
            "Each pair sets it to its state in the counterfactual prefix; the value is the mean over pairs."
        )
    if any(label.startswith("head") for label in summary.best_run.unit_labels):
        said.append("An attention head has many values; the table shows their root mean square.")
    if _ranges(summary):
        said.append(
            "“natural range” is the 1st to the 99th percentile of its states in the untouched model, at the edited "
            "steps."
        )
    if len(summary.best_run.unit_labels) > 1:
        said.append(
            "“without it” is the change in flipped preferences, in percentage points, when this unit is not set and "
            "the others are."
        )
    return " ".join(said)


def _ranges(summary: Summary) -> dict[str, UnitRange]:
    natural = None if summary.evidence is None else summary.evidence.natural
    return {} if natural is None else {found.unit: found for found in natural.ranges}
