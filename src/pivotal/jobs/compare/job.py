"""Runs a comparison. compare.json is written after every row, so that the comparison can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pivotal.errors import PivotalError
from pivotal.evidence.summarise import rejections
from pivotal.files import lock
from pivotal.jobs.compare.contenders import Contender, changed, check_sizes
from pivotal.jobs.compare.rows import row_of
from pivotal.jobs.preparation import Prepared, prepare
from pivotal.jobs.run_files import COMPARE, INTERVENTIONS, RUN
from pivotal.jobs.run_folder import RunFolder
from pivotal.problem.prepare import model_of
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.records.comparison import CONVERGED, EQUAL, ComparisonRecord, ComparisonRow, Mode
from pivotal.records.serial import replace
from pivotal.records.summary import PairCounts
from pivotal.searches.base import Point, Progress, Search, budget_of, check_runs
from pivotal.stopping import saying, signals
from pivotal.units import Values
from pivotal.watch import Silent, Watch

Modes = Literal["converged", "equal", "both"]
Key = tuple[Mode, str, int]

REFERENCE = "learned"
"""The search whose cost is the budget of the others in the equal mode, unless a budget is given."""


@dataclass(frozen=True)
class Comparison:
    """A finished comparison."""

    folder: RunFolder
    result: ComparisonRecord
    already: bool = False
    """Whether it was finished before, so that nothing was run."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The searches, sizes, runs and mode of a comparison."""

    contenders: tuple[Contender, ...]
    sizes: tuple[int, ...]
    runs: int = 3
    mode: Modes = "converged"
    budget: int | None = None
    """Node evaluations, forward and backward, of all runs together, for each number of units in the equal mode."""

    def __post_init__(self) -> None:
        labels = [contender.label for contender in self.contenders]
        if not labels:
            raise PivotalError("A comparison needs at least one search, but none was given.")
        if len(set(labels)) < len(labels):
            raise PivotalError(f"Each search is compared once, but they are {', '.join(labels)}.")
        if self.mode not in get_args(Modes):
            raise PivotalError(f"The mode is {', '.join(get_args(Modes))}, not {self.mode!r}.")
        if self.budget is not None and self.mode == "converged":
            raise PivotalError(
                "A budget needs the equal mode, but the mode is converged. Use --mode equal or both."
            )
        if self.budget is not None and self.budget < 1:
            raise PivotalError(f"A budget is at least one node evaluation, but it is {self.budget}.")
        object.__setattr__(self, "sizes", check_sizes(self.sizes))

    @property
    def reference(self) -> Contender:
        return next((c for c in self.contenders if c.label == REFERENCE), self.contenders[0])

    def converging(self) -> tuple[Contender, ...]:
        """The searches that run with their own settings: all, or only the reference of the budget."""
        if self.mode != "equal":
            return self.contenders
        return (self.reference,) if self.budget is None else ()

    def keys(self) -> list[Key]:
        """The rows in the order in which they are made and written."""
        equal = self.contenders if self.mode != "converged" else ()
        return [(CONVERGED, c.label, size) for c in self.converging() for size in self.sizes] + [
            (EQUAL, c.label, size) for c in equal for size in self.sizes
        ]

    def settings(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "sizes": list(self.sizes),
            "mode": self.mode,
            "budget": self.budget,
            "reference": self.reference.label if self.mode != "converged" and self.budget is None else None,
            "searches": {contender.label: contender.settings() for contender in self.contenders},
        }


def compare(
    question: Question,
    plan: ComparisonPlan,
    *,
    out: str | None = None,
    overwrite: bool = False,
    device: str | None = None,
    command: str = "",
    watch: Watch | None = None,
) -> Comparison:
    """Run every search of the plan on training pairs, and score its sets on held-out pairs."""
    watch = watch or Silent()
    check_runs(plan.runs, question.seed)
    if question.keep:
        raise PivotalError("A comparison is about flips and KL on the pairs alone. Leave keep out.", "keep")
    model = model_of(question, device)
    asked = prepare("comparison", question, model, plan.settings(), out=out, overwrite=overwrite)
    # Checked before anything is written: with `overwrite`, a bad request must not delete the existing comparison.
    _check(plan, asked.train, question.seed)
    if asked.finished is not None:
        return Comparison(asked.finished, asked.finished.comparison(), already=True)
    asked.say_pairs(watch)
    for contender in plan.contenders:
        if contender.values not in (None, question.values):
            watch.say(
                f"{contender.label} uses {contender.values} values, as its preset states, and the question "
                f"{question.values} values. Pass --values to give all searches the same values."
            )
    folder = asked.create_folder(command, plan.runs, overwrite=overwrite)
    with (folder.path / RUN).open(encoding="utf-8") as file:
        lock(file, folder.path)
        folder.remove_partials()
        sheet = _Sheet(folder, _blank(asked, plan), plan.keys())
        if sheet.rows:
            watch.say(f"Resuming the comparison in {folder.path}: {sheet.state()}.")
        try:
            with signals():  # every finished row is on disk, so a signal can stop the job at once
                _Job(plan, asked, folder, sheet, watch).run()
        except KeyboardInterrupt as stop:
            raise saying(stop, _farewell(folder, sheet)) from None
        except PivotalError:
            if not sheet.rows:
                folder.discard()  # a request that could not start must not block the corrected one
            raise
    return Comparison(folder, sheet.content())


def _check(plan: ComparisonPlan, train: Problem, seed: int) -> None:
    for contender in plan.contenders:
        contender.search.check_frontier()
    for size in plan.sizes:
        budget_of(size, len(train.space))
        for contender in plan.contenders:
            contender.sized(size).check(train, plan.runs, seed)


def _blank(asked: Prepared, plan: ComparisonPlan) -> ComparisonRecord:
    """compare.json without rows."""
    train, test = asked.train, asked.test
    return ComparisonRecord(
        finished=False,
        model=test.model.name,
        phenomenon=test.pairs.name,
        steps=test.steps,
        values=test.values,
        labels=test.labels,
        all_units=len(test.space),
        clean_accuracy=test.clean_accuracy,
        labelled=sum(1 for pair in test.pairs if pair.label),
        pairs=PairCounts(train=len(train), test=len(test), dropped=asked.dropped),
        rejected=rejections(train, test),
        seed=asked.question.seed,
        **plan.settings(),
        rows=(),
    )


def _farewell(folder: RunFolder, sheet: _Sheet) -> str:
    command = (folder.info.command or "").replace(" --overwrite", "")
    resume = f"Resume with: {command}" if command else "The same comparison with the same folder resumes it."
    return f"Stopped; {sheet.state()}, saved in {folder.path / COMPARE}. {resume}"


class _Sheet:
    """compare.json: its rows by key, written in the order of the plan."""

    def __init__(self, folder: RunFolder, blank: ComparisonRecord, keys: Sequence[Key]) -> None:
        self._folder, self._blank, self._keys = folder, blank, keys
        there = folder.comparison().rows if folder.result.is_file() else ()
        self.rows: dict[Key, ComparisonRow] = {row.key: row for row in there}

    def add(self, row: ComparisonRow) -> None:
        self.rows[row.key] = row
        self._folder.write_json(COMPARE, self.content())

    def content(self) -> ComparisonRecord:
        rows = tuple(self.rows[key] for key in self._keys if key in self.rows)
        return replace(self._blank, finished=len(rows) == len(self._keys), rows=rows)

    def state(self) -> str:
        return f"{len(self.rows)} of {len(self._keys)} sets of units are found"


class _Job:
    """Computes the missing rows."""

    def __init__(
        self, plan: ComparisonPlan, asked: Prepared, folder: RunFolder, sheet: _Sheet, watch: Watch
    ) -> None:
        self._plan, self._seed, self._test = plan, asked.question.seed, asked.test
        self._folder, self._sheet, self._watch = folder, sheet, watch
        own = {contender.values for contender in plan.contenders if contender.values is not None}
        self._train: dict[Values | None, Problem] = {None: asked.train} | {
            values: asked.train.with_values(values) for values in own
        }
        """The training problem by the values of a contender."""
        self._title = ""
        """The current row, for the progress display."""

    def run(self) -> None:
        # Measured here, so that it is not part of the cost of the first search that needs it.
        for train in self._train.values():
            train.measure_activations()
            train.bounds()
        for contender in self._plan.converging():
            self._converge(contender)
        if self._plan.mode != "converged":
            for contender in self._plan.contenders:
                for size in self._plan.sizes:
                    if (EQUAL, contender.label, size) not in self._sheet.rows:
                        self._within_budget(contender, size)

    def _converge(self, contender: Contender) -> None:
        label = contender.label
        missing = [size for size in self._plan.sizes if (CONVERGED, label, size) not in self._sheet.rows]
        for point in self._points(contender, CONVERGED, contender.search, missing):
            self._keep(contender, CONVERGED, point, contender.search)

    def _within_budget(self, contender: Contender, size: int) -> None:
        if self._plan.budget is not None:
            nodes = self._plan.budget
        else:
            spent = self._sheet.rows[CONVERGED, self._plan.reference.label, size]
            nodes = spent.nodes
            if contender is self._plan.reference:  # the budget is its own cost, so it need not run again
                self._sheet.add(replace(spent, mode=EQUAL, budget=nodes, changed={}))
                return
        search = contender.sized(size).within(self._train[contender.values], self._plan.runs, nodes)
        for point in self._points(contender, EQUAL, search, [size]):
            self._keep(contender, EQUAL, point, search, budget=nodes)

    def _points(
        self, contender: Contender, mode: Mode, search: Search, sizes: Sequence[int]
    ) -> Iterator[Point]:
        """One point for each size, in order."""
        train = self._train[contender.values]
        points = search.frontier(train, sizes, runs=self._plan.runs, seed=self._seed, progress=self._tell)
        for size in sizes:
            self._title = _title(contender.label, mode, size)
            self._watch.progress(Progress(self._title, 0, 1))
            point = next(points, None)
            if point is None or point.size != size:
                raise PivotalError(
                    f"A search must find a set for every number of units that it is asked for, in order, but "
                    f"'{contender.label}' gave {'none' if point is None else point.size} for {size}."
                )
            yield point

    def _tell(self, step: Progress) -> None:
        """Report progress, without single-update stages and without losses, which searches define differently."""
        if step.updates > 1:
            phase = f"{self._title}: {step.phase}"
            self._watch.progress(replace(step, phase=phase, loss=[]))

    def _keep(
        self, contender: Contender, mode: Mode, point: Point, search: Search, budget: int | None = None
    ) -> None:
        row, interventions = row_of(contender.label, mode, point, search, self._test, seed=self._seed)
        under = f"{contender.label}-{point.size}" + ("-equal" if mode == EQUAL else "")
        self._folder.save_interventions(interventions, under)
        altered = None if budget is None else changed(search, contender.search)
        self._sheet.add(
            replace(row, interventions=f"{INTERVENTIONS}/{under}", budget=budget, changed=altered)
        )
        self._watch.say(
            f"{_title(contender.label, mode, point.size)}: {row.flip_accuracy.mean:.1%} flipped, "
            f"KL {row.kl.mean:.3f}, {row.seconds:.1f} s; {self._sheet.state()}."
        )


def _title(label: str, mode: Mode, size: int) -> str:
    budget = ", equal budget" if mode == EQUAL else ""
    return f"{label}, {size} unit{'' if size == 1 else 's'}{budget}"


__all__ = ["Comparison", "ComparisonPlan", "Modes", "compare"]
