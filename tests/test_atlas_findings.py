"""docs/atlas-findings.md and the matrix of the README are made from the stored rows of the atlas."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from tests.paths import ROOT, loaded

from pivotal.report.atlas.entries import Atlas


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("atlas_findings")


@pytest.fixture(scope="module")
def families(script: ModuleType) -> ModuleType:
    return sys.modules["phenomenon_families"]


@pytest.fixture(scope="module")
def atlas(script: ModuleType) -> Atlas:
    stored: Atlas = script.stored()
    return stored


def test_the_page_and_the_matrix_are_what_the_rows_make(script, atlas):
    cure = "run: python scripts/atlas_findings.py"
    assert script.PAGE.read_text(encoding="utf-8") == script.page(atlas), cure
    assert script.MATRIX.read_text(encoding="utf-8") == script.matrix_svg(atlas), cure
    for name in script.CHARTS:
        assert (script.IMAGES / f"{name}.svg").is_file(), cure


def test_the_readme_counts_phenomena_and_models(atlas):
    numbers = dict(enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")))
    said = (
        f"[{len(atlas.phenomena)} phenomena in {numbers[len({one.model for one in atlas.entries})]} models]"
    )
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_phenomenon_has_one_family(families, atlas):
    listed = [name for names in families.FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(atlas.phenomena)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_model_with_few_rows_breaks_no_table(script, atlas, rows):
    """Rows are added piece by piece, so a model may have a single one."""
    some = [entry for entry in atlas.searched if entry.steps == "single"][:rows]
    few = Atlas(tuple(replace(entry, model="another") for entry in some))
    for table in script.TABLES.values():
        assert "nan" not in table(few)
    for chart in script.CHARTS.values():
        assert script.draw(chart(few)).startswith("<svg")


def test_the_stored_atlas_is_small():
    files = [path for path in (ROOT / "docs" / "results" / "atlas").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6
