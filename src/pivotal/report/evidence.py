"""The evidence of a run, for the command line and the page: the checks of the verdict, the numbers behind them, and the
units of the chosen run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pivotal.printing import counted
from pivotal.records.evidence import Effect, Interchange, Redundancy, TextCost, Verdict
from pivotal.records.summary import Kept, Summary
from pivotal.report.tables import Table, activation, drop_of, number, percent, points, table, with_interval

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


def badge(verdict: Verdict) -> tuple[str, str]:
    """The verdict in a word with the number of checks that did not pass, and the class of its colour."""
    outcomes = Counter(row[1] for row in failed_table(verdict).rows)
    left = [f"{outcomes[kind]} {kind}" for kind in (MARKS[False], UNDECIDED, MARKS[None]) if outcomes[kind]]
    colour = "bad" if verdict.word == "no evidence" else "warn" if verdict.failed else "good"
    return " · ".join([f"Verdict: {verdict.word}", *([", ".join(left)] if left else [])]), colour


def failed_table(verdict: Verdict) -> Table:
    """The checks that did not pass, for the terminal."""
    rows = [row for row in checks_table(verdict).rows if row[1] != MARKS[True]]
    return Table("Checks that did not pass", ("check", "", "found"), tuple(rows))


def text_sentence(text: TextCost) -> str:
    """The perplexity of ordinary text, untouched and edited."""
    edited = " and ".join(f"{value:.1f} towards {label}" for label, value in text.edited.items())
    return (
        f"The perplexity of ordinary text ({text.text}, {text.tokens:,} predicted tokens) is {text.untouched:.1f} "
        f"untouched, {edited}."
    )


def interchange_sentence(found: Interchange | None) -> str:
    """What the states of the counterfactual prefix do; empty if there are none."""
    if found is None:
        return ""
    kl = "" if found.kl is None else f" at KL {number(found.kl)}"
    said = (
        f"With each unit set to its state in the counterfactual prefix, {with_interval(found.flipped)} flip{kl}; with "
        f"all units of their sites, {percent(found.whole_site.value)}."
    )
    if found.accuracy is None or found.wrong is None:
        return said
    return (
        f"{said} A flip is scored where the untouched model is right. Interchange accuracy, over all "
        f"{found.accuracy.n:,} pairs: the model then prefers the word of the counterfactual prefix in "
        f"{with_interval(found.accuracy)}, and in {percent(found.wrong.value)} of the {found.wrong.n:,} in which the "
        "untouched model prefers it already."
    )


def redundancy_sentence(found: Redundancy | None) -> str:
    """How many disjoint sets flip the preference; empty if none was searched for."""
    if found is None:
        return ""
    sets = counted(found.carrying, "disjoint set")
    number = (
        f"{sets} of units {'flips' if found.carrying == 1 else 'flip'}"
        if found.ended
        else f"at least {sets} flip"
    )
    return (
        f"Redundancy: {number} more than random sets do ({percent(found.level)} at best). The search was repeated "
        f"without the units found so far, {counted(len(found.sets), 'time')}."
    )


def further_table(summary: Summary, found: Redundancy) -> Table:
    """The set of the run and the further sets, in the order in which they were found."""
    best = summary.best_run
    closed = None if best.fidelity is None else best.fidelity.asked.value
    rows = [("1", ", ".join(best.unit_labels), percent(best.flip_accuracy), percent(closed), number(best.kl))]
    for i, one in enumerate(found.sets, start=2):
        flipped, closed = one.flipped.value, one.fidelity
        rows.append((str(i), ", ".join(one.units), percent(flipped), percent(closed), number(one.kl)))
    return table("Disjoint sets", ("set", "units", "flipped", "fidelity", "KL"), rows, text=2)


def kept_sentences(kept: Kept) -> list[str]:
    """What must not change, in words."""
    said = []
    if kept.max_change is not None:
        said.append(
            "The change of a question is the mean change of the probability of the expected word, among the two words "
            "of a pair, in the direction that changes it more. It is measured on pairs that the search read, and its "
            f"bound is {kept.max_change:g}."
        )
    if kept.max_kl is not None:
        said.append(f"The KL after sentences of --keep is {number(kept.kl)}; its bound is {kept.max_kl:g}.")
    said.append("The other figures are from held-out sentences of the same questions and texts.")
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


def chosen_table(summary: Summary, title: str = "Units") -> Table:
    """The units of the chosen run: their values, their natural ranges, and what is lost without each."""
    run, several = summary.best_run, len(summary.runs) > 1
    natural = summary.evidence.natural if summary.evidence else None
    ranges = {
        found.unit: f"{activation(found.low)} to {activation(found.high)}"
        for found in (natural.ranges if natural else ())
    }
    rows = []
    for i, label in enumerate(run.unit_labels):
        cells = [label, *(activation(run.values[direction][i]) for direction in summary.labels)]
        cells += [ranges.get(label, "–")] * bool(ranges)
        cells.append("the only unit" if len(run.unit_labels) == 1 else points(drop_of(run, label)))
        cells += [
            f"{sum(label in other.unit_labels for other in summary.runs)} of {len(summary.runs)}"
        ] * several
        rows.append(tuple(cells))
    columns = ["unit", *(f"→ {label}" for label in summary.labels)]
    columns += ["natural range"] * bool(ranges)
    columns += ["without it (held out, others fixed)"] + ["found by runs"] * several
    return table(title, columns, rows)
