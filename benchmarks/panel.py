"""The panel of evidence: every check for two phenomena, with values unbounded, natural and interchanged, side by side.

    python benchmarks/panel.py [--models wiki-lstm smollm2-135m] [--phenomena number-agreement gender-bias]
        [--steps every single] [--values unbounded natural interchange] [--runs 3] [--evidence full] [--out runs/panel]
        [--sites all] [--max-units N] [--device cuda] [--table]

Several sites make a table of bases: --sites mlp.15 resid.15 resid.15@pca resid.15@das resid.15@sae:FOLDER.
Every cell is a run folder under --out, so the script can be stopped and started again, and several processes can work
on different cells. The tables hold all finished cells of the folder. Their rows are written to table.jsonl. --table
makes them again and runs nothing; with --out FILE.jsonl it makes them from such rows.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.evidence.verdict import HALF, MOST_MOVED
from pivotal.files import write_text
from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder
from pivotal.models import LanguageModel, load_model
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.evidence import Share
from pivotal.records.summary import Summary
from pivotal.report.tables import interval, number, percent
from pivotal.searches.learned import LearnedMask

Columns = dict[str, Callable[[dict[str, Any]], str]]
"""The columns of a table, each with a function that gives the text of its cell in a row."""
MODELS = ("wiki-lstm", "smollm2-135m")
PHENOMENA = ("number-agreement", "gender-bias")
VALUES = ("unbounded", "natural", "interchange")
SHOWN = 3
"""How many unrelated phenomena are named, those that moved most."""


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


def row(summary: Summary, sites: str, machine: str | None) -> dict[str, Any]:
    """What the tables show of one cell. A check that was not made is null."""
    best, evidence, verdict = summary.best_run, summary.evidence, summary.verdict
    assert evidence is not None and verdict is not None
    inside, exchanged, paths = evidence.natural, evidence.interchange, evidence.paths
    unrelated = [one for one in evidence.effects if not one.related and one.untouched.low > HALF]
    unseen = evidence.unseen_words
    return {
        "model": summary.model,
        "phenomenon": summary.phenomenon,
        "steps": summary.steps,
        "sites": sites,
        "values": summary.values,
        "right": summary.clean_accuracy,
        "units": best.units,
        "unit_labels": best.unit_labels,
        "flipped": [best.flip_accuracy, *best.interval],
        "by_direction": {label: [share.value, share.n] for label, share in best.by_direction.items()},
        "runs": [run.flip_accuracy for run in summary.runs],
        "kl": best.kl,
        "cue_kl": None if evidence.swap is None else evidence.swap.kl,
        "random_best": summary.controls.best,
        "random_p": summary.controls.p_value,
        "unseen_words": _share(None if unseen is None else unseen.flip_accuracy),
        "natural": _share(None if inside is None else inside.flipped),
        "counterfactual": _share(None if exchanged is None else exchanged.flipped),
        "whole_site": _share(None if exchanged is None else exchanged.whole_site),
        "direct": None if paths is None else paths.direct,
        "dose": None
        if evidence.dose is None
        else [evidence.dose.doses, evidence.dose.flip_accuracy, evidence.dose.kl],
        "text": None if evidence.text is None else evidence.text.ratio,
        "unrelated": len(unrelated),
        "moved": {one.phenomenon: one.moved for one in sorted(unrelated, key=lambda one: -one.moved)[:SHOWN]},
        "moved_too_far": sum(one.moved > MOST_MOVED for one in unrelated),
        "related": {one.phenomenon: one.flipped.value for one in evidence.effects if one.flipped is not None},
        "permuted": None if evidence.permuted is None else evidence.permuted.flip_accuracy,
        "verdict": verdict.word,
        "failed": [check.name for check in verdict.failed],
        "not_checked": [check.name for check in verdict.checks if check.passed is None],
        "seconds": summary.seconds.total,
        "machine": machine,
    }


def _share(of: Share | None) -> list[float] | None:
    return None if of is None else [of.value, of.low, of.high]


def stored(path: Path) -> list[dict[str, Any]]:
    """Rows that were written before."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measured(out: Path) -> list[dict[str, Any]]:
    """The rows of all finished cells of a folder."""
    rows = []
    for path in sorted(out.glob("*/summary.json")):
        run = RunFolder(path.parent)
        summary = run.summary()
        if summary.verdict is not None and summary.evidence is not None:
            rows.append(row(summary, run.stated("sites", str), run.info.machine))
    return sorted(
        rows,
        key=lambda row: [
            *(_place(row[name], order) for name, order in (("model", MODELS), ("phenomenon", PHENOMENA))),
            *((0, row[name]) for name in ("steps", "sites")),
            _place(row["values"], VALUES),
        ],
    )


def _place(name: str, order: Sequence[str]) -> tuple[int, str]:
    """Known names in their order, then others by name."""
    return (order.index(name) if name in order else len(order), name)


def markdown(rows: list[dict[str, Any]]) -> str:
    """Four tables for each model: the effect, the checks of the flips, the side effects, the verdicts."""
    made = []
    for model, group in groupby(rows, key=lambda row: row["model"]):
        listed = list(group)
        made += [f"**{title}, {model}**\n\n{_table(table, listed)}" for title, table in TABLES.items()]
    return "\n".join(made)


def _table(table: Columns, rows: list[dict[str, Any]]) -> str:
    several = len({row["sites"] for row in rows}) > 1
    named: Columns = {
        "phenomenon": lambda row: row["phenomenon"],
        "steps": lambda row: row["steps"],
        **({"sites": lambda row: row["sites"]} if several else {}),
        "values": lambda row: row["values"],
    }
    lines = [
        [*named, *table],
        ["---"] * len(named) + ["---:" if name not in TEXT else "---" for name in table],
    ]
    lines += [[cell(row) for cell in (*named.values(), *table.values())] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _with_interval(name: str) -> Callable[[dict[str, Any]], str]:
    def cell(row: dict[str, Any]) -> str:
        return "" if row[name] is None else f"{percent(row[name][0])} ({interval(*row[name][1:])})"

    return cell


def _percents(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "" if row[name] is None else ", ".join(percent(one) for one in row[name])


def _moved(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {100 * by:.1f}" for name, by in row["moved"].items())


EFFECT: Columns = {
    "right": lambda row: "" if row["right"] is None else percent(row["right"]),
    "units": lambda row: str(row["units"]),
    "flipped (95% interval)": _with_interval("flipped"),
    "all runs": _percents("runs"),
    "KL": lambda row: number(row["kl"]),
    "KL of another cue": lambda row: number(row["cue_kl"]),
}
CHECKS: Columns = {
    "best random set": lambda row: percent(row["random_best"]),
    "p": lambda row: number(row["random_p"], 2),
    "unseen words": _with_interval("unseen_words"),
    "in natural range": _with_interval("natural"),
    "counterfactual states": _with_interval("counterfactual"),
    "whole site": _with_interval("whole_site"),
    "direct path": lambda row: percent(row["direct"]),
    "permuted labels": _percents("permuted"),
}
SIDE_EFFECTS: Columns = {
    "text": lambda row: "" if row["text"] is None else f"x {row['text']:.2f}",
    "unrelated phenomena moved by more than 5 points": lambda row: (
        f"{row['moved_too_far']} of {row['unrelated']}" if row["unrelated"] else ""
    ),
    "moved most, points": _moved,
}
VERDICTS: Columns = {
    "verdict": lambda row: row["verdict"],
    "failed": lambda row: ", ".join(row["failed"]),
    "not checked": lambda row: ", ".join(row["not_checked"]),
}
TABLES = {
    "The effect": EFFECT,
    "What the flips rest on": CHECKS,
    "Side effects": SIDE_EFFECTS,
    "The verdict": VERDICTS,
}
TEXT = ("moved most, points", *VERDICTS)
"""The columns that hold words."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--phenomena", nargs="+", default=list(PHENOMENA))
    parser.add_argument("--steps", nargs="+", default=["every", "single"], choices=("every", "single"))
    parser.add_argument(
        "--values",
        nargs="+",
        default=list(VALUES),
        choices=VALUES,
    )
    parser.add_argument("--sites", nargs="+", default=["all"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-units", type=float)
    parser.add_argument("--evidence", default="full", choices=("none", "quick", "full"))
    parser.add_argument("--out", default="runs/panel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument(
        "--table", action="store_true", help="make the tables of what is there, and run nothing"
    )
    args = parser.parse_args()
    if not args.table:
        for name, questions in cells(args):
            model = load_model(name, device=args.device)
            for question in questions:
                fill(args, question, model)
    out = Path(args.out)
    rows = stored(out) if out.suffix == ".jsonl" else measured(out)
    made = markdown(rows)
    if out.is_dir():
        write_text(out / "table.jsonl", "".join(f"{serial.encode(row, indent=-1)}\n" for row in rows))
        write_text(out / "table.md", made)
    print(made)


if __name__ == "__main__":
    main()
