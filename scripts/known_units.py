"""Write src/pivotal/assets/known_units.json: the units that the atlas knows for each feature, by model.

    python scripts/known_units.py [--check]

The units are those of interventions in docs/results/atlas that flip more than half of the held-out preferences of a
phenomenon with that feature. Random sets leave them out. With --check nothing is written: the exit code is 1 if the
file is not what the atlas makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from pivotal.evidence.verdict import HALF
from pivotal.files import asset
from pivotal.questions.phenomena import load_phenomenon, phenomenon_names
from pivotal.questions.readers.blimp import features_of
from pivotal.records.intervention import Intervention
from pivotal.report.atlas.site import intervention_of
from pivotal.report.study import StudyFolder

ATLAS = Path(__file__).parents[1] / "docs" / "results" / "atlas"
FILE = asset("known_units.json")


def text() -> str:
    """The content of the file."""
    bundled = set(phenomenon_names())
    found: defaultdict[tuple[str, str, str], set[int]] = defaultdict(set)
    for row in StudyFolder.open(ATLAS).rows:
        folder = intervention_of(ATLAS, row)
        if folder is None or row.accuracy is None or row.accuracy <= HALF:
            continue
        card, name = Intervention.load(folder), row.phenomenon
        weights = card.model_fingerprint.partition("+")[0]
        for feature in load_phenomenon(name).features if name in bundled else features_of(Path(name).stem):
            for unit in card.units:
                found[weights, feature, unit.site].add(unit.index)
    by_model: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (weights, feature, site), indices in sorted(found.items()):
        by_model.setdefault(weights, {}).setdefault(feature, {})[site] = sorted(indices)
    return json.dumps(by_model, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the file is outdated"
    )
    made = text()
    if parser.parse_args().check:
        return int(not FILE.is_file() or FILE.read_text(encoding="utf-8") != made)
    FILE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
