"""The seconds of a question of the atlas, in one process: the model is loaded once, and the questions follow.

    python benchmarks/atlas_time.py [--questions 20] [--steps every] [--device cuda] [--cross] [--seconds 80]
        [--profile 2]

A question is a cell of the recipe `atlas` in the bundled LSTM: what the model knows, the default search, 99 random sets
and quick evidence. Questions that the model fails are not searched and not counted. With `--cross`, every phenomenon of
the recipe is also asked with the intervention applied, as `pivotal atlas` does. No question begins after `--seconds`.
`--profile` then profiles so many further questions.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import pstats
import statistics
import tempfile
import time
from pathlib import Path
from typing import get_args

import torch

from pivotal.jobs.study.cells import PairsCache, cells_of
from pivotal.jobs.study.folder import RunBatch
from pivotal.jobs.study.recipe import read_recipe, shipped
from pivotal.jobs.study.work import StudyPlace, Worker
from pivotal.units import Steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--steps", default="every", choices=get_args(Steps))
    parser.add_argument("--device")
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--profile", type=int, default=0)
    args = parser.parse_args()
    cells = iter(
        cell if args.cross else dataclasses.replace(cell, others=None)
        for cell in cells_of(read_recipe(shipped()["atlas"]))
        if cell.question.model == "wiki-lstm" and cell.question.steps == args.steps
    )
    started, taken = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(StudyPlace("atlas", Path(folder), args.device), PairsCache())
        for cell in cells:
            before = time.perf_counter()
            (row,) = worker.rows(RunBatch(cell, cell.seeds, cell.slug))
            seconds = time.perf_counter() - before
            if not row.done:
                print(
                    f"{seconds:7.2f} s {cell.question.phenomenon}: {row.status}. {row.error or ''}",
                    flush=True,
                )
                continue
            assert row.search_seconds is not None and row.judged is not None
            taken.append(seconds)
            print(
                f"{seconds:7.2f} s {cell.question.phenomenon}: search {row.search_seconds:.2f}, "
                f"flips {row.accuracy:.1%}, KL {row.kl:.2f}, {row.units} units, {row.judged.verdict}",
                flush=True,
            )
            if len(taken) == args.questions or time.perf_counter() - started > args.seconds:
                break
        device = worker.model(cell).device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
        print(
            f"{name}: {len(taken)} questions, median {statistics.median(taken):.2f} s, mean "
            f"{statistics.fmean(taken):.2f}, most {max(taken):.2f}, the first {taken[0]:.2f} with loading"
        )
        if args.profile:
            profile = cProfile.Profile()
            for cell, _ in zip(cells, range(args.profile), strict=False):
                profile.runcall(worker.rows, RunBatch(cell, cell.seeds, cell.slug))
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
