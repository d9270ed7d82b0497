"""The paper's summary table on the bundled model: number and gender, single and every step, KL let alone or restrained.

    python benchmarks/paper_table.py --runs 10 --out table.jsonl [--lakretz DIR] [--vig DIR]

Every row is one search of R runs at once, scored on held-out pairs; mean and standard deviation over the runs, and the
run that training pairs choose.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import pivotal as pv
from pivotal.evaluation import score_many

VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "no KL term": {"kl_weight": 0.0},
    "KL weight 1": {"kl_weight": 1.0},
    "KL <= 0.05": {"max_kl": 0.05},
    "preset paper": pv.LearnedMask.presets["paper"],
}
UNITS = {("number", "single"): 5, ("number", "every"): 3, ("gender", "single"): 7, ("gender", "every"): 3}


def rows(lakretz: str | None, vig: str | None) -> Iterator[tuple[str, str, str, str, int, str]]:
    """(task, phenomenon, split, steps, max_units, variant)"""
    for (task, steps), units in UNITS.items():
        name = {"number": "number-agreement", "gender": "gender-bias"}[task]
        for variant in VARIANTS:
            yield task, name, "random", steps, units, variant
        yield task, name, "lexical", steps, units, "default"
        original = {"number": lakretz and f"lakretz:{lakretz}", "gender": vig and f"vig:{vig}"}[task]
        if original:
            yield task, original, "random", steps, units, "default"
    yield "number", "number-agreement", "random", "every", 4, "default"
    yield "number", "number-agreement", "random", "every", 4, "KL <= 0.05"
    yield "gender", "gender-bias", "random", "single", 5, "default"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lakretz")
    parser.add_argument("--vig")
    parser.add_argument("--variants", help="only these, with commas")
    parser.add_argument("--device")
    args = parser.parse_args()
    model = pv.load_model("wiki-lstm", device=args.device)
    problems: dict[tuple[str, str, str], tuple[pv.Problem, pv.Problem]] = {}
    args.out.write_text("")
    for task, phenomenon, split, steps, units, variant in rows(args.lakretz, args.vig):
        if args.variants and variant not in args.variants.split(","):
            continue
        key = (phenomenon, split, steps)
        if key not in problems:
            test = 1000 if task == "number" else 200
            train, held_out = pv.load_phenomenon(phenomenon).split(test=test, seed=0, by=split)
            problem = pv.Problem(model, train, steps=steps)
            problems[key] = problem, problem.on(held_out)
        problem, test_problem = problems[key]
        before = problem.work.forward + problem.work.backward
        started = time.perf_counter()
        found = pv.LearnedMask(**{"max_units": units, **VARIANTS[variant]}).solve(problem, runs=args.runs)
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        flipped, kl, _ = score_many(found.interventions, test_problem)
        accuracy = flipped.mean(1)
        sizes = np.array([len(i) for i in found.interventions])
        best = found.best_run
        row = {
            "task": task, "phenomenon": phenomenon.partition(":")[0], "split": split, "steps": steps,
            "max_units": units, "variant": variant, "runs": args.runs,
            "accuracy": [float(accuracy.mean()), float(accuracy.std())],
            "units": [float(sizes.mean()), float(sizes.std())],
            "kl": [float(kl.mean()), float(kl.std())],
            "best": {"accuracy": float(accuracy[best]), "units": int(sizes[best]), "kl": float(kl[best]),
                     "numbers": [u.number for u in found.best.units]},
            "seconds": seconds, "nodes": problem.work.forward + problem.work.backward - before,
        }  # fmt: skip
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{row['phenomenon']:16} {split:8} {steps:6} k={units} {variant:13} "
            f"acc {accuracy.mean():.3f} ± {accuracy.std():.3f}  units {sizes.mean():.1f}  kl {kl.mean():.3f}  "
            f"| best {accuracy[best]:.3f} u {sizes[best]} kl {kl[best]:.3f}  | {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
