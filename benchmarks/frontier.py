"""Searches side by side: flips, KL and CPU seconds of the search, over resampled training pairs and numbers of units.

    python benchmarks/frontier.py [--cells lstm smollm2 atlas] [--searches exchange learned attribution]
        [--units 1 2 3 4 5 7 10] [--seeds 0 1] [--max-kl 0.46] [--evidence] [--workers 1]
        [--out docs/results/searches.jsonl]

A cell is a model, a question, the steps and the values; `--cells` takes groups of cells or the names of single ones.
Without `--units` a search may use as many units as by default. The held-out pairs are the same for all seeds: a seed
draws the training pairs on which units are chosen and values are fitted, and the noise of `learned`. Preparing the
pairs and measuring natural ranges is not counted, because every search needs it. `--max-kl` bounds KL for all searches.
`--evidence` also takes the scores, 99 random sets and the quick checks of `find`, and counts their CPU seconds.
`gradient-times-activation` is the ranking by hand of `peers/quality.py`. Rows are computed in `--workers` processes of
one thread each, seed by seed, and written as they are done; name the slowest searches first. A row that the file has is
not computed again, so that a stopped benchmark goes on where it was. `scripts/results.py` makes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from quality import GradientTimesActivation

import pivotal
from pivotal.evidence.examination import Examination
from pivotal.evidence.summarise import Collection, summarise
from pivotal.models import LanguageModel
from pivotal.options import build
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.searches import SEARCHES
from pivotal.searches.base import Discovery, Search
from pivotal.units import Steps, Values

ROWS = "docs/results/searches.jsonl"


@dataclass(frozen=True)
class Cell:
    """A question asked of a model."""

    model: str
    phenomenon: str
    steps: Steps
    values: Values = "natural"
    sites: str = "all"

    @property
    def name(self) -> str:
        return f"{self.model} {self.phenomenon} {self.steps} {self.values}"


def _grid(model: str, sites: str) -> list[Cell]:
    return [
        Cell(model, phenomenon, steps, values, sites)
        for phenomenon in ("number-agreement", "gender-bias")
        for steps in ("single", "every")
        for values in ("natural", "unbounded")
    ]


GROUPS = {
    "lstm": _grid("wiki-lstm", "all"),
    "smollm2": _grid("smollm2-135m", "mlp"),
    "atlas": [
        Cell("wiki-lstm", phenomenon, "every")
        for phenomenon in ("determiner-demonstrative", "filler-gap", "npi-ever", "pronoun-gender-name")
    ],
}


@cache
def model_of(name: str) -> LanguageModel:
    return pivotal.load_model(name, device="cpu")


@cache
def problems_of(cell: Cell) -> tuple[Problem, Problem]:
    """The training pairs and the held-out pairs."""
    question = Question(cell.model, cell.phenomenon)
    train, test = question.divide(question.load_pairs())
    problem = Problem(model_of(cell.model), train, sites=cell.sites, steps=cell.steps, values=cell.values)
    problem.bounds()
    return problem, problem.on(test)


@dataclass(frozen=True)
class Job:
    """A row to compute."""

    cell: Cell
    search: str
    max_units: int | None
    max_kl: float | None
    seed: int
    evidence: bool

    @property
    def key(self) -> tuple[Any, ...]:
        return self.cell.name, self.search, self.max_units, self.max_kl, self.seed


def measured(job: Job) -> dict[str, Any]:
    """One row: what a search finds, and what it takes."""
    torch.set_num_threads(1)
    prepared, held_out = problems_of(job.cell)
    problem = prepared.restrict(range(len(prepared)))  # nothing of an earlier search is cached in it
    problem.measure_activations()
    by_hand = job.search == GradientTimesActivation.name
    kind = GradientTimesActivation if by_hand else SEARCHES.get(job.search)
    chosen = build(kind, {"max_units": job.max_units, "max_kl": job.max_kl})
    before = problem.work.nodes
    started = time.process_time()
    found = chosen.solve(problem, seed=job.seed)
    seconds = time.process_time() - started
    work = replace(problem.work)
    checks = (
        {"evidence_seconds": evidence_of(found, problem, held_out, chosen, job.seed)} if job.evidence else {}
    )
    outcome = held_out.run_intervention(found.best)
    return {
        "cell": job.cell.name,
        "search": job.search,
        "max_units": job.max_units,
        "max_kl": job.max_kl,
        "seed": job.seed,
        "flips": round(float(outcome.flips()), 4),
        "kl": round(float(held_out.untouched.mean(outcome.states)), 4),
        "units": len(found.best),
        "found": [str(unit) for unit in found.best.units],
        "score": round(found.train_score[0], 4),
        "cpu_seconds": round(seconds, 1),
        "nodes": work.nodes - before,
        **checks,
    }


def evidence_of(found: Discovery, train: Problem, test: Problem, search: Search, seed: int) -> float:
    """The CPU seconds of the scores, the random sets and the quick checks of `find`."""
    started = time.process_time()
    examined = [Examination(found.best, test)]
    summary = summarise(
        found, examined, train, seed=seed, work=train.work, terms=search.terms, progress=lambda _: None
    )
    Collection(search, seed=seed).of(examined[0], train, summary.controls)
    return round(time.process_time() - started, 1)


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["cell"], row["search"], row["max_units"], row.get("max_kl"), row["seed"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def jobs_of(args: argparse.Namespace) -> Iterator[Job]:
    """The rows that the file does not have."""
    cells = [cell for group in GROUPS.values() for cell in group if cell.name in args.cells]
    cells += [cell for name in args.cells for cell in GROUPS.get(name, [])]
    done = {key_of(row) for row in rows_of(args.out)}
    for seed, search, units, cell in product(args.seeds, args.searches, args.units or [None], cells):
        job = Job(cell, search, units, args.max_kl, seed, args.evidence)
        if job.key not in done:
            yield job


def run(args: argparse.Namespace) -> None:
    jobs = list(jobs_of(args))
    with get_context("spawn").Pool(args.workers) as pool:
        for row in pool.imap_unordered(measured, jobs):
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells", nargs="+", default=["lstm"], help="lstm, smollm2, atlas, or names of cells"
    )
    parser.add_argument("--searches", nargs="+", default=["exchange", "learned", "attribution"])
    parser.add_argument("--units", nargs="+", type=int)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--max-kl", type=float)
    parser.add_argument("--evidence", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(ROWS))
    run(parser.parse_args())


if __name__ == "__main__":
    main()
