"""Make docs/atlas-findings.md and its figures from the rows of the atlas in docs/results/atlas.

    python scripts/atlas_findings.py            # the page and its figures
    python scripts/atlas_findings.py --check    # say whether they are up to date

No model is loaded. Models whose rows are added to the data appear as further lines and columns. The sentences of the
page are in docs/results/parts/atlas/findings.md, where `<!-- table: NAME -->` stands for a table of atlas_tables.py or
atlas_comparisons.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from atlas_charts import CHARTS
from atlas_comparisons import COMPARISONS
from atlas_matrix import matrix_svg
from atlas_tables import TABLES as PLAIN
from pivotal.errors import PivotalError
from pivotal.files import read_text, write_text
from pivotal.report.atlas.entries import Atlas, atlas_of
from pivotal.report.drawing import draw
from pivotal.report.study import StudyFolder

DOCS = Path(__file__).parents[1] / "docs"
DATA, PAGE, IMAGES = DOCS / "results" / "atlas", DOCS / "atlas-findings.md", DOCS / "images"
TEXT = DOCS / "results" / "parts" / "atlas" / "findings.md"
MATRIX = IMAGES / "atlas.svg"
TABLES = PLAIN | COMPARISONS


def stored() -> Atlas:
    folder = StudyFolder.open(DATA)
    return atlas_of(folder.recipe, folder.rows)


def page(atlas: Atlas) -> str:
    def table(found: re.Match[str]) -> str:
        if found[1] not in TABLES:
            raise PivotalError(
                f"{TEXT.name} names the table '{found[1]}', but there are only: {', '.join(TABLES)}."
            )
        return TABLES[found[1]](atlas)

    note = "<!-- Made by scripts/atlas_findings.py; edit results/parts/atlas/findings.md and run it again. -->\n\n"
    return note + re.sub(r"<!-- table: ([\w-]+) -->", table, read_text(TEXT))


def main() -> int:
    atlas = stored()
    made = {PAGE: page(atlas), MATRIX: matrix_svg(atlas)}
    if "--check" in sys.argv[1:]:
        stale = [path.name for path, text in made.items() if not path.is_file() or read_text(path) != text]
        if stale:
            print(f"{', '.join(stale)}: out of date. Run: python scripts/atlas_findings.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in made.items():
        write_text(path, text)
    for name, chart in CHARTS.items():
        write_text(IMAGES / f"{name}.svg", draw(chart(atlas)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
