"""Does a learned rotation carry more than a difference of means? Agreement across a prepositional phrase.

    python benchmarks/learned_rotation.py --model smollm2-135m --site resid.15 [--out ROWS.jsonl]

The states at the subject are exchanged between the two forms of a sentence, along one direction of a site or in the
whole site. A row has the mean number of nats by which the exchange moves the log odds to the other verb, the share of
pairs that flip, and the share of the gap to the counterfactual that it closes where the verb is asked. The directions
are fitted to training pairs, and scored on pairs with other prefixes.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from pivotal.evidence.fidelity import Gap
from pivotal.models import load_model
from pivotal.models.bases.basis import completed
from pivotal.problem.bases.fitted import difference_of_means, training_states
from pivotal.problem.prepare import as_read
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.question import Question
from pivotal.units import Objective

GROUP = "nounpp"
TRAIN, TEST = 400, 100


@torch.no_grad()
def scores(problem: Problem, whole: bool = False) -> dict[str, float]:
    """An exchange of the first coordinate, or of all."""
    mask = torch.zeros(1, len(problem.labels), len(problem.space))
    mask[..., : len(problem.space) if whole else 1] = 1
    mask = mask.to(problem.model.device)
    outcome = problem.run(mask, mask.new_zeros(1, len(problem.labels), problem.space.coordinates))
    ((asked, _),) = Gap(problem, outcome.states).closed
    return {
        "nats": round(float((problem.clean_log_ratio - outcome.log_ratio[0]).mean()), 3),
        "flipped": round(float(outcome.flips()[0]), 4),
        "closed": round(asked.value, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--site", default="resid.15")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = load_model(args.model, device=args.device)
    pairs = load_phenomenon("number-agreement")
    some = [pair for pair in pairs if pair.group == GROUP]
    pairs = type(pairs)(pairs.name, pairs.labels, tuple(some)).sample(TRAIN + TEST, 0)
    read = as_read(Question(args.model, "number-agreement", steps="single"), model, pairs)
    train, test = read.split(test=TEST, seed=0)
    exchanged = partial(Problem, steps="single", values="interchange")

    def means() -> Problem:
        states = training_states(exchanged(model, train, sites=args.site))
        basis, name = (
            completed("means", difference_of_means(states)[None], torch.cat(states)),
            f"{args.site}@means",
        )
        return exchanged(model.in_bases({name: basis}), test, sites=name)

    def rotated(objective: Objective) -> Problem:
        return exchanged(model, train, sites=f"{args.site}@das", objective=objective).on(test)

    ways: dict[str, Callable[[], Problem]] = {
        "whole site": lambda: exchanged(model, test, sites=args.site),
        "difference of means": means,
        "@das, for flips": lambda: rotated("flips"),
        "@das, for the counterfactual": lambda: rotated("counterfactual"),
    }
    for way, ask in ways.items():
        started = time.process_time()
        asked = ask()
        row = {"model": args.model, "site": args.site, "way": way, "pairs": len(asked)}
        row |= scores(asked, way == "whole site") | {"cpu_seconds": round(time.process_time() - started, 1)}
        print(json.dumps(row), flush=True)
        if args.out is not None:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
