"""The panel of evidence: every check for two phenomena, with values unbounded, natural and interchanged, side by side.

    python benchmarks/panel.py [--models wiki-lstm smollm2-135m] [--phenomena number-agreement gender-bias]
        [--steps every single] [--values unbounded natural interchange] [--runs 3] [--evidence full] [--out runs/panel]
        [--sites all] [--max-units N] [--device cuda] [--table]

Several sites make a table of bases: --sites mlp.15 resid.15 resid.15@pca resid.15@das resid.15@sae:FOLDER.
Every cell is a run folder under --out, so the script can be stopped and started again, and several processes can work
on different cells. The table holds all finished cells of the folder. --table makes it again and runs nothing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import write_text
from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder
from pivotal.models import LanguageModel, load_model
from pivotal.questions.question import Question
from pivotal.records.share import Share
from pivotal.records.summary import Summary
from pivotal.report.tables import interval, number, percent
from pivotal.searches.learned import LearnedMask

COLUMNS = (
    *("model", "phenomenon", "steps", "values", "sites", "right", "units", "flipped", "95% interval", "KL"),
    *(
        "random sets p",
        "unseen words",
        "in natural range",
        "counterfactual states",
        "whole site",
        "direct path",
    ),
    *("text", "moved most", "permuted labels", "shuffled weights", "verdict", "not passed"),
)


def cells(args: argparse.Namespace) -> Iterator[tuple[str, list[Question]]]:
    """The questions, by model, so that a model is loaded once."""
    for name in args.models:
        yield (
            name,
            [
                Question(name, phenomenon, steps=steps, values=values, sites=sites, seed=args.seed)
                for sites, phenomenon, steps, values in product(
                    args.sites, args.phenomena, args.steps, args.values
                )
            ],
        )


def fill(args: argparse.Namespace, question: Question, model: LanguageModel) -> None:
    """Answer one question, and print its verdict."""
    parts = [question.model, question.phenomenon, question.steps, question.values, question.sites]
    if args.max_units is not None:
        parts.append(f"{args.max_units:g}")
    name = re.sub(r"[^\w.]+", "-", "-".join(parts))
    try:
        done = find(
            question,
            LearnedMask() if args.max_units is None else LearnedMask(max_units=args.max_units),
            runs=args.runs,
            evidence=args.evidence,
            out=str(Path(args.out) / name),
            device=args.device,
            model=model,
            command=f"python benchmarks/panel.py --models {question.model} --runs {args.runs} --out {args.out}",
        )
    except PivotalError as error:
        print(f"{name}: {error}", flush=True)
        return
    verdict = done.summary.verdict
    print(f"{name}: {'no verdict' if verdict is None else verdict.word}", flush=True)


def row(summary: Summary, sites: str) -> tuple[str, ...]:
    """One line of the table. A check that was not made is empty."""
    best, evidence = summary.best_run, summary.evidence
    assert evidence is not None and summary.verdict is not None
    inside, exchanged = evidence.natural, evidence.interchange
    moved = max(
        (effect for effect in evidence.effects if not effect.related), key=lambda e: e.moved, default=None
    )
    nothing = [
        "" if search is None else ", ".join(percent(flipped) for flipped in search.flip_accuracy)
        for search in (evidence.permuted, evidence.shuffled)
    ]
    return (
        summary.model,
        summary.phenomenon,
        summary.steps,
        summary.values,
        sites,
        "" if summary.clean_accuracy is None else percent(summary.clean_accuracy),
        str(best.units),
        percent(best.flip_accuracy),
        interval(*best.interval),
        number(best.kl),
        "" if summary.controls.p_value is None else number(summary.controls.p_value),
        share(None if summary.unseen_words is None else summary.unseen_words.flip_accuracy),
        share(None if inside is None else inside.flipped),
        share(None if exchanged is None else exchanged.flipped),
        share(None if exchanged is None else exchanged.whole_site),
        "" if evidence.paths is None or evidence.paths.direct is None else percent(evidence.paths.direct),
        "" if evidence.text is None else f"x {evidence.text.ratio:.2f}",
        "" if moved is None else f"{moved.phenomenon} {100 * moved.moved:.1f} points",
        *nothing,
        summary.verdict.word,
        ", ".join(check.name for check in summary.verdict.checks if not check.passed),
    )


def share(of: Share | None) -> str:
    return "" if of is None else f"{percent(of.value)} ({interval(of.low, of.high)})"


def table(folder: Path) -> str:
    """All finished cells of a folder, as a table in Markdown."""
    rows = []
    for path in sorted(folder.glob("*/summary.json")):
        run = RunFolder.open(path.parent)
        summary = run.summary()
        if summary.verdict is not None and summary.evidence is not None:
            rows.append(row(summary, run.stated("sites", str)))
    lines = [COLUMNS, ("---",) * 5 + ("---:",) * 13 + ("---",) * 4, *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["wiki-lstm", "smollm2-135m"])
    parser.add_argument("--phenomena", nargs="+", default=["number-agreement", "gender-bias"])
    parser.add_argument("--steps", nargs="+", default=["every", "single"], choices=("every", "single"))
    parser.add_argument(
        "--values",
        nargs="+",
        default=["unbounded", "natural", "interchange"],
        choices=("unbounded", "natural", "interchange"),
    )
    parser.add_argument("--sites", nargs="+", default=["all"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-units", type=float)
    parser.add_argument("--evidence", default="full", choices=("none", "quick", "full"))
    parser.add_argument("--out", default="runs/panel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument(
        "--table", action="store_true", help="make the table of what is there, and run nothing"
    )
    args = parser.parse_args()
    if not args.table:
        for name, questions in cells(args):
            model = load_model(name, device=args.device)
            for question in questions:
                fill(args, question, model)
    made = table(Path(args.out))
    write_text(Path(args.out) / "table.md", made)
    print(made)


if __name__ == "__main__":
    main()
