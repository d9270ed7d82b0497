"""docs/atlas-findings.md and the matrix of the README are made from the stored rows of the atlas."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from tests.paths import ROOT

from pivotal.errors import PivotalError
from pivotal.records import serial
from pivotal.records.study_rows import CrossScore
from pivotal.report.atlas.cross import QUIET
from pivotal.report.atlas.entries import Atlas


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


def test_figures_of_the_page_are_those_of_the_rows(
    script: ModuleType, tables: ModuleType, atlas: Atlas
) -> None:
    """The sentences state figures by hand; these are the ones that they rest on."""
    text = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    searched = [entry for entry in atlas.searched if entry.model == "wiki-lstm"]
    every = [entry for entry in searched if entry.steps == "every"]
    flips = [entry for entry in every if tables.accuracy(entry) >= 0.9]
    assert f"in {len(flips)} of {len(every)} phenomena" in text
    assert f"and {sum(len(entry.units) < 3 for entry in flips)} of these need one or two" in text
    gender = [entry for entry in every if tables.family_of(entry.phenomenon) == "gender"]
    assert len(gender) == 7 and all("hidden.1:433" in map(str, entry.units) for entry in gender)
    with_278 = {tables.family_of(e.phenomenon) for e in every if "hidden.1:278" in map(str, e.units)}
    assert with_278 == {"number of verbs"}
    failed = Counter(name for one in searched if one.row and one.row.judged for name in one.row.judged.failed)
    assert f"*other phenomena* in {failed['other phenomena']} of {len(searched)}" in text
    assert (
        f"*natural values* in {failed['natural values']}, *ordinary text* in {failed['ordinary text']}"
        in text
    )
    assert f"*through the model* in {failed['through the model']}." in text
    matched = sum(one.row.judged.p_value > 0.01 for one in every if one.row and one.row.judged)
    assert f"In {matched} of the {len(every)} phenomena at every step, at least one of 99 random sets" in text


def test_tables_say_what_was_not_measured(script: ModuleType, tables: ModuleType, atlas: Atlas) -> None:
    """Some models have no direct path that can be measured, and a model may have few rows."""
    none = dict.fromkeys(("natural", "interchange", "direct", "text"))
    flips = [one for one in atlas.searched if one.steps == "every" and tables.accuracy(one) >= 0.9]
    bare = [
        replace(entry, row=serial.replace(entry.row, judged=serial.replace(entry.row.judged, **none)))
        for entry in flips[:4]
        if entry.row and entry.row.judged
    ]
    made = {name: table(Atlas(tuple(bare))) for name, table in script.TABLES.items()}
    assert made["cost"].splitlines()[-1].count(" – ") == 4 and " – " in made["families"]
    listed = [line for line in made["quiet"].splitlines() if "`" in line]
    assert len(listed) == len(set(listed)) == 4
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
    assert script.TABLES["quiet"](few).count("another") == sum(one.row.accuracy >= 0.9 for one in some)


def test_the_page_says_what_both_lstms_know(script: ModuleType, atlas: Atlas) -> None:
    text = " ".join(script.PAGE.read_text(encoding="utf-8").split())
    known: dict[str, set[str]] = {}
    for model in ("wiki-lstm", "wiki-lstm-tied"):
        entries = [entry for entry in atlas.of(model=model) if entry.standing != "not run"]
        assert len(entries) == 182
        known[model] = {entry.phenomenon for entry in entries if entry.standing != "unknown"}
    one, other = known.values()
    assert len(one) == len(other)
    assert f"{len(one)} of 91 each, {len(one & other)} of them in common" in text
    for only, said in (
        (one - other, "`wiki-lstm` alone knows"),
        (other - one, "`wiki-lstm-tied` alone knows"),
    ):
        names = " and ".join(f"`{name.removeprefix('BLiMP ')}`" for name in sorted(only))
        assert f"{said} {names}" in text
    asked = {e.phenomenon: e for e in atlas.of(model="smollm2-135m") if e.standing != "not run"}
    assert all(entry.standing != "unknown" for entry in asked.values())
    assert f"SmolLM2 knows all of the {len(asked)} phenomena that it was asked" in text
    assert f"among them {len(asked.keys() - one)} that `wiki-lstm` does not know" in text


def test_a_change_of_five_points_is_not_more_than_five_points() -> None:
    score = CrossScore(phenomenon="passive", pairs=200, flipped=None, untouched=1.0, edited={"active": 0.95})
    assert QUIET < 1.0 - 0.95 and score.moved == QUIET  # the plain difference is a little more


def test_the_stored_atlas_is_small() -> None:
    files = [path for path in (ROOT / "docs" / "results" / "atlas").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6


def test_a_table_that_there_is_not_is_named(
    script: ModuleType, atlas: Atlas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "findings.md"
    text.write_text("<!-- table: unitss -->\n")
    monkeypatch.setattr(script, "TEXT", text)
    with pytest.raises(PivotalError, match="names the table 'unitss'"):
        script.page(atlas)


def test_the_script_says_that_nothing_is_out_of_date() -> None:
    command = [sys.executable, ROOT / "scripts" / "atlas_findings.py", "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
