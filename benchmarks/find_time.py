"""The CPU seconds of the parts of `pivotal find`, and the passes of the model over one position of a prefix.

    python benchmarks/find_time.py [--model wiki-lstm] [--phenomenon number-agreement] [--sites all] [--steps every]
        [--values natural] [--search exchange]

The defaults are those of `make demo`. One thread. A pass is counted where it runs, whatever the number of blocks that
it skips. `preparing` is all before the search but loading the model: the pairs, their trees, and the natural ranges.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

import torch
from timing import spent, timed

from pivotal.evidence import summarise
from pivotal.jobs import find as job
from pivotal.models import load_model
from pivotal.models.base import LanguageModel
from pivotal.questions.question import Question
from pivotal.report.page import write_report
from pivotal.searches import choose
from pivotal.units import Steps, Values

PARTS = {
    "random sets": (summarise, ("random_control",)),
    "scores, fidelity": (summarise, ("scores_of",)),
    "unseen words": (summarise, ("unseen_words",)),
    "ordinary text": (summarise, ("text_cost",)),
    "necessity": (summarise, ("necessity",)),
    "other checks": (
        summarise,
        ("turned_away", "natural_range", "interchange", "dose_response", "paths_of", "cue_swap"),
    ),
    "traces, pages of units": (job, ("trace_held_out", "profile_units")),
}
passes: dict[str, float] = defaultdict(float)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="all")
    parser.add_argument("--steps", default="every", choices=get_args(Steps))
    parser.add_argument("--values", default="natural", choices=get_args(Values))
    parser.add_argument("--search", default="exchange")
    args = parser.parse_args()
    torch.set_num_threads(1)
    question = Question(args.model, args.phenomenon, sites=args.sites, steps=args.steps, values=args.values)
    model = load_model(args.model, device="cpu")
    count_passes()
    measure(job._Run, "_search", "search")
    for label, (module, names) in PARTS.items():
        for name in names:
            measure(module, name, label)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        found = job.find(question, choose(args.search, None, {}), out=str(Path(folder) / "run"), model=model)
        before = time.process_time()
        write_report(found.folder)
        spent["page"] = time.process_time() - before
        whole = time.process_time() - started
    print(found)
    measured = sum(spent[label] for label in ("search", *PARTS))
    spent["preparing, files"] = whole - measured - spent["page"]
    for label in ("preparing, files", "search", *PARTS, "page"):
        print(f"{label:24} {spent[label]:7.1f} s {spent[label] / whole:6.1%} {passes[label]:9,.0f} passes")
    checks = sum(spent[label] for label in PARTS if "pages" not in label)
    print(
        f"{'in all':24} {whole:7.1f} s; evidence {checks:.1f} s, {checks / spent['search']:.2f} of the search"
    )


def count_passes() -> None:
    """Count the positions, times runs, of every pass."""
    states = LanguageModel.states

    def counted(self: LanguageModel, *args: Any) -> torch.Tensor:
        found = states(self, *args)
        passes["all"] += found.shape[0] * found.shape[1]
        return found

    LanguageModel.states = counted  # type: ignore[method-assign]


def measure(owner: Any, name: str, label: str) -> None:
    timed(owner, name, label)
    timed(owner, name, label, lambda: passes["all"], passes)


if __name__ == "__main__":
    main()
