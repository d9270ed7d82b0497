"""summary.json: the scores of a run's interventions on held-out pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pivotal.records.evidence import Effect, Evidence, Share, TextCost, Verdict
from pivotal.records.frame import to_frame
from pivotal.records.serial import Number, Record
from pivotal.units import Objective, Steps, Values


class Fidelity(Record, frozen=True, omit_defaults=True, kw_only=True):
    """How far an edit takes the model to what it says itself after the counterfactual prefix, on held-out prefixes. The
    gap is KL(counterfactual || untouched) over the whole vocabulary; an edit closes 1 - KL(counterfactual || edited) /
    gap of it."""

    asked: Share
    """The share of the gap that is closed where the two words are asked."""
    from_cue: Share
    """The same, averaged from the first word in which the two prefixes differ, as a rule the cue, to the end."""
    gap: tuple[Number, Number]
    """The gap in nats: where the words are asked, and from the cue to the end."""
    kl_before: Number | None = None
    """KL(untouched || edited), the mean over the positions before the cue: a pure side effect. Absent if there are
    none."""
    kl_between: Number | None = None
    """The same from the cue to the position before the asked one."""
    kl_asked: Number
    """The same at the asked position, where it is the effect itself."""
    ceiling: tuple[Number, Number] | None = None
    """What an interchange of the whole sites closes: where the words are asked, and from the cue to the end."""
    floor: tuple[Number, Number] | None = None
    """What an interchange of as many random units of the same sites closes, on average over four sets."""


class DropOne(Record, frozen=True):
    """The scores without one unit; the other units keep their values."""

    unit: str
    """Site and index, such as `hidden.0:122`."""
    flip_accuracy: Number
    kl: Number


class Control(Record, frozen=True, omit_defaults=True, kw_only=True):
    """Random sets of the same size, with values learned on the same pairs. Empty if no control was run."""

    sets: int = 0
    """The number of random sets."""
    flip_accuracy: list[Number] = []
    """Of each random set."""
    mean: Number | None = None
    best: Number | None = None
    p_value: Number | None = None
    """The share of sets, including the found set, that flip at least as much as the found set."""
    broken: int | None = None
    """The number of random sets that exceed the KL bound while the found set keeps it. They do not count for p."""
    gained: Number | None = None
    """The most that the last round of fitting added to the flips of a random set, as a share. Null if the values had to
    keep a bound."""


class Rejections(Record, frozen=True, kw_only=True):
    """Pairs that the model cannot score."""

    total: int
    reasons: dict[str, int]
    """The number of pairs by reason, the most frequent first."""


def told_reasons(reasons: Mapping[str, int], most: int = 5) -> str:
    """The reasons of rejections in one line. Reasons that differ in the words alone are told once, with the number of
    pairs of each word."""
    kinds: dict[str, Counter[str]] = {}
    for reason, count in reasons.items():
        kind, _, words = reason.partition(": ")
        for word in dict.fromkeys(words.split(", ")):
            kinds.setdefault(kind, Counter())[word] += count
    told = []
    for kind, by_word in kinds.items():
        if list(by_word) == [""]:
            told.append(f"{kind} ({by_word['']:,})")
            continue
        listed = [f"{word} ({count:,})" for word, count in by_word.most_common(most)]
        more = len(by_word) - most
        told.append(f"{kind}: {', '.join(listed)}" + (f" and {more:,} more" if more > 0 else ""))
    return "; ".join(told)


class PairCounts(Record, frozen=True, kw_only=True):
    """The numbers of pairs."""

    train: int
    test: int
    """Held out."""
    dropped: int = 0
    """Pairs in neither part, because they mix held-out words with other words."""
    merged: int = 0
    """Lines of the pairs file that repeat an earlier line. They were read once."""


class Overlap(Record, frozen=True, kw_only=True):
    """What held-out pairs have in common with training pairs: shares of the held-out pairs."""

    prefix: Number
    """The prefix occurs in a training pair."""
    cue: Number | None
    """The cue word occurs as the cue of a training pair: of the pairs with a cue. Null if there are none."""
    words: Number
    """One of the two words occurs among the words of a training pair."""


class Kept(Record, frozen=True, kw_only=True):
    """What had to stay the same during the search (`--keep`), with the intervention of the best run applied."""

    max_change: float | None = None
    """The bound on the change of each question; absent if no question had to stay."""
    changes: dict[str, Number] = {}
    """The change of each question, on pairs that the search read, in the direction that changes it more: the size of
    the mean of p' - p, where p and p' are the probabilities of the expected word among the two of a pair, untouched and
    edited."""
    broken: tuple[str, ...] = ()
    """The questions whose change exceeds the bound by more than a tenth."""
    max_kl: float | None = None
    """The bound on the KL after each word of the text, averaged over both directions; absent if no text had to stay."""
    kl: Number | None = None
    """That KL, on the sentences that the search read."""
    effects: tuple[Effect, ...] = ()
    """Other questions, on pairs that the search did not read."""
    texts: tuple[TextCost, ...] = ()
    """Ordinary text, on sentences that the search did not read."""


class Prevalence(Record, frozen=True, kw_only=True):
    """How often a unit was found."""

    runs: int
    share: Number


class Example(Record, frozen=True, kw_only=True):
    """A held-out pair before and after: the flipped pair of median strength, or the median pair if none is flipped."""

    prefix: str
    cue: int | None
    words: tuple[str, str]
    direction: str
    target: tuple[Number, Number]
    """The probability of the target word among the two words, untouched and edited."""


class Seconds(Record, frozen=True, kw_only=True):
    """Wall-clock times, in seconds."""

    load: Number = 0.0
    search: Number = 0.0
    evaluate: Number = 0.0
    total: Number = 0.0


class RunScores(Record, frozen=True, kw_only=True):
    """One run: its units and their scores on held-out pairs."""

    seed: int
    flip_accuracy: Number
    """Share of held-out pairs whose preference is flipped."""
    interval: tuple[Number, Number]
    """95% interval of the flip accuracy."""
    target: tuple[Number, Number]
    """The probability of the target word among the two words of a pair, untouched and edited: medians over the held-out
    pairs."""
    units: int
    """The number of units."""
    kl: Number
    """KL to the untouched model: the mean over sentences of the mean over all positions."""
    kl_after_edit: Number
    """The same over the positions from the first edited step on."""
    fidelity: Fidelity | None = None
    """Absent if no pair has a counterfactual prefix."""
    by_direction: dict[str, Share]
    by_group: dict[str, Share]
    """By construction."""
    drop_one: tuple[DropOne, ...]
    """Empty for a single unit."""
    unit_labels: tuple[str, ...]
    """Site and index, such as `hidden.0:122`."""
    values: dict[str, tuple[Number | None, ...]]
    """By direction, the value of each unit, or the root mean square for an attention head; null if it is not set."""
    train_score: Number
    """The score on training pairs that decides which run is best; lower is better."""
    stages: dict[str, dict[str, Number]]
    """Loss, accuracy, units and KL on training pairs, from the relaxed mask to the final units."""


class Summary(Record, frozen=True, omit_defaults=True, kw_only=True):
    """summary.json: what a run found. The scores at the top are those of the best run."""

    model: str
    phenomenon: str
    steps: Steps
    """Whether the units are set at every step of the prefix or at the cue only."""
    values: Values
    """What units could be set to. With `interchange` all scores are of the interchange, and the values of the runs are
    means of the states that it sets units to."""
    objective: Objective = "flips"
    """What the search learned to change: the preference between the asked words, or the whole prediction."""
    labels: tuple[str, str]
    """The two labels, which are also the directions."""
    all_units: int
    """The number of units searched."""
    flip_accuracy: Number
    """This and the next four scores are those of the best run; `runs` explains them."""
    interval: tuple[Number, Number]
    units: int
    kl: Number
    kl_after_edit: Number
    max_kl: float | None = None
    """The bound on KL, that of the text if text had to stay; absent if there was none."""
    kl_bound_kept: bool | None = None
    """Whether the best run keeps it, up to a tenth; absent if there was no bound."""
    median: int
    """The run of median flip accuracy; of two middle runs, the lower."""
    best: int
    """The run with the best score on training pairs."""
    forward_nodes: int
    """Node evaluations of the search, all runs together."""
    backward_nodes: int
    clean_accuracy: Number | None
    """How often the untouched model prefers the expected word; null if no pair states one."""
    labelled: int
    """The held-out pairs that state an expected word."""
    pairs: PairCounts
    overlap: Overlap
    rejected: Rejections
    controls: Control
    kept: Kept | None = None
    """What had to stay the same; absent without `--keep`. The bound on KL then applies to it."""
    prevalence: dict[str, Prevalence]
    """One entry per unit, the most frequent first."""
    example: Example
    runs: tuple[RunScores, ...]
    evidence: Evidence | None = None
    """What was checked about the best run. The job adds it and the verdict."""
    verdict: Verdict | None = None
    """What may be said about the best run."""
    seconds: Seconds = Seconds()
    """Filled in by the job when it has finished."""

    def __post_init__(self) -> None:
        # The reader of a file turns a ValueError into a message.
        for name in ("best", "median"):
            if not 0 <= getattr(self, name) < len(self.runs):
                raise ValueError(f"Run {getattr(self, name)} is the {name} run of {len(self.runs)} runs")
        if self.example.direction not in self.labels:
            raise ValueError(f"The example flips to {self.example.direction!r}, which is no label")
        for number, run in enumerate(self.runs):
            lengths = {len(part) for part in (run.unit_labels, *run.values.values())}
            if len(lengths) > 1 or set(run.values) != set(self.labels):
                raise ValueError(f"Run {number} must have a number per unit and direction")

    @property
    def best_run(self) -> RunScores:
        """The row of the best run, by its number `best`."""
        return self.runs[self.best]

    @property
    def asks_words(self) -> bool:
        """Whether the pairs ask which of two words follows."""
        return any(self.example.words)

    def __repr__(self) -> str:
        from pivotal.report.notebook import result_text

        return result_text(self)

    def to_frame(self) -> Any:
        """A data frame with a row for each run: its scores and its units."""
        names = ("seed", "flip_accuracy", "units", "kl", "kl_after_edit", "train_score")
        return to_frame(
            [
                {"model": self.model, "phenomenon": self.phenomenon, "best": run is self.best_run}
                | {name: getattr(run, name) for name in names}
                | {"low": run.interval[0], "high": run.interval[1], "unit_names": " ".join(run.unit_labels)}
                | {"untouched_target": run.target[0], "edited_target": run.target[1]}
                for run in self.runs
            ]
        )
