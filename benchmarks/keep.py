"""Joint questions and --keep: one intervention for number that works on BLiMP too and leaves its other paradigms alone.

    python benchmarks/keep.py BLIMP [--model wiki-lstm] [--variants alone joint …] [--out runs/keep] [--runs 3]
        [--device cuda] [--table]

BLIMP is the folder with the 67 files of BLiMP. Every variant is a run folder under --out, and its best intervention is
then applied to every paradigm that has two words after one prefix. The script can be stopped and started again. The
tables hold all variants that are there. Their rows are written to table.jsonl. --table makes the tables again and runs
nothing; with --out FILE.jsonl it makes them from such rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pivotal.evidence.side_effects import transfer
from pivotal.files import write_text
from pivotal.jobs.find import find
from pivotal.models import LanguageModel, load_model
from pivotal.questions.question import Question, names_of
from pivotal.records import serial
from pivotal.records.evidence import Effect, Share
from pivotal.report.tables import interval, number, percent, points
from pivotal.searches.learned import LearnedMask
from pivotal.units import KEEP_CHANGE, MAX_UNITS, Values

NUMBER = ("number-agreement", "agreement-have", "agreement-be")
PLURAL = ("regular_plural_subject_verb_agreement_1", "irregular_plural_subject_verb_agreement_1")
UNRELATED = (
    "principle_A_case_2",
    "principle_A_domain_1",
    "wh_island",
    "npi_present_2",
    "npi_present_1",
    "principle_A_domain_2",
    "animate_subject_passive",
    "anaphor_gender_agreement",
    "irregular_past_participle_verbs",
    "principle_A_case_1",
)
TEXT = "text"


@dataclass(frozen=True)
class Variant:
    """What is searched, what must stay, and within which budget."""

    joint: bool = True
    keep: tuple[str, ...] = ()
    values: Values = "unbounded"
    options: dict[str, float] = field(default_factory=dict)

    def question(self, model: LanguageModel, name: str, blimp: str) -> Question:
        asked = [*NUMBER, *(paradigm(blimp, one) for one in PLURAL)] if self.joint else [NUMBER[0]]
        kept = [one if one == TEXT else paradigm(blimp, one) for one in self.keep]
        return Question(
            name,
            " + ".join(asked),
            sites="all" if any(site.name == "hidden.0" for site in model.sites) else "mlp",
            values=self.values,
            unknown="unk",
            keep=" + ".join(kept),
        )


def changes(most: int) -> Variant:
    """Ten paradigms are kept, with settings for two cores. The relaxed mask has no spare units, because with ten kept
    questions to thin them out costs more than all the rest."""
    small = {"spare": 1, "prune": -1, "updates": 100, "batch": 64, "refit": 100, "pool": 256}
    return Variant(keep=UNRELATED, options={"max_units": most, **small})


VARIANTS = {
    "alone": Variant(joint=False),
    "joint": Variant(),
    "joint8": Variant(options={"max_units": 8}),
    "text": Variant(keep=(TEXT,), options={"max_kl": 0.15, "max_units": 8}),
    "changes16": changes(16),
    "changes32": changes(32),
    "changes64": changes(64),
}


def paradigm(blimp: str, name: str) -> str:
    return f"blimp:{blimp}/{name}.jsonl"


def measured(args: argparse.Namespace, model: LanguageModel, name: str) -> dict[str, Any]:
    """Search a variant, apply its best intervention to BLiMP, and give its row."""
    variant = VARIANTS[name]
    question = variant.question(model, args.model, args.blimp)
    done = find(
        question,
        LearnedMask(**variant.options),
        runs=args.runs,
        controls=0,  # the question here is transfer and isolation, not a verdict
        out=str(Path(args.out) / name),
        device=args.device,
        model=model,
        command=f"python benchmarks/keep.py {args.blimp} --model {args.model} --variants {name}",
    )
    summary, best = done.summary, done.summary.best_run
    other = replace(question, phenomenon=f"blimp:{args.blimp}", keep="")
    found = transfer(done.folder.intervention(), model, other)
    text = None if summary.evidence is None else summary.evidence.text
    return {
        "model": summary.model,
        "variant": name,
        "questions": len(names_of(question.phenomenon)),
        "keep": variant.keep,
        "values": variant.values,
        "options": variant.options,
        "units": best.units,
        "unit_labels": best.unit_labels,
        "flipped": [best.flip_accuracy, *best.interval],
        "kl": best.kl,
        "held_out": {one: _numbers(best.by_group[one]) for one in PLURAL if one in best.by_group},
        "keep_kl": None if summary.kept is None else summary.kept.kl,
        "changes": {} if summary.kept is None else summary.kept.changes,
        "unread": {one.phenomenon: _effect(one)["moved"] for one in summary.kept.effects}
        if summary.kept
        else {},
        "text": None if text is None else text.ratio,
        "paradigms": {row.question: _effect(row.effect) for row in found.rows if row.effect is not None},
        "machine": done.folder.info.machine,
    }


def _numbers(share: Share) -> list[float]:
    return [share.value, share.low, share.high, share.n]


def _effect(effect: Effect) -> dict[str, Any]:
    """The flips of a related paradigm. Of an unrelated one the change of accuracy in the direction that changes it
    more."""
    changes = [share.value - effect.untouched.value for share in effect.edited.values()]
    return {
        "pairs": effect.pairs,
        "untouched": effect.untouched.value,
        "flipped": None if effect.flipped is None else effect.flipped.value,
        "moved": max(changes, key=abs),
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """What was searched; flips of related paradigms; changes of unrelated ones."""
    names = [f"`{row['variant']}`" for row in rows]
    related = [name for name, one in rows[0]["paradigms"].items() if one["flipped"] is not None]
    unrelated = [name for name, one in rows[0]["paradigms"].items() if one["flipped"] is None]
    flips = [
        [f"{name}, of {rows[0]['paradigms'][name]['pairs']}"]
        + [percent(row["paradigms"][name]["flipped"]) for row in rows]
        for name in sorted(related, key=lambda name: (name not in PLURAL, name))
    ]
    unread = [[f"{name}, held-out pairs", *(_held_out(row, name) for row in rows)] for name in PLURAL]
    moves = [
        [f"{name}, {percent(rows[0]['paradigms'][name]['untouched'])}"]
        + [points(row["paradigms"][name]["moved"]) for row in rows]
        for name in sorted(unrelated, key=lambda name: -max(abs(r["paradigms"][name]["moved"]) for r in rows))
    ]
    worst = [_largest(row["paradigms"][name]["moved"] for name in unrelated) for row in rows]
    other = [_largest(row.get("unread", {}).values()) for row in rows]
    searched = [
        [f"`{row['variant']}`", str(row["questions"]), _kept(row), *_budget(row), *_scores(row)]
        for row in rows
    ]
    columns = ["variant", "questions", "kept", "values", "most units", "bound on what is kept"]
    scores = ["units", "flipped (95% interval)", "KL", "of what is kept", "text"]
    return "\n".join(
        (
            _table([*columns, *scores], searched, text=4),
            _table(["flipped", *names], [*unread, *flips]),
            _table(
                ["change in points", *names],
                [*moves, ["the largest change", *worst], ["the largest, kept pairs not read", *other]],
            ),
        )
    )


def _largest(moved: Iterable[float]) -> str:
    sizes = [abs(one) for one in moved]
    return f"{100 * max(sizes):.1f}" if sizes else ""


def _held_out(row: dict[str, Any], name: str) -> str:
    if name not in row["held_out"]:
        return ""
    value, low, high, _ = row["held_out"][name]
    return f"{percent(value)} ({interval(low, high)})"


def _kept(row: dict[str, Any]) -> str:
    paradigms = len([one for one in row["keep"] if one != TEXT])
    said = [f"{paradigms} paradigms"] if paradigms else []
    return ", ".join(said + ["text"] * (TEXT in row["keep"]))


def _budget(row: dict[str, Any]) -> list[str]:
    options = row["options"]
    most = options.get("max_units", MAX_UNITS["every"])
    return [
        row["values"],
        f"{most:g}",
        _bounds(row),
    ]


def _bounds(row: dict[str, Any]) -> str:
    options = row["options"]
    said = [f"KL {options['max_kl']:g}"] if "max_kl" in options else []
    if row.get("changes"):
        said.append(f"change {options.get('max_change', KEEP_CHANGE):g}")
    return ", ".join(said)


def _scores(row: dict[str, Any]) -> list[str]:
    value, low, high = row["flipped"]
    return [
        str(row["units"]),
        f"{percent(value)} ({interval(low, high)})",
        number(row["kl"], 2),
        f"KL {number(row['keep_kl'], 2)}" if row["keep_kl"] is not None else _changed(row),
        "" if row["text"] is None else f"x {row['text']:.2f}",
    ]


def _changed(row: dict[str, Any]) -> str:
    """The largest change of a kept question, on pairs that the search read."""
    return f"change {number(max(row['changes'].values()), 3)}" if row.get("changes") else ""


def _table(columns: list[str], rows: list[list[str]], text: int = 1) -> str:
    lines = [columns, ["---"] * text + ["---:"] * (len(columns) - text), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def stored(path: Path) -> list[dict[str, Any]]:
    """Rows that were written before, in the order of the variants."""
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return sorted(rows, key=lambda row: list(VARIANTS).index(row["variant"]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("blimp", help="the folder with the files of BLiMP")
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--out", default="runs/keep")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument(
        "--table", action="store_true", help="make the tables of what is there, and run nothing"
    )
    args = parser.parse_args()
    out = Path(args.out)
    if args.table:
        rows = stored(out if out.suffix == ".jsonl" else out / "table.jsonl")
        if not rows:
            parser.error(
                f"--table shows the rows of {out}, but there are none yet. Leave it out to make some."
            )
        print(markdown(rows))
        return
    model = load_model(args.model, device=args.device)
    for name in args.variants:
        rows = [row for row in stored(out / "table.jsonl") if row["variant"] != name]
        rows.append(measured(args, model, name))
        write_text(out / "table.jsonl", "".join(f"{serial.encode(row, indent=-1)}\n" for row in rows))
    made = markdown(stored(out / "table.jsonl"))
    write_text(out / "table.md", made)
    print(made)


if __name__ == "__main__":
    main()
