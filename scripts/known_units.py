"""Write src/pivotal/assets/known_units.json: the units that the atlas knows for each feature, by model.

    python scripts/known_units.py

The units are those of interventions in docs/results/atlas that flip more than half of the held-out preferences of a
phenomenon with that feature. Random sets leave them out. A line of the file is a feature in a model.
"""

from __future__ import annotations

import json
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
    models = (
        f"{json.dumps(weights)}: {{\n"
        + ",\n".join(f" {json.dumps(feature)}: {json.dumps(sites)}" for feature, sites in features.items())
        + "\n}"
        for weights, features in by_model.items()
    )
    return "{\n" + ",\n".join(models) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
