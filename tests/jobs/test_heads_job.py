"""Jobs whose units have several coordinates: attention heads of a tiny random transformer."""

import json

import pytest
from tests.models.tiny import doctors, save_tiny

from pivotal import Question, study
from pivotal.jobs.study.recipe import parse_recipe


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> Question:
    here = tmp_path_factory.mktemp("heads")
    save_tiny(here / "tiny", bos=True)
    doctors("near", "behind", "quickly").save(here / "pairs.jsonl")
    return Question(model=str(here / "tiny"), phenomenon=str(here / "pairs.jsonl"), sites="head", test=4)


@pytest.mark.slow
def test_a_study_of_heads_asks_single_unit_ablation(question, tmp_path):
    recipe = parse_recipe(
        "name: heads\nruns: 2\nresources: {cpus: 1}\n"
        f"defaults: {{model: '{question.model}', phenomenon: '{question.phenomenon}', sites: head, test: 4,\n"
        "  updates: 8, refit: 2, max_units: 2, ablation: true}\n"
        "grid:\n  steps: [every]\n"
    )
    rows = study(recipe, out=tmp_path / "s").rows
    assert [row.error for row in rows] == [None, None]
    units = [unit for row in rows for unit in row.found]
    assert units and all(unit.by_ablation is not None for unit in units)
    stored = json.loads((tmp_path / "s" / str(rows[0].folder) / "ablation.json").read_text())["units"]
    assert set(stored) == {f"{unit.site}:{unit.index}" for unit in units}
