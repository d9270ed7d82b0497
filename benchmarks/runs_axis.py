"""What R runs at once cost, compared with one run, in one process on one device.

python benchmarks/runs_axis.py --runs 1,8,25
"""

from __future__ import annotations

import argparse
import time

import torch

import pivotal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="1,8,25")
    parser.add_argument("--steps", default="single,every")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device")
    args = parser.parse_args()
    model = pivotal.load_model("wiki-lstm", device=args.device)
    train, _ = pivotal.load_phenomenon("number-agreement").split(test=1000, seed=0)
    for steps in args.steps.split(","):
        problem = pivotal.Problem(model, train, steps=steps, values="unbounded")
        pivotal.searches.LearnedMask(updates=10, refit=5).solve(problem)  # warm up: kernels, batches
        first = None
        for runs in map(int, args.runs.split(",")):
            times = []
            for _ in range(args.repeat):
                started = time.perf_counter()
                pivotal.searches.LearnedMask().solve(problem, runs=runs)
                if model.device.type == "cuda":
                    torch.cuda.synchronize()
                times.append(time.perf_counter() - started)
            seconds = sorted(times)[len(times) // 2]
            first = first or seconds
            print(f"{steps:6} runs {runs:3}: {seconds:6.2f} s  = {seconds / first:.2f} x one run", flush=True)


if __name__ == "__main__":
    main()
