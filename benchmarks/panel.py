"""The panel of evidence: every check for number and gender in two models, under today's rules and settings.

    python benchmarks/panel.py [--only NAME …] [--rows docs/results/panel.jsonl] [--out runs/panel]
    python benchmarks/panel.py --sites resid.15 resid.15@pca resid.15@das --models smollm2-135m --rows bases.jsonl

Without options that name cells, these are the cells of the panel, with the default search; `--only` asks those whose
names contain one of the words. Options such as --models, --steps and --sites ask every combination of what they name.

Each cell is searched without evidence, and the random sets, the quick and the full evidence are then added to the
finished run, so that the row tells the CPU seconds of each. A cell is a run folder under --out, and a line of --rows. A
cell that has its line is not asked again, so the script can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.verdict import HALF, MOST_MOVED
from pivotal.jobs.find import find
from pivotal.models import LanguageModel, load_model
from pivotal.questions.question import Question
from pivotal.records.evidence import Evidence, Level, Share
from pivotal.records.summary import Summary
from pivotal.searches.exchange import Exchange
from pivotal.searches.learned import LearnedMask
from pivotal.units import Objective, Steps, Values

ROWS = Path("docs/results/panel.jsonl")
SHOWN = 3
"""How many unrelated phenomena are named, those that moved most."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A question, how it is searched, and how much evidence is collected."""

    model: str
    phenomenon: str
    steps: Steps = "every"
    values: Values = "natural"
    objective: Objective = "flips"
    sites: str = "all"
    max_units: int | None = None
    search: str = "exchange"
    runs: int = 1
    evidence: Level = "full"

    @property
    def name(self) -> str:
        parts = [self.model, self.phenomenon, self.steps, self.values, self.objective, self.sites]
        more = ([] if self.max_units is None else [f"{self.max_units}-units"]) + [self.search]
        return re.sub(r"[^\w.]+", "-", "-".join(parts + more))

    @property
    def question(self) -> Question:
        return Question(
            self.model,
            self.phenomenon,
            steps=self.steps,
            values=self.values,
            objective=self.objective,
            sites=self.sites,
        )


def panel() -> Iterator[Cell]:
    """The cells of the panel. Full evidence where quick evidence leaves something to decide, on a CPU."""
    both: tuple[Steps, ...] = ("every", "single")
    lstm, number = "wiki-lstm", "number-agreement"
    for steps, objective in product(both, get_args(Objective)):
        yield Cell(lstm, number, steps, objective=objective)
    for phenomenon, steps in product((number, "gender-bias"), both):
        yield Cell(lstm, phenomenon, steps, "unbounded", evidence="quick")
    for steps in both:
        yield Cell(lstm, number, steps, "interchange", evidence="quick")
    for steps, objective in product(both, get_args(Objective)):
        yield Cell(lstm, "gender-bias", steps, objective=objective, evidence="quick")
    for steps in both:
        yield Cell(lstm, number, steps, objective="counterfactual", max_units=10, evidence="quick")
    for phenomenon, steps, objective in product((number, "gender-bias"), both, get_args(Objective)):
        yield Cell("smollm2-135m", phenomenon, steps, objective=objective, sites="mlp", evidence="quick")


def combined(args: argparse.Namespace) -> Iterator[Cell]:
    """Every combination of what the options name."""
    fields = {
        "model": args.models or ["wiki-lstm"],
        "phenomenon": args.phenomena or ["number-agreement"],
        "steps": args.steps or ["every"],
        "values": args.values or ["natural"],
        "objective": args.objectives or ["flips"],
        "sites": args.sites or ["all"],
    }
    for chosen in product(*fields.values()):
        named = dict(zip(fields, chosen, strict=True))
        yield Cell(
            **named, max_units=args.max_units, search=args.search, runs=args.runs, evidence=args.evidence
        )


@cache
def loaded(name: str, device: str | None) -> LanguageModel:
    return load_model(name, device=device)


def answer(cell: Cell, out: Path, device: str | None) -> Row:
    """Ask one cell, one level of evidence after the other."""
    model, seconds = loaded(cell.model, device), {}
    made = LearnedMask if cell.search == "learned" else Exchange
    search = made() if cell.max_units is None else made(max_units=cell.max_units)
    levels: tuple[Level, ...] = get_args(Level)
    for level in levels[: levels.index(cell.evidence) + 1]:
        started = time.process_time()
        found = find(
            cell.question,
            search,
            runs=cell.runs,
            controls=0 if level == "none" else 99,
            evidence=level,
            out=str(out / cell.name),
            model=model,
        )
        seconds["search" if level == "none" else level] = round(time.process_time() - started, 1)
    return row(cell, found.summary) | {"cpu_seconds": seconds, "device": str(model.device)}


def row(cell: Cell, summary: Summary) -> Row:
    """The figures of a cell. What was not measured is null."""
    best, evidence, verdict = summary.best_run, summary.evidence or Evidence(level="none"), summary.verdict
    natural, exchanged, text = evidence.natural, evidence.interchange, evidence.text
    checks = () if verdict is None else verdict.checks
    necessity, redundancy, unseen = evidence.necessity, evidence.redundancy, evidence.unseen_words
    return {
        "model": summary.model,
        "phenomenon": summary.phenomenon,
        "steps": summary.steps,
        "sites": cell.sites,
        "values": summary.values,
        "objective": cell.objective,
        "search": cell.search,
        "runs": cell.runs,
        "max_units": cell.max_units,
        "evidence": evidence.level,
        "right": summary.clean_accuracy,
        "units": best.units,
        "unit_labels": best.unit_labels,
        "flipped": [best.flip_accuracy, *best.interval],
        "by_direction": {label: _share(share) for label, share in best.by_direction.items()},
        "away": _share(evidence.away),
        "kl": best.kl,
        "fidelity": _fidelity(summary),
        "cue_kl": None if evidence.swap is None else evidence.swap.kl,
        "random_best": summary.controls.best,
        "random_p": summary.controls.p_value,
        "unseen_words": _share(None if unseen is None else unseen.flip_accuracy),
        "in_natural_range": _share(None if natural is None else natural.flipped),
        "counterfactual_states": _share(None if exchanged is None else exchanged.flipped),
        "fixed": _share(None if exchanged is None else exchanged.fixed),
        "whole_site": _share(None if exchanged is None else exchanged.whole_site),
        "direct": None if evidence.paths is None else evidence.paths.direct,
        "text": None
        if text is None
        else {d: [text.edited[d] / text.untouched, *text.factors.get(d, ())] for d in text.edited},
        "necessity": None
        if necessity is None
        else {
            "untouched": _share(necessity.untouched),
            "held": _share(necessity.held),
            "lost": _share(necessity.lost),
            "resampled": necessity.resampled,
            "random_least": min(necessity.random),
        },
        "disjoint_sets": None if redundancy is None else redundancy.carrying,
        "further_sets": None
        if redundancy is None
        else [[one.units, one.flipped.value, one.fidelity] for one in redundancy.sets],
        "all_sets_held": None
        if redundancy is None or redundancy.held is None
        else _share(redundancy.held.held),
        "permuted": None if evidence.permuted is None else evidence.permuted.flip_accuracy,
        **_side_effects(evidence),
        "verdict": None if verdict is None else verdict.word,
        "failed": {check.name: check.found for check in checks if check.passed is False},
        "undecided": {check.name: check.found for check in checks if check.undecided},
        "not_made": [check.name for check in checks if check.passed is None and not check.undecided],
    }


def _fidelity(summary: Summary) -> Row | None:
    found = summary.best_run.fidelity
    if found is None:
        return None
    return {
        "asked": _share(found.asked),
        "from_cue": _share(found.from_cue),
        "ceiling": found.ceiling,
        "floor": found.floor,
        "kl_before": found.kl_before,
        "kl_between": found.kl_between,
        "kl_asked": found.kl_asked,
    }


def _side_effects(evidence: Evidence) -> Row:
    """The unrelated phenomena that the model knows, and what random sets with the same KL and a real change of the cue
    do to those that move most."""
    unrelated = [one for one in evidence.effects if not one.related and one.untouched.low > HALF]
    unrelated.sort(key=lambda one: -one.moved)
    return {
        "related": sum(one.related for one in evidence.effects),
        "unrelated": len(unrelated),
        "moved_too_far": sum(one.moved > MOST_MOVED for one in unrelated),
        "moved_by_random": sum((one.by_chance or 0) > MOST_MOVED for one in unrelated),
        "moved_by_cue": sum((one.by_cue or 0) > MOST_MOVED for one in unrelated),
        "moved": {one.phenomenon: [one.moved, one.by_chance, one.by_cue] for one in unrelated[:SHOWN]},
    }


def _share(of: Share | None) -> list[float] | None:
    return None if of is None else [of.value, of.low, of.high]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], help="the cells whose names contain one of these")
    for name in ("models", "phenomena", "sites"):
        parser.add_argument(f"--{name}", nargs="+")
    for name, kind in (("steps", Steps), ("values", Values), ("objectives", Objective)):
        parser.add_argument(f"--{name}", nargs="+", choices=get_args(kind))
    parser.add_argument("--max-units", type=int)
    parser.add_argument("--search", default="exchange", choices=("exchange", "learned"))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--evidence", default="full", choices=get_args(Level))
    parser.add_argument("--out", type=Path, default=Path("runs/panel"))
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--device")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    named = (args.models, args.phenomena, args.sites, args.steps, args.values, args.objectives)
    for cell in combined(args) if any(named) else panel():
        there = args.rows.read_text(encoding="utf-8").splitlines() if args.rows.exists() else []
        if cell.name in {json.loads(line)["cell"] for line in there}:
            continue
        if not any(word in cell.name for word in args.only):
            continue
        try:
            made = {"cell": cell.name, **answer(cell, args.out, args.device)}
        except PivotalError as error:
            print(f"{cell.name}: {error}", flush=True)
            continue
        with args.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(made) + "\n")
        print(cell.name, made["verdict"], list(made["failed"]), made["cpu_seconds"], flush=True)


if __name__ == "__main__":
    main()
