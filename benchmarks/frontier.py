"""Searches side by side: flips, KL and CPU seconds of the search, over resampled training pairs and numbers of units.

    python benchmarks/frontier.py run [--cells lstm smollm2 atlas] [--searches exchange learned attribution]
        [--units 1 2 3 4 5 7 10] [--seeds 0 1] [--out docs/results/searches.jsonl]
    python benchmarks/frontier.py table [--out docs/results/searches.jsonl]

A cell is a model, a question, the steps and the values; `--cells` takes groups of cells or the names of single ones.
Without `--units` a search may use as many units as by default. The held-out pairs are the same for all seeds: a seed
draws the training pairs on which units are chosen and values are fitted, and the noise of `learned`. Preparing the
pairs and measuring natural ranges is not counted, because every search needs it. One thread. A row that the file has
is not computed again, so that a stopped benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import pivotal
from pivotal.models import LanguageModel
from pivotal.options import build
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.searches import SEARCHES
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


def problems_of(cell: Cell) -> tuple[Problem, Problem]:
    """The training pairs and the held-out pairs. Nothing of an earlier search is cached in them."""
    question = Question(cell.model, cell.phenomenon)
    train, test = question.divide(question.load_pairs())
    problem = Problem(model_of(cell.model), train, sites=cell.sites, steps=cell.steps, values=cell.values)
    problem.measure_activations()
    problem.bounds()
    return problem, problem.on(test)


def measured(cell: Cell, search: str, units: int | None, seed: int) -> dict[str, Any]:
    """One row: what a search finds, and what it takes."""
    problem, held_out = problems_of(cell)
    before = problem.work.nodes
    started = time.process_time()
    found = build(SEARCHES.get(search), {"max_units": units}).solve(problem, seed=seed)
    seconds = time.process_time() - started
    outcome = held_out.run_intervention(found.best)
    return {
        "cell": cell.name,
        "search": search,
        "max_units": units,
        "seed": seed,
        "flips": round(float(outcome.flips()[0]), 4),
        "kl": round(float(held_out.mean_kl(outcome.states)[0]), 4),
        "units": len(found.best),
        "found": [str(unit) for unit in found.best.units],
        "score": round(found.train_score[0], 4),
        "cpu_seconds": round(seconds, 1),
        "nodes": problem.work.nodes - before,
    }


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["cell"], row["search"], row["max_units"], row["seed"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def run(args: argparse.Namespace) -> None:
    cells = [cell for group in GROUPS.values() for cell in group if cell.name in args.cells]
    cells += [cell for name in args.cells for cell in GROUPS.get(name, [])]
    done = {key_of(row) for row in rows_of(args.out)}
    for seed in args.seeds:
        for cell in cells:
            for units in args.units or [None]:
                for search in args.searches:
                    if (cell.name, search, units, seed) in done:
                        continue
                    row = measured(cell, search, units, seed)
                    with args.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(json.dumps(row), flush=True)


def table(args: argparse.Namespace) -> None:
    """Markdown: one line for each cell and number of units, and one column for each search."""
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    rows = [row for row in rows_of(args.out) if row["search"] in args.searches]
    for row in rows:
        groups[row["cell"], row["max_units"]][row["search"]].append(row)
    print(f"| cell | units | {' | '.join(args.searches)} |\n|---|---|{'---|' * len(args.searches)}")
    for (cell, units), found in groups.items():
        columns = " | ".join(_told(found[search]) if search in found else "" for search in args.searches)
        print(f"| {cell} | {units or 'default'} | {columns} |")


def _told(rows: list[dict[str, Any]]) -> str:
    """Flips in percent with their range / KL / units / CPU seconds, means over the seeds."""
    mean = {
        name: statistics.mean(row[name] for row in rows) for name in ("flips", "kl", "units", "cpu_seconds")
    }
    flips = sorted(row["flips"] for row in rows)
    spread = f" ({flips[0]:.1%}–{flips[-1]:.1%})".replace("%", "") if flips[0] < flips[-1] else ""
    return f"{100 * mean['flips']:.1f}{spread} / {mean['kl']:.2f} / {mean['units']:.1f} / {mean['cpu_seconds']:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("run", "table"))
    parser.add_argument(
        "--cells", nargs="+", default=["lstm"], help="lstm, smollm2, atlas, or names of cells"
    )
    parser.add_argument("--searches", nargs="+", default=["exchange", "learned", "attribution"])
    parser.add_argument("--units", nargs="+", type=int)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--out", type=Path, default=Path(ROWS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    run(args) if args.do == "run" else table(args)


if __name__ == "__main__":
    main()
