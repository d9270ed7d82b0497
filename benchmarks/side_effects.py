"""A baseline for the side effects in an atlas: random units, set to values that were learned in the same way.

    python benchmarks/side_effects.py docs/results/atlas --model wiki-lstm --steps every --out baseline.jsonl

For every intervention of the model, a random set with as many units in each layer is drawn. Its values are learned for
the same phenomenon, with the objective and inside the ranges of the search. Then every other phenomenon is asked with
it applied. A row is that of the study with the flips and the cross scores of the random set, without units, KL and
evidence. Rows are written one by one, and a second call continues. Phenomena in files must be readable from the working
directory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from pivotal.evidence.controls import matched_sets
from pivotal.evidence.side_effects import Subject, with_others
from pivotal.jobs.study.cells import Cell, cells_of
from pivotal.jobs.study.rows import cross_scores
from pivotal.jobs.study.work import StudyPlace, Worker
from pivotal.problem.prepare import as_read, problem_of
from pivotal.records.evidence import Evidence
from pivotal.records.intervention import Intervention
from pivotal.records.serial import replace
from pivotal.records.study import JudgedRow, StudyRow, read_results, write_results
from pivotal.report.atlas.site import intervention_of
from pivotal.report.study import StudyFolder
from pivotal.searches.base import interventions_of
from pivotal.searches.learned import LearnedMask
from pivotal.searches.tools.refit import Refit


def random_row(row: StudyRow, cell: Cell, worker: Worker, found: Intervention) -> StudyRow:
    """The row of a random set in place of the units found."""
    question = cell.question
    model = worker.model(cell)
    train_pairs, test_pairs = question.divide(as_read(question, model, worker.pairs(question)))
    train = problem_of(question, model, train_pairs)
    assert isinstance(cell.search, LearnedMask)
    mask = matched_sets(found, train, 1, row.seed)
    refit = Refit(terms=cell.search.terms, updates=cell.search.refit, batch=cell.search.batch)
    values = refit.fit(train, mask, seed=row.seed).values
    (drawn,) = interventions_of(train, mask.bool(), values)
    flips = train.on(test_pairs).run_intervention(drawn).flipped().double().mean()
    others = worker.others(cell, model) or ()
    asked = with_others(Evidence(level="none"), drawn, model, others, Subject.of(train_pairs))
    assert row.judged is not None
    judged = JudgedRow(verdict=row.judged.verdict, level="none", cross=cross_scores(asked.effects))
    return replace(row, accuracy=float(flips), kl=None, interval=None, found=[], folder=None, judged=judged)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("atlas", type=Path, help="the folder of the study")
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--steps", default="every")
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    study = StudyFolder.open(args.atlas)
    cells = {cell.key: cell for cell in cells_of(study.recipe)}
    rows = {row.run: row for row in read_results(args.out)}
    worker = Worker(StudyPlace(study.recipe.name, args.atlas, args.device))
    for row in study.rows:
        cell = cells[row.key]
        if (row.model, row.steps, row.done) != (args.model, args.steps, True) or row.run in rows:
            continue
        folder = intervention_of(args.atlas, row)
        assert folder is not None, f"{args.atlas} has no intervention for {cell.name}"
        made = random_row(row, cell, worker, Intervention.load(folder))
        rows[row.run] = made
        write_results(args.out, rows.values())
        print(f"{cell.name}: {made.accuracy:.1%} instead of {row.accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
