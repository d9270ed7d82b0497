"""Make docs/results.md from its hand-written parts and from the results of studies.

    python scripts/results.py [--check]

The parts, docs/results/parts/*.md, follow one another in the order of their names. A line `<!-- study: NAME -->` in one
of them becomes what was measured with the recipe NAME: how it is run, on which machine it was, how long it took, how
pairs were held out, and its tables beside the paper's figures, all from docs/results/NAME/results.jsonl. With --check
nothing is written: the exit code is 1 if the page is not what its sources make, and 2 if a source is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pivotal.errors import PivotalError, did_you_mean
from pivotal.jobs.study.recipe import read_recipe, shipped
from pivotal.records.study import RESULTS, StudyRow, read_results
from pivotal.report.study import measured, study_markdown

DOCS = Path(__file__).parents[1] / "docs"
NOTICE = "<!-- Made by scripts/results.py from results/; edit results/parts/ and run it again. -->\n\n"
_STUDY = re.compile(r"^<!-- study: (.+) -->$", re.MULTILINE)


def page(docs: Path = DOCS) -> str:
    parts = [path.read_text(encoding="utf-8").strip() for path in sorted(docs.glob("results/parts/*.md"))]
    text = _STUDY.sub(lambda mark: study(mark[1], docs), "\n\n".join(parts))
    return f"{NOTICE}{text}\n"


_HELD_OUT = {
    "prefixes": "whole prefixes",
    "words": "whole words",
    "pairs": "pairs at random",
}


def made_with(rows: Sequence[StudyRow]) -> str:
    """The settings whose defaults have changed: how pairs were held out, the values, and the size of an update."""
    done = [row for row in rows if row.done]
    splits = dict.fromkeys(_HELD_OUT[row.split] for row in done)
    values = dict.fromkeys(row.values for row in done)
    sizes = dict.fromkeys(
        f"{row.options['batch']}" for row in done if row.search == "learned" and "batch" in row.options
    )
    said = (
        f"Held out: {' or '.join(splits)}." if splits else "",
        f"Values: {' or '.join(values)}." if values else "",
        f"Prefixes in an update of `learned`: {' or '.join(sizes)}." if sizes else "",
    )
    return " ".join(filter(None, said))


def study(name: str, docs: Path = DOCS) -> str:
    """What stands in the place of a study's line."""
    known = shipped()
    if name not in known:
        raise PivotalError(
            f"A part names the study '{name}', for which there is no recipe.{did_you_mean(name, known)}"
        )
    recipe = read_recipe(known[name])
    about, command = " ".join(recipe.about.split()), f"`pivotal study {name}`"
    raw = docs / "results" / name / RESULTS
    if not raw.is_file():
        return f"{about}\n\n{command}: not measured yet."
    rows = read_results(raw)
    how = f"{command}: {measured(rows)} {made_with(rows)}"
    said = f"{how} Raw rows: [{name}/{RESULTS}](results/{name}/{RESULTS})."
    return f"{about}\n\n{said}\n\n{study_markdown(recipe, rows).strip()}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if the page is out of step"
    )
    asked = parser.parse_args()
    try:
        target, made = DOCS / "results.md", page()
    except PivotalError as error:
        print(error, file=sys.stderr)
        return 2
    if not asked.check:
        target.write_text(made, encoding="utf-8")
        return 0
    if target.read_text(encoding="utf-8") == made:
        return 0
    print("docs/results.md is not what its sources make. Run: python scripts/results.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
