"""Sentences and tables about a run, for the command line and the page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Protocol, runtime_checkable

from pivotal.printing import counted
from pivotal.questions.minimal_pair import shown
from pivotal.records.evidence import Share
from pivotal.records.summary import DropOne, Fidelity, Overlap, Rejections, RunScores, Summary, told_reasons


@runtime_checkable
class ByKind(Protocol):
    """Scores by construction and direction, of a run or of an evaluation."""

    @property
    def by_group(self) -> dict[str, Share]: ...

    @property
    def by_direction(self) -> dict[str, Share]: ...


@dataclass(frozen=True)
class Table:
    """Columns and rows of text. `numeric` columns are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    note: str = ""


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1, note: str = ""
) -> Table:
    """A table whose first `text` columns are text; the others are numbers."""
    return Table(title, tuple(columns), tuple(map(tuple, rows)), frozenset(range(text, len(columns))), note)


# -- numbers as text ---------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """A share with one decimal, or with two near none and all; a dash if there is no number."""
    if share is None or isnan(share):
        return "–"
    shown = f"{_rounded(share, 3):.1%}".replace("-", "−")
    near = shown in ("100.0%", "0.0%") and 0 < round(share, 4) < 1
    return f"{share:.2%}" if near else shown.replace("100.0%", "100%")


def interval(low: float, high: float) -> str:
    to = "–" if low >= 0 else " to "  # a dash beside a minus cannot be read
    return f"{number(100 * low, 1)}{to}{number(100 * high, 1)}%".replace("100.0", "100")


def points(difference: float | None) -> str:
    """A difference of two shares, in percentage points."""
    return "–" if difference is None else f"{_rounded(100 * difference, 1):+.1f}".replace("-", "−")


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or isnan(value) else f"{_rounded(value, digits):.{digits}f}".replace("-", "−")


def signed(value: float) -> str:
    return f"{_rounded(value, 2):+.2f}".replace("-", "−")


def _rounded(value: float, digits: int) -> float:
    """A rounded number without negative zero. Rounding errors may give a KL of −1e-9 if an edit does nothing."""
    return round(value, digits) + 0.0


def activation(value: float | None) -> str:
    """An activation, or the value that a unit is set to: two decimals, or none for large values, which transformers may
    have."""
    if value is None:
        return "left alone"
    if abs(value) < 0.005:
        return "0.00"
    return signed(value) if abs(value) < 100 else f"{value:+,.0f}".replace("-", "−")


def with_interval(share: Share) -> str:
    return f"{percent(share.value)} (95% interval {interval(share.low, share.high)})"


# -- sentences ---------------------------------------------------------------------------------------------


VERBS = {"decide": ("decides", "decide"), "switch": ("switches", "switch"), "nudge": ("nudges", "nudge")}
"""The verbs of the verdicts, for one unit and for several."""


def sentence(summary: Summary) -> str:
    """The result in one sentence: the verdict, and the numbers of the best run on held-out pairs."""
    units = summary.units
    how = "exchanged" if summary.values == "interchange" else "set"
    where = f"{how} at every step" if summary.steps == "every" else f"{how} once, at the cue,"
    they, flip = ("it", "flips") if units == 1 else ("they", "flip")
    of = "" if len(summary.runs) == 1 else f" (the best of {len(summary.runs)} runs by training pairs)"
    found = f"{units} of {summary.all_units:,} units"
    flipped = (
        f"{flip} {percent(summary.flip_accuracy)} of {counted(summary.pairs.test, 'held-out preference')}"
    )
    closed = summary.best_run.fidelity
    fidelity = "" if closed is None or not summary.asks_words else f", fidelity {percent(closed.asked.value)}"
    if summary.asks_words or closed is None:
        flipped += f" (95% interval {interval(*summary.interval)})"
    else:
        share = f"{flip.replace('flip', 'close')} {with_interval(closed.asked)}"
        flipped = f"{share} of the gap to the predictions after the partners of {summary.pairs.test:,} held-out prompts"
    numbers = f"{fidelity}, KL {number(summary.kl)}{of}."
    bound = "".join(f" {said}" for said in broken_bounds(summary))
    what = f"{summary.phenomenon} in {summary.model}"
    word = "no evidence" if summary.verdict is None else summary.verdict.word
    if word in VERBS:
        verb = VERBS[word][units != 1]
        return f"{found} {verb} {what}: {where} {they} {flipped}{numbers}{bound}"
    prefix = "" if summary.verdict is None else "No evidence: "
    return f"{prefix}{found}, {where.rstrip(',')}, {flipped} of {what}{numbers}{bound}"


def opening(summary: Summary) -> list[str]:
    """The result, the verdict, an example and the strength; empty if there is none."""
    verdict = "" if summary.verdict is None else summary.verdict.sentence
    return [sentence(summary), verdict, example_sentence(summary), strength_sentence(summary)]


def example_sentence(summary: Summary) -> str:
    """One held-out sentence before and after, with the probabilities of its two words; empty without words."""
    example, (before, after) = summary.example, summary.example.target
    if not summary.asks_words:
        return ""
    wanted = summary.labels.index(example.direction)
    target, other = shown(example.words[wanted]), shown(example.words[1 - wanted])
    flips = "A typical flip" if summary.flip_accuracy >= 0.5 else "One that flips"
    kind = flips if after > 0.5 else "None flips; a typical sentence"
    return (
        f"{kind}, to {example.direction}: “{example.prefix} …” {other} {percent(1 - before)} → {percent(1 - after)}, "
        f"{target} {percent(before)} → {percent(after)} (probabilities among the two words)."
    )


def strength_sentence(summary: Summary) -> str:
    """How strong the flips are. Without words, what counts as one."""
    before, after = summary.best_run.target
    if not summary.asks_words:
        nearer = "the edited prediction is nearer to the one after the partner than to the untouched one"
        return f"{percent(summary.flip_accuracy)} of the prompts flip: {nearer}."
    return (
        f"Strength: the median probability of the target word, among the two words of a held-out pair, goes from "
        f"{percent(before)} to {percent(after)}."
    )


def seconds_sentence(summary: Summary) -> str:
    """How long each stage took."""
    spent = summary.seconds
    stages = f"load {spent.load:,.0f} s, search {spent.search:,.0f} s, evaluate {spent.evaluate:,.0f} s"
    return f"Time: {spent.total:,.0f} s ({stages})."


def fidelity_sentence(found: Fidelity | None) -> str:
    """What an edit closes of the gap to the counterfactual, and where it changes the model; empty without a measure."""
    if found is None:
        return ""
    asked, from_cue = with_interval(found.asked), with_interval(found.from_cue)
    limits = ""
    if found.ceiling is not None and found.floor is not None:
        most, least = (" and ".join(map(percent, ends)) for ends in (found.ceiling, found.floor))
        limits = (
            f" An interchange of all units of their sites closes {most}, one of as many random units {least} on "
            "average."
        )
    places = {"before the cue": found.kl_before, "after it": found.kl_between}
    earlier = "".join(f"{number(kl)} {place}, " for place, kl in places.items() if kl is not None)
    return (
        f"Fidelity: of the gap to the prediction after the counterfactual prefix, the edit closes {asked} at the "
        f"asked position, and {from_cue} from the cue on.{limits} "
        f"KL is {earlier}{'and ' * bool(earlier)}{number(found.kl_asked)} at the asked position."
    )


def broken_bounds(summary: Summary) -> list[str]:
    """A sentence for each kind of bound that the best run exceeds."""
    said, kept = [], summary.kept
    if summary.kl_bound_kept is False:
        text = kept is not None and kept.kl is not None
        which = f"The KL of what must not change, {number(kept.kl)}," if text and kept else "This KL"
        said.append(f"{which} exceeds the bound of {summary.max_kl:g}.")
    if kept is not None and kept.broken:
        listed = ", ".join(f"{name} ({number(kept.changes[name])})" for name in kept.broken)
        said.append(f"The change of {listed} exceeds the bound of {kept.max_change:g}.")
    return said


_SETTING = {
    "unbounded": "with values learned on the same pairs",
    "natural": "with values learned on the same pairs inside their natural ranges",
    "interchange": "set to their counterfactual states too",
}


def control_sentence(summary: Summary) -> str:
    control, best = summary.controls, summary.best_run
    if not control.sets:
        return "No control was run."
    broken = control.broken
    without = f" (for p, without {counted(broken, 'set')} over the bound on KL)" if broken else ""
    fitted = (
        ""
        if control.gained is None
        else f" The last round of fitting added at most {percent(control.gained)}."
    )
    return (
        f"Control, best run: {control.sets} random sets of {counted(best.units, 'unit')}, "
        f"{_SETTING[summary.values]}, flip {percent(control.mean)} on average and "
        f"{percent(control.best)} at best, "
        f"against {percent(best.flip_accuracy)}{without}: p = {number(control.p_value, 2)}.{fitted}"
    )


def overlap_sentence(summary: Summary) -> str:
    """What held-out pairs share with training pairs."""
    counts = f"{counted(summary.pairs.train, 'training pair')}, {summary.pairs.test:,} held out."
    return f"{counts} {shared_sentence(summary.overlap, summary.asks_words)}"


def shared_sentence(shared: Overlap, asks_words: bool = True) -> str:
    """What held-out pairs share with training pairs."""

    def of_pairs(share: float) -> str:
        return {0.0: "none", 1.0: "all"}.get(share, percent(share))

    prefixes = (
        "Every held-out prefix is new."
        if shared.prefix == 0
        else f"Of the held-out pairs, {of_pairs(shared.prefix)} share their prefix with a training pair."
    )
    words = f"{of_pairs(shared.words)} share a word that is asked about"
    if shared.cue is None:
        return prefixes + f" The held-out pairs have no cue words; {words} with a training pair." * asks_words
    cues = f"{of_pairs(shared.cue)} share their cue word with a training pair"
    return f"{prefixes} Of the held-out pairs, {cues}{f', and {words}' * asks_words}."


def unseen_sentence(summary: Summary) -> str:
    """The score on words that the values were not learned with; empty if it was not measured."""
    unseen = None if summary.evidence is None else summary.evidence.unseen_words
    if unseen is None:
        return ""
    share = unseen.flip_accuracy
    return (
        f"Unseen words, best run: with values learned again without half of the words ({', '.join(unseen.slots)}), the "
        f"same units flip {percent(share.value)} of the {counted(share.n, 'held-out pair')} that have only those words "
        f"(95% interval {interval(share.low, share.high)})."
    )


def clean_sentence(result: Summary) -> str:
    """The accuracy of the untouched model; empty if no pair states an expected word."""
    if result.clean_accuracy is None:
        return ""
    every = result.labelled == result.pairs.test
    which = "held-out pairs" if every else counted(result.labelled, "labelled held-out pair")
    return (
        f"The untouched model prefers the expected word in {percent(result.clean_accuracy)} of the {which}."
    )


def skipped_sentence(rejected: Rejections) -> str:
    """The pairs that the model cannot score, with reasons; empty if there are none."""
    if not rejected.total:
        return ""
    return f"{counted(rejected.total, 'pair')} could not be used with this model: {told_reasons(rejected.reasons)}."


def shown_stage(stage: Mapping[str, float]) -> str:
    units = stage.get("units")
    shown = "" if units is None else f" ({units:.4g} unit{'' if units == 1 else 's'})"
    return percent(stage.get("accuracy")) + shown


# -- tables ------------------------------------------------------------------------------------------------


def units_table(summary: Summary, most: int | None = None) -> Table:
    """Every unit that a run found. Its values and the effect of dropping it are means over those runs."""
    runs, labels = summary.runs, summary.labels
    rows = []
    for label, found in list(summary.prevalence.items())[:most]:
        having = [(run, run.unit_labels.index(label)) for run in runs if label in run.unit_labels]
        values = [mean_and_spread([run.values[d][i] for run, i in having]) for d in labels]
        drops = [drop for run, _ in having if (drop := drop_of(run, label)) is not None]
        shown = points(statistics.mean(drops)) if drops else "the only unit"
        chosen = ["●" if label in summary.best_run.unit_labels else ""] * (len(runs) > 1)
        rows.append((label, *chosen, *values, f"{found.runs} of {len(runs)}", shown))
    left = len(summary.prevalence) - len(rows)
    note = f"And {left} more, in summary.json." if left else ""
    marked = ["chosen"] * (len(runs) > 1)
    columns = ("unit", *marked, *map("→ {}".format, labels), "runs", "without it (held out, others fixed)")
    return table("Units", columns, rows, text=1 + len(marked), note=note)


def mean_and_spread(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation. None stands for a unit that is not set in that direction."""
    there = [v for v in values if v is not None]
    if not there:
        return "left alone"
    spread = f" ± {statistics.stdev(there):.2f}" if len(there) > 1 else ""
    return signed(statistics.mean(there)) + spread


def drop_of(run: RunScores, label: str) -> float | None:
    """The change in flip accuracy when one of a run's units is dropped."""
    return next((one.flip_accuracy - run.flip_accuracy for one in run.drop_one if one.unit == label), None)


def runs_table(summary: Summary) -> Table:
    rows = []
    for r, run in enumerate(summary.runs):
        marks = [m for m, at in (("chosen", summary.best), ("median", summary.median)) if at == r]
        which = f"{r} ({', '.join(marks)})" if len(summary.runs) > 1 and marks else str(r)
        scores = (
            percent(run.flip_accuracy),
            interval(*run.interval),
            percent(None if run.fidelity is None else run.fidelity.asked.value),
            number(run.kl),
            number(run.kl_after_edit),
        )
        rows.append((which, ", ".join(run.unit_labels), str(run.seed), str(run.units), *scores))
    scored = ("flipped", "95% interval", "fidelity", "KL", "KL after edit")
    columns = ("run", "units", "seed", "number", *scored)
    note = "The chosen run is the run with the best score on training pairs (loss and KL)." * (len(rows) > 1)
    return table("Runs", columns, rows, text=2, note=note)


def shares_table(scores: ByKind, title: str = "By construction and direction") -> Table:
    rows = [
        (name or "all", kind, f"{share.n:,}", percent(share.value), interval(share.low, share.high))
        for kind, shares in (("construction", scores.by_group), ("direction", scores.by_direction))
        for name, share in shares.items()
    ]
    note = "Pairs with the same prefix, cue or asked words often flip together: an interval counts them as fewer pairs."
    return table(title, ("", "", "pairs", "flipped", "95% interval"), rows, text=2, note=note)


def stages_table(summary: Summary) -> Table:
    names = list(dict.fromkeys(name for run in summary.runs for name in run.stages))
    rows = [
        (str(r), *(shown_stage(run.stages[name]) if name in run.stages else "–" for name in names))
        for r, run in enumerate(summary.runs)
    ]
    return table("Training pairs, stage by stage", ("run", *names), rows)


def drop_one_table(drop_one: Sequence[DropOne], flip_accuracy: float) -> Table:
    """The scores without each unit. `flip_accuracy` is the score with all units."""
    rows = [
        (d.unit, percent(d.flip_accuracy), points(d.flip_accuracy - flip_accuracy), number(d.kl))
        for d in drop_one
    ]
    return table("Without each unit", ("unit", "flipped", "points", "KL"), rows)
