"""The CPU seconds of the phases of `pivotal find`: the search, the random sets, the checks of the evidence, the page.

    python benchmarks/find_time.py [--model wiki-lstm] [--phenomenon number-agreement] [--sites all] [--steps every]
        [--values natural] [--runs 1] [--controls 19 99]

The defaults are those of `make demo`, with 99 random sets. Each number of --controls is one row of random sets, timed
with the intervention that the search found. Loading the model and the pairs is not counted. One thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import get_args

import torch
from timing import spent, timed

from pivotal.evidence import CONTROLS, summarise
from pivotal.evidence.controls import random_control
from pivotal.evidence.examination import Examination
from pivotal.jobs import find as job
from pivotal.models import LanguageModel, load_model
from pivotal.problem.prepare import as_read, training_problem
from pivotal.questions.question import Question
from pivotal.records.intervention import Intervention
from pivotal.report.page import write_report
from pivotal.searches.exchange import Exchange
from pivotal.units import Steps, Values

CHECKS = {
    "knowledge_of": "the model knows it",
    "natural_range": "natural values",
    "interchange": "counterfactual states",
    "dose_response": "dose and response",
    "paths_of": "through the model",
    "cue_swap": "another cue",
    "text_cost": "ordinary text",
    "necessity": "necessity",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="all")
    parser.add_argument("--steps", default="every", choices=get_args(Steps))
    parser.add_argument("--values", default="natural", choices=get_args(Values))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--controls", type=int, nargs="+", default=[19, CONTROLS])
    args = parser.parse_args()
    torch.set_num_threads(1)
    question = Question(args.model, args.phenomenon, sites=args.sites, steps=args.steps, values=args.values)
    model = load_model(args.model, device="cpu")
    timed(job._Run, "_search", "search")
    timed(summarise, "scores_of", "scores, fidelity")
    timed(summarise, "unseen_words", "unseen words")
    timed(summarise, "random_control", "random sets")
    for name, label in CHECKS.items():
        timed(job if name == "knowledge_of" else summarise, name, label)
    timed(job, "trace_held_out", "traces of sentences")
    timed(job, "profile_units", "pages of units")
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        found = job.find(question, Exchange(), runs=args.runs, out=str(Path(folder) / "run"), model=model)
        write_report(found.folder)
        whole = time.process_time() - started
        intervention = found.folder.intervention()
    spent["page, files and the rest"] = whole - sum(spent.values())
    for label, seconds in spent.items():
        print(f"{label:26} {seconds:7.1f} s {seconds / whole:6.1%}")
    checks = sum(spent[label] for label in (*CHECKS.values(), "unseen words"))
    print(f"{'in all':26} {whole:7.1f} s; checks other than random sets {checks / whole:.1%}")
    compare_controls(question, model, intervention, args.controls)


def compare_controls(
    question: Question, model: LanguageModel, intervention: Intervention, sizes: list[int]
) -> None:
    """Time several numbers of random sets."""
    train_pairs, test_pairs = question.divide(as_read(question, model, question.load_pairs()))
    train = training_problem(question, model, train_pairs)
    test = train.on(test_pairs)
    train.bounds()  # the natural ranges are measured once, before the first fit
    for sets in sizes:
        started = time.process_time()
        random_control(Examination(intervention, test), train, sets, Exchange().terms, 0)
        print(f"{sets} random sets: {time.process_time() - started:.1f} s")


if __name__ == "__main__":
    main()
