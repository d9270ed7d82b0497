"""The CPU seconds of a search alone, and where they go: model passes, KL, everything else.

    python benchmarks/search_time.py [--phenomenon number-agreement] [--steps every] [--values natural unbounded]
        [--runs 3] [--seed 0]

The defaults are those of `make demo`. Preparing the pairs, the evidence and the report are not counted. The time of a
pass is that of `Problem.run`, of `backward` (which includes the backward pass of KL) and of `Problem.kl`. The last
number of a line is how often it was called.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from typing import Any, get_args

import torch

import pivotal as pv
from pivotal.problem.problem import Problem
from pivotal.units import Values

spent: dict[str, float] = defaultdict(float)
calls: Counter[str] = Counter()


def timed(owner: Any, name: str, label: str) -> None:
    """Count the CPU seconds of a method."""
    method = getattr(owner, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            spent[label] += time.process_time() - started
            calls[label] += 1

    setattr(owner, name, run)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="all")
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--values", nargs="+", default=["natural"], choices=get_args(Values))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = pv.load_model(args.model, device="cpu")
    train, test = pv.load_phenomenon(args.phenomenon).split(seed=args.seed)
    timed(Problem, "run", "model, forward")
    timed(torch.Tensor, "backward", "backward")
    timed(Problem, "kl", "KL, forward")
    for values in args.values:
        problem = Problem(model, train, sites=args.sites, steps=args.steps, values=values)
        measure(problem, problem.on(test), args.runs, args.seed)


def measure(problem: Problem, held_out: Problem, runs: int, seed: int) -> None:
    spent.clear()
    calls.clear()
    started = time.process_time()
    found = pv.LearnedMask().solve(problem, runs=runs, seed=seed)
    whole = time.process_time() - started
    nodes = problem.work.forward + problem.work.backward
    print(f"{problem.values}: {whole:.1f} CPU seconds, {nodes:,} node evaluations")
    rest = whole - sum(spent.values())
    for label, seconds in [*spent.items(), ("everything else", rest)]:
        print(f"  {label:16} {seconds:7.1f} s {seconds / whole:6.1%} {calls[label]:6}")
    for run, intervention in enumerate(found.interventions):
        outcome = held_out.run_intervention(intervention)
        flips, kl = outcome.flipped().float().mean(), held_out.mean_kl(outcome.states)[0]
        print(f"  run {run}: {len(intervention.units)} units, {flips:.1%} flipped, KL {kl:.2f}")


if __name__ == "__main__":
    main()
