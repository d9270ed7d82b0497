"""The table of BLiMP: a search on every paradigm that has two words after one prefix, and why the others have none.

    python scripts/blimp_table.py FOLDER [--model wiki-lstm] [--out runs/blimp] [--only NAME …] [--small] [--device cpu]

FOLDER holds the 67 files of BLiMP. Every paradigm is a run folder under --out, so the script can be stopped and started
again: finished paradigms are read, and an unfinished one is resumed. --small is a quick setting to try the script, with
fewer updates, no controls and no evidence. The table is written to --out as table.md and table.jsonl.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.evidence import CONTROLS
from pivotal.evidence.check import check
from pivotal.files import write_text
from pivotal.jobs.find import find
from pivotal.models import LanguageModel, load_model
from pivotal.questions.question import Question
from pivotal.questions.readers.base import Part
from pivotal.questions.readers.blimp import Blimp
from pivotal.records import serial
from pivotal.report.tables import interval, number, percent
from pivotal.searches.learned import LearnedMask

COLUMNS = (
    *("paradigm", "labels", "asked", "accuracy", "flipped (95% interval)", "units", "KL"),
    *("verdict", "failed"),
)


def asked_of(args: argparse.Namespace, model: LanguageModel, part: Part) -> dict[str, Any]:
    """The row of a paradigm that can be asked."""
    question = Question(
        model=args.model,
        phenomenon=f"blimp:{Path(args.folder) / part.name}.jsonl",
        steps=args.steps,
        values="unbounded",
        unknown="unk",
        seed=args.seed,
    )
    known = check(question, model, most=0)
    row: dict[str, Any] = {
        "model": args.model,
        "paradigm": part.name,
        "pairs": known.pairs,
        "asked": known.asked,
        "labels": known.labels,
    }
    if known.knowledge is None:
        return {**row, "reason": known.reason}
    search = LearnedMask(updates=30, refit=10) if args.small else LearnedMask()
    try:
        done = find(
            question,
            search,
            runs=args.runs,
            controls=0 if args.small else args.controls,
            evidence="none" if args.small else args.evidence,
            out=str(Path(args.out) / part.name),
            device=args.device,
            model=model,
            command=f"python scripts/blimp_table.py {args.folder} --model {args.model} --out {args.out}",
        )
    except PivotalError as error:
        return {**row, "reason": str(error)}
    best, verdict = done.summary.best_run, done.summary.verdict
    return {
        **row,
        "accuracy": known.knowledge.accuracy,
        "flipped": best.flip_accuracy,
        "interval": best.interval,
        "by_direction": best.by_direction,
        "units": best.units,
        "kl": best.kl,
        "verdict": None if verdict is None else verdict.word,
        "failed": [] if verdict is None else [check.name for check in verdict.failed],
    }


def markdown(rows: list[dict[str, Any]], refused: list[Part]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * 5 + "---|---|"]
    for row in rows:
        labels = " / ".join(row["labels"] or ())
        asked = f"{row['asked']:,} of {row['pairs']:,}"
        if "reason" in row:
            cells = [row["paradigm"], labels, asked, "", "", "", "", "not asked", row["reason"]]
        else:
            accuracy = "" if row["accuracy"] is None else percent(row["accuracy"].value)
            flipped = f"{percent(row['flipped'])} ({interval(*row['interval'])})"
            scores = (flipped, str(row["units"]), number(row["kl"], 2))
            failed = ", ".join(row["failed"])
            cells = [row["paradigm"], labels, asked, accuracy, *scores, row["verdict"] or "", failed]
        lines.append(f"| {' | '.join(cells)} |")
    reasons = dict.fromkeys(part.reason for part in refused)
    for reason in reasons:
        names = ", ".join(part.name for part in refused if part.reason == reason)
        lines += ["", f"Not asked, because {reason.removesuffix('.')}: {names}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--out", default="runs/blimp")
    parser.add_argument("--only", nargs="*", help="some paradigms by name")
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--controls", type=int, default=CONTROLS)
    parser.add_argument("--evidence", default="quick", choices=("none", "quick", "full"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--device")
    args = parser.parse_args()
    parts = Blimp(args.folder).parts()
    if unknown := set(args.only or ()).difference(part.name for part in parts):
        parser.error(f"--only names paradigms of {args.folder}, but it has no {', '.join(sorted(unknown))}.")
    asked = [part for part in parts if part.pairs is not None and (not args.only or part.name in args.only)]
    refused = [part for part in parts if part.pairs is None]
    model = load_model(args.model, device=args.device)
    rows = []
    for part in asked:
        rows.append(asked_of(args, model, part))
        print(f"{part.name}: {rows[-1].get('verdict') or rows[-1].get('reason') or 'done'}", flush=True)
        out = Path(args.out)
        write_text(out / "table.jsonl", "".join(serial.encode(row, indent=-1) + "\n" for row in rows))
        write_text(out / "table.md", markdown(rows, refused))
    print(markdown(rows, refused))


if __name__ == "__main__":
    main()
