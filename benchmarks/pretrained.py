"""Number agreement and gender bias on models of transformers: what few units do, in which sites, at what KL.

    python benchmarks/pretrained.py smollm2-135m gemma3-270m --out table.jsonl [--variants learned,greedy] [--runs 3]
    python benchmarks/pretrained.py smollm2-135m --out timing.jsonl --timing 1,8

A row is one search of R runs at once, scored on held-out pairs: the run that training pairs choose, and the mean over
the runs. Rows that the file has already are not computed again. `--shard 2/8` takes every eighth row from the third on:
small models leave most of a GPU idle, and eight processes on one finish sooner than one (their seconds are then not
those of a search alone; `--timing` measures these).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import pivotal
from pivotal.evidence.examination import score_many
from pivotal.questions.question import default_test
from pivotal.searches import SEARCHES

TASKS = {"number": "number-agreement", "gender": "gender-bias"}
UNITS = {"single": 5, "every": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "learned": {},
    "learned without KL": {"kl_weight": 0.0},
    "learned KL weight 1": {"kl_weight": 1.0},
    "learned KL <= 0.05": {"max_kl": 0.05},
    "learned longer": {"updates": 480, "refit": 200, "batch": 256},
    "learned longer without KL": {"kl_weight": 0.0, "updates": 480, "refit": 200, "batch": 256},
    "exchange without KL": {"search": "exchange", "kl_weight": 0.0},
    "greedy": {"search": "greedy"},
    "greedy without KL": {"search": "greedy", "kl_weight": 0.0},
    "greedy KL <= 0.05": {"search": "greedy", "max_kl": 0.05},
    "greedy KL <= 0.2": {"search": "greedy", "max_kl": 0.2},
    "greedy KL <= 0.5": {"search": "greedy", "max_kl": 0.5},
    "attribution": {"search": "attribution"},
}


@dataclass(frozen=True)
class Row:
    """What is asked, and how; the key by which a finished row is known."""

    model: str
    task: str
    sites: str
    steps: str
    split: str
    variant: str
    units: int
    runs: int


def name_of(spec: str) -> str:
    return Path(spec).stem if spec.endswith(".gguf") else spec


def rows(args: argparse.Namespace) -> Iterator[Row]:
    names = [args.variants, args.steps, args.models, args.tasks, args.sites, args.splits]
    for variant, steps, model, task, sites, split in itertools.product(*names):
        yield Row(name_of(model), task, sites, steps, split, variant, args.units or UNITS[steps], args.runs)


def search_of(row: Row) -> pivotal.searches.Search:
    settings = dict(VARIANTS[row.variant])
    return SEARCHES.get(settings.pop("search", "learned"))(max_units=row.units, **settings)  # type: ignore[call-arg]


class Bench:
    """Models and problems are made once for all rows that ask about them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.model = cache(self._model)
        self.problems = cache(self._problems)

    def _model(self, name: str) -> tuple[pivotal.models.LanguageModel, float]:
        started = time.perf_counter()
        args = self._args
        (spec,) = (spec for spec in args.models if name_of(spec) == name)
        model = pivotal.load_model(spec, device=args.device, dtype=args.dtype, batch_nodes=args.batch_nodes)
        return model, time.perf_counter() - started

    def _problems(
        self, model: str, task: str, sites: str, steps: str, split: str
    ) -> tuple[pivotal.Problem, pivotal.Problem]:
        pairs = pivotal.load_phenomenon(TASKS[task])
        train, test = pairs.split(test=default_test(TASKS[task], len(pairs)), seed=0, by=split)
        if self._args.pairs:
            train = train.sample(min(self._args.pairs, len(train)))
        lm = self.model(model)[0]
        problem = pivotal.Problem(lm, train, sites=sites, steps=steps, values="unbounded")  # type: ignore[arg-type]
        return problem, problem.on(test)

    def measure(self, row: Row) -> dict[str, Any]:
        train, test = self.problems(row.model, row.task, row.sites, row.steps, row.split)
        train.measure_activations()
        before = train.work.forward + train.work.backward
        started = time.perf_counter()
        found = search_of(row).solve(train, runs=row.runs)
        if train.model.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        flipped, kl = score_many(found.interventions, test)
        accuracy, best = flipped.mean(1), found.best_run
        chosen = found.best
        return {
            **asdict(row),
            "accuracy": float(accuracy[best]),
            "kl": float(kl[best]),
            "found": [str(unit) for unit in chosen.units],
            "values": chosen.values.tolist(),
            "all": [
                {"accuracy": float(a), "kl": float(k), "units": len(i)}
                for a, k, i in zip(accuracy, kl, found.interventions, strict=True)
            ],
            "clean_accuracy": test.clean_accuracy,
            "pairs": [len(train), len(test)],
            "seconds": round(seconds, 2),
            "load": round(self.model(row.model)[1], 2),
            "nodes": train.work.forward + train.work.backward - before,
            "device": str(train.model.device),
            "dtype": self._args.dtype or "float32",
        }


def timing(bench: Bench, args: argparse.Namespace) -> Iterator[Row]:
    """One search (mlp, every step) with so many runs at once, after one that warms up."""
    for model in map(name_of, args.models):
        train, _ = bench.problems(model, "number", "mlp", "every", "prefixes")
        pivotal.searches.LearnedMask(max_units=2, updates=8, refit=4).solve(train)
        for runs in args.timing:
            yield Row(model, "number", "mlp", "every", "prefixes", "learned", UNITS["every"], runs)


def main() -> None:
    def several(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", type=several, default=list(TASKS))
    parser.add_argument("--sites", type=several, default=["mlp", "resid"])
    parser.add_argument("--steps", type=several, default=["single", "every"])
    parser.add_argument("--splits", type=several, default=["prefixes", "words"])
    parser.add_argument("--variants", type=several, default=["learned"], help="; ".join(VARIANTS))
    parser.add_argument("--units", type=int, help="by default 5 for single, 2 for every step")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, help="train on a sample of so many pairs")
    parser.add_argument("--shard", default="0/1", help="which of how many parts of the rows, counted from 0")
    parser.add_argument("--timing", type=lambda text: [int(n) for n in text.split(",")], help="runs at once")
    parser.add_argument("--seconds", type=float, help="begin no row after so many seconds")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--batch-nodes", type=int)
    args = parser.parse_args()
    started = time.monotonic()
    done = set()
    if args.out.is_file():
        known = set(Row.__dataclass_fields__)
        for line in args.out.read_text().splitlines():
            done.add(Row(**{key: value for key, value in json.loads(line).items() if key in known}))
    bench = Bench(args)
    part, parts = (int(n) for n in args.shard.split("/"))
    wanted = timing(bench, args) if args.timing else itertools.islice(rows(args), part, None, parts)
    for row in wanted:
        if row in done:
            continue
        if args.seconds and time.monotonic() - started > args.seconds:
            break
        result = bench.measure(row)
        with args.out.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(
            f"{row.model:13} {row.task:6} {row.sites:5} {row.steps:6} {row.split:7} {row.variant:19} "
            f"acc {result['accuracy']:.3f} units {len(result['found'])} kl {result['kl']:.3f} | "
            f"{result['seconds']:.1f} s | {' '.join(result['found'])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
