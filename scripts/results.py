"""Make the pages of results, docs/results*.md, from their hand-written parts and from stored rows.

    python scripts/results.py [--check]

A page is the part of its name in docs/results/parts/. Three kinds of lines in a part become tables:

    <!-- study: NAME -->            the scores of docs/results/NAME/results.jsonl, beside the paper's figures
    <!-- study: NAME by AXIS -->    the same rows with a column for each value of an axis of the recipe: flips and KL
    <!-- table: NAME -->            a table of results_tables.py, made from the rows of a benchmark

Above the table of a study stands its protocol: search, values, split, batch, machine and rows. With --check nothing is
written: the exit code is 1 if a page is not what its sources make, and 2 if a source is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import verdict_rates
from pivotal.errors import PivotalError, did_you_mean
from pivotal.jobs.study.recipe import Recipe, read_recipe, shipped
from pivotal.printing import counted
from pivotal.records.study import RESULTS, StudyRow, read_results
from pivotal.report import export
from pivotal.report.study_tables import cells, study_tables
from pivotal.report.tables import Table, table
from results_tables import TABLES

DOCS = Path(__file__).parents[1] / "docs"
NOTICE = "<!-- Made by scripts/results.py; edit results/parts/{name} and run it again. -->\n\n"
_STUDY = re.compile(r"^<!-- study: (\S+)(?: by (.+))? -->$", re.MULTILINE)
_TABLE = re.compile(r"^<!-- table: (\S+) -->$", re.MULTILINE)
_HELD_OUT = {"prefixes": "whole prefixes", "words": "whole words", "pairs": "pairs at random"}


def pages(docs: Path = DOCS) -> dict[Path, str]:
    """The text of each page and of the figure of the bench, by its path."""
    made = {docs / part.name: _page(part, docs) for part in sorted(docs.glob("results/parts/*.md"))}
    rows = docs / "results/calibration.jsonl"
    if rows.is_file():
        bench = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
        made[docs / "images/verdicts.svg"] = verdict_rates.figure(bench)
    return made


def _page(part: Path, docs: Path) -> str:
    text = part.read_text(encoding="utf-8").strip()
    text = _STUDY.sub(lambda mark: study(mark[1], mark[2], docs), text)
    return f"{NOTICE.format(name=part.name)}{_TABLE.sub(lambda mark: _benchmark(mark[1], docs), text)}\n"


def _benchmark(name: str, docs: Path) -> str:
    if name not in TABLES:
        raise PivotalError(
            f"A part names the table '{name}', which does not exist.{did_you_mean(name, TABLES)}"
        )
    return TABLES[name](docs / "results").strip()


def study(name: str, axis: str | None = None, docs: Path = DOCS) -> str:
    """The protocol and the scores of a study."""
    known = shipped()
    if name not in known:
        raise PivotalError(
            f"A part names the study '{name}', for which there is no recipe.{did_you_mean(name, known)}"
        )
    raw = docs / "results" / name / RESULTS
    if not raw.is_file():
        return f"`pivotal study {name}`: not measured yet."
    recipe, rows = read_recipe(known[name]), read_results(raw)
    shown = _shortened(study_tables(recipe, rows)[0], rows) if axis is None else _by(axis, recipe, rows)
    said = f"{protocol(name, rows)} [Rows](results/{name}/{RESULTS})."
    return f"{said}\n\n{export.markdown(replace(shown, note='')).strip()}"


def protocol(name: str, rows: Sequence[StudyRow]) -> str:
    """One line: command, search, values, split unless whole prefixes are held out, batch and machine."""
    done = [row for row in rows if row.done]
    split = _listed(_HELD_OUT[row.split] for row in done)
    machines = _listed((row.machine or row.device or "an unnamed machine" for row in done), " and ")
    batches = (str(row.options["batch"]) for row in done if "batch" in row.options)
    return (
        f"`pivotal study {name}`: {counted(len(done), 'run')}. "
        f"Search: {_listed(f'`{row.search}`' for row in done)}. "
        f"Values: {_listed(row.values for row in done)}. "
        f"{'' if split == _HELD_OUT['prefixes'] else f'Held out: {split}. '}"
        f"Batch: {_listed(batches)} prefixes. Machine: {machines}."
    )


def _listed(texts: Iterable[str], joined: str = " or ") -> str:
    return joined.join(dict.fromkeys(texts))


def _shortened(shown: Table, rows: Sequence[StudyRow]) -> Table:
    """Without seconds, which say little on shared machines, and without the work if there is no search to compare."""
    drop = {"seconds"} if len({row.search for row in rows}) > 1 else {"seconds", "M nodes"}
    kept = [place for place, title in enumerate(shown.columns) if title not in drop]
    if "seconds" in shown.columns and shown.columns[-2] == "paper":  # the paper's hours follow our seconds
        kept.remove(len(shown.columns) - 2)
    lines = tuple(tuple(line[place] for place in kept) for line in shown.rows)
    numeric = frozenset(new for new, old in enumerate(kept) if old in shown.numeric)
    return Table(shown.title, tuple(shown.columns[place] for place in kept), lines, numeric)


def _by(axis: str, recipe: Recipe, rows: Sequence[StudyRow]) -> Table:
    """Flips and KL, with a column for each value of the axis."""
    found = [cell for cell in cells(recipe, rows) if axis in cell.label]
    if not found:
        raise PivotalError(f"A part shows the study '{recipe.name}' by '{axis}', but no cell has that axis.")
    others = [name for name in found[0].label if name != axis]
    columns = list(dict.fromkeys(cell.label[axis] for cell in found))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in found:
        flipped, kl = cell.spread(lambda row: row.accuracy), cell.spread(lambda row: row.kl)
        if flipped is not None and kl is not None:
            spread = "" if flipped[1] is None else f" ± {100 * flipped[1]:.1f}"
            text = f"{100 * flipped[0]:.1f}{spread} / {kl[0]:.2f}"
            lines.setdefault(tuple(cell.label[name] for name in others), {})[cell.label[axis]] = text
    body = [(*line, *(texts.get(column, "") for column in columns)) for line, texts in lines.items()]
    return table("", [*others, *columns], body, text=len(others))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if a page is out of step"
    )
    asked = parser.parse_args()
    try:
        made = pages()
    except PivotalError as error:
        print(error, file=sys.stderr)
        return 2
    if not asked.check:
        for target, text in made.items():
            target.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"{', '.join(stale)}: out of date. Run: python scripts/results.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
