"""docs/atlas-findings.md and the matrix of the README are made from the stored rows of the atlas."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from tests.paths import ROOT

from pivotal.records import serial
from pivotal.records.study import CrossScore
from pivotal.report.atlas.entries import Atlas
from pivotal.report.atlas.findings import QUIET


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import atlas_findings
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return atlas_findings


@pytest.fixture(scope="module")
def tables(script: ModuleType) -> ModuleType:
    return sys.modules[script.TABLES["units"].__module__]


@pytest.fixture(scope="module")
def atlas(script: ModuleType) -> Atlas:
    stored: Atlas = script.stored()
    return stored


def test_the_page_and_the_matrix_are_what_the_rows_make(script: ModuleType, atlas: Atlas) -> None:
    cure = "run: python scripts/atlas_findings.py"
    assert script.PAGE.read_text(encoding="utf-8") == script.page(atlas), cure
    assert script.MATRIX.read_text(encoding="utf-8") == script.matrix_svg(atlas), cure
    for name in script.CHARTS:
        assert (script.IMAGES / f"{name}.svg").is_file(), cure


def test_every_phenomenon_has_one_family(tables: ModuleType, atlas: Atlas) -> None:
    listed = [name for names in tables.FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(atlas.phenomena)


def test_random_divisions_of_number_are_as_good_where_families_do_not_matter(
    script: ModuleType, atlas: Atlas
) -> None:
    """If every intervention flips everything equally, the division into families is no better than a random one."""
    even = [
        replace(
            entry,
            cross=tuple(
                serial.replace(score, flipped=0.5) for score in entry.cross if score.flipped is not None
            ),
        )
        for entry in atlas.searched
        if (entry.model, entry.steps) == ("wiki-lstm", "every")
    ]
    line = script.TABLES["number-test"](Atlas(tuple(even))).splitlines()[-1]
    assert line.endswith("| 50.0% | 50.0% | 1.0000 |")


def test_tables_say_what_was_not_measured(script: ModuleType, tables: ModuleType, atlas: Atlas) -> None:
    """Some models have no direct path that can be measured, and a model may have few rows."""
    none = dict.fromkeys(("interchange", "direct", "text"))
    flips = [one for one in atlas.searched if one.steps == "every" and tables.accuracy(one) >= 0.9]
    bare = [
        replace(entry, row=serial.replace(entry.row, judged=serial.replace(entry.row.judged, **none)))
        for entry in flips[:4]
        if entry.row and entry.row.judged
    ]
    made = {name: table(Atlas(tuple(bare))) for name, table in script.TABLES.items()}
    assert made["cost"].splitlines()[-1].count(" – ") == 3
    listed = [line for line in made["quiet"].splitlines() if "`" in line]
    assert len(listed) == len(set(listed)) == 3
    assert made["specific"].count("\n") == 2, "a line for the one model and kind of step"
    without = Atlas(tuple(replace(entry, cross=()) for entry in bare))
    assert script.TABLES["specific"](without).count("\n") == 1, "the head alone"


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_model_with_few_rows_breaks_no_table(script: ModuleType, atlas: Atlas, rows: int) -> None:
    """Rows are added piece by piece, so a model may have a single one."""
    some = [entry for entry in atlas.searched if entry.steps == "single"][:rows]
    few = Atlas(tuple(replace(entry, model="another") for entry in some))
    for table in script.TABLES.values():
        assert "nan" not in table(few)
    for chart in script.CHARTS.values():
        assert script.draw(chart(few)).startswith("<svg")
    reliable = sum(one.row.accuracy >= 0.9 for one in some)
    assert script.TABLES["quiet"](few).count("another") == min(3, reliable)


def test_a_change_of_five_points_is_not_more_than_five_points() -> None:
    score = CrossScore(phenomenon="passive", pairs=200, flipped=None, untouched=1.0, edited={"active": 0.95})
    assert QUIET < 1.0 - 0.95 and score.moved == QUIET  # the plain difference is a little more


def test_the_stored_atlas_is_small() -> None:
    files = [path for path in (ROOT / "docs" / "results" / "atlas").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6
