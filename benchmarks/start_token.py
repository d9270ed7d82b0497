"""How much of the damage to ordinary text is done at the first token.

    python benchmarks/start_token.py docs/results/atlas --model tinyllama-1.1b --start "<s>"

If a model reads nothing before a sentence, an intervention at every step also edits the first token that the model
reads. If it reads a start token, it does not: what is read before a sentence is never edited. The script prints the
factor by which an intervention multiplies the perplexity of the bundled text, and the flips in a few pairs of its own
phenomenon, without a start token and with one. It does this for the interventions at every step whose factor in the
rows is at least `--least`. Phenomena in files must be readable from the working directory.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pivotal.evidence.side_effects import Subject, effect_on, text_cost
from pivotal.jobs.study.cells import cells_of
from pivotal.models import LanguageModel, load_model
from pivotal.problem.prepare import as_read
from pivotal.problem.text import OrdinaryText
from pivotal.questions.question import Question
from pivotal.records.intervention import Intervention
from pivotal.report.atlas.site import intervention_of
from pivotal.report.study import StudyFolder


def effects(
    intervention: Intervention, model: LanguageModel, question: Question, pairs: int
) -> tuple[str, str]:
    """The perplexity with the units set, towards the worse label, over that of the untouched model; and the flips."""
    cost = text_cost(intervention, OrdinaryText(model))
    assert cost is not None
    asked = as_read(question, model, question.load_pairs())
    flipped = effect_on(intervention, model, asked.at_most(pairs), Subject()).flipped
    assert flipped is not None
    return f"{cost.ratio:.2f}", f"{flipped.value:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("atlas", type=Path, help="the folder of the study")
    parser.add_argument("--model", required=True)
    parser.add_argument("--start", required=True, help="the start token, as text")
    parser.add_argument("--least", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=40, help="pairs that are asked")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    study = StudyFolder.open(args.atlas)
    rows = [
        row
        for row in study.rows
        if row.done and (row.model, row.steps) == (args.model, "every")
        if row.judged and (row.judged.text or 0) >= args.least
    ]
    questions = {cell.key: cell.question for cell in cells_of(study.recipe)}
    without, with_start = (
        load_model(args.model, device=args.device, priming=text) for text in ("", args.start)
    )
    print("| phenomenon | units | text, in the row | text | flips | text, start token | flips, start token |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for row in rows:
        folder = intervention_of(args.atlas, row)
        assert folder is not None and row.judged is not None
        found = Intervention.load(folder)
        figures = [
            one
            for model in (without, with_start)
            for one in effects(found, model, questions[row.key], args.pairs)
        ]
        units = ", ".join(f"`{unit}`" for unit in found.units)
        print(f"| `{row.phenomenon}` | {units} | {row.judged.text:.2f} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
