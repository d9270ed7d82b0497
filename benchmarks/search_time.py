"""The CPU seconds of a search alone, where they go (model passes, KL, everything else), and what it finds.

    python benchmarks/search_time.py [--search learned] [--phenomenon number-agreement] [--steps every]
        [--values natural unbounded] [--max-units 4] [--split prefixes] [--runs 3] [--seed 0]
        [-o "updates=160 batch=128 refit=60" ...]

The defaults are those of `make demo`. Each `-o` is one variant of the settings. All variants run in one process, so
that their times can be compared. Preparing the pairs, the evidence and the report are not counted. The time of a pass
is that of `Problem.run`, of `backward` (which includes the backward pass of KL) and of `Problem.kl`. The last number
of such a line is how often it was called. Flips, units and KL are of held-out pairs, the score (loss and KL) is of
training pairs: mean and standard deviation, then each run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import get_args

import torch
from timing import calls, spent, timed

import pivotal
from pivotal.options import build
from pivotal.problem.batch import Batch
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.questions.splits import Split
from pivotal.searches import SEARCHES
from pivotal.searches.base import Search
from pivotal.units import Values

COLUMNS = {"flipped %": 1, "units": 1, "KL": 3, "score": 3}
"""What is printed of the runs, with its number of decimals."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--search", default="learned", choices=SEARCHES.names())
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="all")
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--values", nargs="+", default=["natural"], choices=get_args(Values))
    parser.add_argument("--max-units", type=int)
    parser.add_argument("--split", default="prefixes", choices=get_args(Split))
    parser.add_argument("-o", "--options", action="append", help="settings of the search: NAME=VALUE ...")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = pivotal.load_model(args.model, device="cpu")
    question = Question(args.model, args.phenomenon, seed=args.seed, split=args.split)
    train, test = question.divide(question.load_pairs())
    timed(Batch, "run", "model, forward")
    timed(torch.Tensor, "backward", "backward")
    timed(Batch, "kl", "KL, forward")
    for values in args.values:
        for options in args.options or [""]:
            problem = Problem(model, train, sites=args.sites, steps=args.steps, values=values)
            given = dict(option.split("=", 1) for option in options.split())
            search = build(SEARCHES.get(args.search), {"max_units": args.max_units, **given})
            print(f"{values}{', ' if options else ''}{options}:", end=" ")
            measure(search, problem, problem.on(test), args.runs, args.seed)


def measure(search: Search, problem: Problem, held_out: Problem, runs: int, seed: int) -> None:
    spent.clear()
    calls.clear()
    started = time.process_time()
    found = search.solve(problem, runs=runs, seed=seed)
    whole = time.process_time() - started
    nodes = problem.work.forward + problem.work.backward
    print(f"{whole:.1f} CPU seconds, {nodes:,} node evaluations")
    rest = whole - sum(spent.values())
    for label, seconds in [*spent.items(), ("everything else", rest)]:
        print(f"  {label:16} {seconds:7.1f} s {seconds / whole:6.1%} {calls[label]:6}")
    rows = []
    for intervention, score in zip(found.interventions, found.train_score, strict=True):
        outcome = held_out.run_intervention(intervention)
        flips = 100 * float(outcome.flipped().float().mean())
        rows.append((flips, len(intervention.units), float(held_out.mean_kl(outcome.states)[0]), score))
    for (name, digits), column in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True):
        each = " ".join(f"{number:.{digits}f}" for number in column)
        spread = statistics.stdev(column) if len(column) > 1 else 0.0
        print(f"  {name:9} {statistics.mean(column):.{digits}f} ± {spread:.{digits}f}   ({each})", flush=True)


if __name__ == "__main__":
    main()
