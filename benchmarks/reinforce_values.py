"""REINFORCE with raw values against values in each unit's own spread.

    PYTHONPATH=src python benchmarks/reinforce_values.py --sites mlp --device cuda

One JSON line per steps, kind of values and run: flips and KL on held-out pairs, units, node evaluations of all runs
together, and seconds of the search per run. It needs torch, transformers, safetensors, jaxtyping and numpy only.
"""

from __future__ import annotations

import argparse
import json
import time

import torch

from pivotal.evidence.examination import score_many
from pivotal.models import load_model
from pivotal.problem.activations import Standard
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.question import default_test
from pivotal.searches.base import Search
from pivotal.searches.learned import LearnedMask
from pivotal.searches.reinforce import Reinforce
from pivotal.searches.tools.learner import Learner


class RawReinforce(Reinforce):
    """The loop learns the values themselves, as it did before; the refit after it is the same."""

    name = "reinforce-raw"

    def learner(self, problem: Problem, runs: int, seed: int) -> Learner:
        learner = super().learner(problem, runs, seed)
        learner.standard = Standard.plain(problem.space.coordinates, problem.model.device)
        learner.low, learner.high = problem.bounds()
        return learner


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="mlp")
    parser.add_argument("--steps", nargs="+", default=["every", "single"])
    parser.add_argument(
        "--values",
        nargs="+",
        choices=["raw", "standard"],
        default=["raw", "standard"],
        help="raw values, or values in each unit's own spread (standard)",
    )
    parser.add_argument("--max-units", type=float, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, help="of REINFORCE; default: those of the search")
    parser.add_argument("--batch", type=int, help="prefixes per update; default: those of the search")
    parser.add_argument("--pairs", type=int, help="the size of a sample of the pairs; default: all")
    parser.add_argument("--learned", action="store_true", help="run the learned mask too, for comparison")
    parser.add_argument(
        "--no-refit", action="store_true", help="keep mask and values as the loop leaves them"
    )
    parser.add_argument("--device")
    asked = parser.parse_args()

    model = load_model(asked.model, device=asked.device)
    pairs = load_phenomenon(asked.phenomenon)
    if asked.pairs is not None:
        pairs = pairs.sample(asked.pairs)
    train_pairs, test_pairs = pairs.split(test=default_test(asked.phenomenon, len(pairs)), seed=asked.seed)
    given = {"max_units": asked.max_units, **({"updates": asked.updates} if asked.updates else {})}
    if asked.batch is not None:
        given["batch"] = asked.batch
    if asked.no_refit:
        given |= {"refit": 0, "prune": -1.0, "spare": 1.0}
    kinds: dict[str, type[Reinforce]] = {"raw": RawReinforce, "standard": Reinforce}
    searches: dict[str, Search] = {values: kinds[values](**given) for values in asked.values}
    if asked.learned:
        searches["learned"] = LearnedMask(max_units=asked.max_units)
    for steps in asked.steps:
        test = Problem(model, test_pairs, sites=asked.sites, steps=steps, values="unbounded")
        for values, search in searches.items():
            train = Problem(model, train_pairs, sites=asked.sites, steps=steps, values="unbounded")
            train.measure_activations()
            started, before = time.monotonic(), train.work.nodes
            found = search.solve(train, runs=asked.runs, seed=asked.seed)
            seconds, nodes = time.monotonic() - started, train.work.nodes - before
            flips, kl = score_many(found.interventions, test)
            for run, intervention in enumerate(found.interventions):
                row = {
                    "model": model.name,
                    "sites": asked.sites,
                    "phenomenon": pairs.name,
                    "steps": steps,
                    "values": values,
                    "seed": asked.seed + run,
                    "flips": round(float(flips[run].mean()), 4),
                    "units": len(intervention),
                    "kl": round(float(kl[run]), 4),
                    "relaxed": {k: round(v, 4) for k, v in found.stages[run]["relaxed"].items()},
                    "train_score": round(found.train_score[run], 4),
                    "nodes": nodes,
                    "seconds": round(seconds / asked.runs, 2),
                    "device": torch.cuda.get_device_name() if model.device.type == "cuda" else "cpu",
                }
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
