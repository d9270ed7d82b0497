"""How often is the verdict right? A bench of questions and models whose truth is known.

    python benchmarks/calibration.py [--only KIND …] [--most N] [--out docs/results/calibration.jsonl] [--part I/N]

The truth of a question is one of three things. *Units*: given units carry the answer, because the model was built or
trained so; the verdict should be *switch* or *decide*, and the units should be found. *Carried*: the model knows the
answer, but nobody knows its units. *Nothing*: there is nothing that few units could carry, and every word above *no
evidence* is wrong.

Every question adds a line to the file, and questions that are in it are not asked again. `--part` divides the questions
among processes. If the checks of the untouched model fail, the verdict is *no evidence* whatever a search finds, so
there is no search then (`--search` makes it all the same). Where quick evidence gives *switch*, full evidence is
collected, unless *switch* is already right. Models with a vocabulary of their own are asked no other phenomena.
`python scripts/results.py` makes the tables of docs/results-evidence.md from the rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
import unasked_questions as unasked
from known_models import Cell, Truth, train

import pivotal
from pivotal.evidence.knowledge import cue_swap, knowledge_of
from pivotal.evidence.verdict import both_directions, known, likely_words
from pivotal.jobs.find import find
from pivotal.models.base import LanguageModel
from pivotal.models.planted import plant
from pivotal.problem.prepare import problem_of
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.evidence import Check, Evidence
from pivotal.searches.base import Discovery, Search
from pivotal.searches.exchange import Exchange

ROWS = Path("docs/results/calibration.jsonl")
Claim = Literal["units", "carried", "nothing"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A question with its model and its truth."""

    model: LanguageModel
    pairs: PairSet
    units: tuple[str, ...] = ()
    """The units that carry the answer, where they are known."""
    search: Search | None = None
    learned: float = 1.0
    """The share of exchanges on fresh sentences after which a trained model answers as its truth says."""


@dataclass(frozen=True)
class Without(Exchange):
    """The default search, without some units."""

    units: tuple[str, ...] = ()

    def solve(self, problem: Problem, **how: Any) -> Discovery:
        left = [unit for unit in problem.space if str(unit) in self.units]
        return super().solve(problem.without(left), **how)


@dataclass(frozen=True)
class Kind:
    """Questions of one kind."""

    truth: Claim
    count: int
    make: Callable[[int], Case]


def kinds() -> dict[str, Kind]:
    """About 260 questions."""
    found = {"planted": Kind("units", 36, planted)}
    trained: tuple[tuple[Truth, Claim, int], ...] = (
        ("carried", "units", 14),
        ("spread", "nothing", 15),
        ("unknown", "nothing", 9),
        ("other cue", "nothing", 6),
    )
    for truth, claim, count in trained:
        for cell in ("lstm", "transformer"):
            found[f"{cell}, {truth}"] = Kind(claim, count, partial(trained_case, cell, truth))
    found["transformer, elsewhere"] = Kind("nothing", 15, partial(trained_case, "transformer", "elsewhere"))
    found["planted, withheld"] = Kind("nothing", 15, withheld)
    nothing = {
        "model-labelled": (unasked.model_labelled, 15),
        "chosen forms": (unasked.chosen_forms, 15),
        "one bias": (unasked.one_bias, 15),
        "number of nothing": (unasked.number_of_nothing, 15),
        "frequency": (unasked.frequency, 12),
        "random labels": (unasked.random_labels, 12),
        "shuffled labels": (unasked.shuffled, 10),
        "never predicted": (unasked.never_predicted, 10),
        "permuted": (unasked.permuted_labels, 10),
        "one-sided": (unasked.one_sided, 10),
    }
    for name, (make, count) in nothing.items():
        found[name] = Kind("nothing", count, partial(wiki_case, make))
    found["noisy number"] = Kind("carried", 8, partial(wiki_case, unasked.noisy))
    return found


def planted(index: int) -> Case:
    made = plant(index + 1)
    pairs = pivotal.load_phenomenon("planted")
    return Case(made.model, pairs, tuple(map(str, made.units)))


def withheld(index: int) -> Case:
    """A planted model, in a search that may not choose the planted units. Nothing else decides its verbs."""
    case = planted(index)
    return replace(case, units=(), search=Without(units=case.units))


def trained_case(cell: Cell, truth: Truth, index: int) -> Case:
    made = train(cell, truth, index)
    return Case(made.model, made.pairs, made.units, learned=made.learned)


def wiki_case(make: Callable[[LanguageModel, int], PairSet], index: int) -> Case:
    return Case(wiki(), make(wiki(), index))


@cache
def wiki() -> LanguageModel:
    return pivotal.load_model("wiki-lstm", device="cpu")


# -- asking ----------------------------------------------------------------------------------------------------


def refusal(case: Case) -> list[Check]:
    """The checks of the untouched model that do not pass. With one of them, no search can earn more than *no
    evidence*."""
    question = Question(case.model.name, case.pairs.name)
    test = problem_of(question, case.model, question.divide(case.pairs)[1])
    evidence = Evidence(level="quick", knowledge=knowledge_of(test), swap=cue_swap(test))
    asked = (known(evidence), both_directions(evidence.knowledge), likely_words(evidence.knowledge))
    return [check for check in asked if check.passed is not True]


def ask(case: Case, *, always: bool = False, full: bool = True) -> Row:
    """What pivotal says about a question. With `full`, a *switch* is given the chance to be a *decide*."""
    failed = [] if always else refusal(case)
    if failed:
        return {"verdict": "no evidence", "searched": False, "failed": [check.name for check in failed]}
    question = Question(case.model.name, case.pairs.name)
    own = case.model.name != "wiki-lstm"  # a vocabulary of its own: no other phenomenon can be asked
    with tempfile.TemporaryDirectory() as folder:
        quick = partial(
            find, question, case.search, model=case.model, pairs=case.pairs, out=folder + "/run", controls=99
        )
        found = quick(evidence="quick")
        if full and found.summary.verdict is not None and found.summary.verdict.word == "switch":
            found = quick(evidence="full", others=() if own else None)
    summary = found.summary
    assert summary.verdict is not None
    best = summary.best_run
    closed = best.fidelity
    row = {
        "verdict": summary.verdict.word,
        "searched": True,
        "failed": [check.name for check in summary.verdict.failed],
        "undecided": [check.name for check in summary.verdict.checks if check.passed is None],
        "flips": round(summary.flip_accuracy, 4),
        "flips_low": round(min(share.low for share in best.by_direction.values()), 4),
        "p": summary.controls.p_value,
        "best_random": summary.controls.best,
        "closed": closed and [round(x, 4) for x in (closed.asked.value, closed.asked.low, closed.asked.high)],
        "random_closed": closed and closed.floor and round(closed.floor[0], 4),
        "found": list(best.unit_labels),
    }
    if case.units:
        row |= {"given": list(case.units), "recovered": set(best.unit_labels) == set(case.units)}
    return row


def half_of(question: str) -> int:
    """The half of a question, 0 or 1. Thresholds are set on the first half and reported on the second."""
    return int(hashlib.sha256(question.encode()).hexdigest(), 16) % 2


def row_of(kind: str, index: int, *, always: bool = False) -> Row:
    """Ask one question of the bench."""
    started, which = time.process_time(), kinds()[kind]
    question = f"{kind} {index}"
    row: Row = {"kind": kind, "question": question, "truth": which.truth, "half": half_of(question)}
    try:
        case = which.make(index)
        row |= {"model": case.model.name, "pairs": len(case.pairs), "name": case.pairs.name}
        row |= {"learned": round(case.learned, 4)} | ask(case, always=always, full=which.truth != "carried")
    except pivotal.PivotalError as error:  # refused: nothing was claimed
        row |= {"verdict": "no evidence", "searched": False, "refused": str(error)}
    return row | {"cpu_seconds": round(time.process_time() - started, 1)}


def questions(only: Sequence[str], most: int | None) -> Iterator[tuple[str, int]]:
    """All questions, one of each kind in turn, so that a run that is stopped has asked some of each."""
    chosen = {name: kind for name, kind in kinds().items() if any(part in name for part in only)}
    for index in range(max((kind.count for kind in chosen.values()), default=0)):
        for name, kind in chosen.items():
            if index < min(kind.count, most or kind.count):
                yield name, index


# -- rows --------------------------------------------------------------------------------------------------------


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", default=[""], help="only the kinds whose names contain one of these"
    )
    parser.add_argument("--most", type=int, default=None, help="the most questions of each kind")
    parser.add_argument("--out", type=Path, default=ROWS)
    parser.add_argument("--part", default="0/1", help="which part of the questions, such as 0/2 and 1/2")
    parser.add_argument("--search", action="store_true", help="search even if the question cannot be asked")
    asked = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    part, parts = map(int, asked.part.split("/"))
    for number, (kind, index) in enumerate(questions(asked.only, asked.most)):
        done = {row["question"] for row in read(asked.out)}
        if number % parts != part or f"{kind} {index}" in done:
            continue
        row = row_of(kind, index, always=asked.search)
        print(row["question"], row["verdict"], row.get("failed", ""), row["cpu_seconds"], flush=True)
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
