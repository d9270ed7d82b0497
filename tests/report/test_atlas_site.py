"""The site of an atlas is written to a folder of its own, with a page for each name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paths import ROOT

from pivotal.errors import PivotalError
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.report.atlas import write_site
from pivotal.report.atlas.entries import atlas_of, slug
from pivotal.report.study import StudyFolder


@pytest.fixture(scope="module")
def stored() -> StudyFolder:
    return StudyFolder.open(ROOT / "docs" / "results" / "atlas")


def test_a_site_replaces_its_own_pages_only(stored: StudyFolder, tmp_path: Path) -> None:
    index = write_site(stored, tmp_path / "site")
    shared = index.parent / "units" / "wiki-lstm-hidden.1-433.html"
    former = shared.with_name("wiki-lstm-hidden.1-9999.html")
    shared.rename(former)
    (index.parent / "CNAME").write_text("atlas.example")
    write_site(stored, index.parent)
    assert shared.is_file() and not former.exists() and (index.parent / "CNAME").is_file()


@pytest.mark.parametrize("theirs", ["notes.txt", "index.html"])
def test_a_folder_with_other_files_stays_as_it_is(stored: StudyFolder, tmp_path: Path, theirs: str) -> None:
    (tmp_path / "units").mkdir()
    for path in (tmp_path / theirs, tmp_path / "units" / "mine.html"):
        path.write_text("mine")
    with pytest.raises(PivotalError, match=rf"of its own, but .* holds {theirs}\. Nothing was changed"):
        write_site(stored, tmp_path)
    assert (tmp_path / "units" / "mine.html").is_file() and not (tmp_path / "phenomena").exists()


def test_names_in_other_scripts_have_files_of_their_own() -> None:
    names = ["格標記", "量詞", "größe", "gr-e", "+", "BLiMP npi_present_1", "tinyllama-1.1b"]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names) and all(part.isascii() for part in slugs)
    assert slugs[-2:] == ["blimp-npi-present-1", "tinyllama-1.1b"]


def test_phenomena_have_their_labels_or_the_names_of_their_files() -> None:
    recipe = """
        name: names
        grid:
          phenomenon:
            - gender-bias
            - blimp:data/npi_1.jsonl
            - {label: "wh: object, 0.5", phenomenon: mine.jsonl}
            - number-agreement + blimp:data/npi_1.jsonl
            - one/same.jsonl
            - two/same.jsonl
    """
    assert atlas_of(parse_recipe(recipe), ()).phenomena == (
        "gender-bias",
        "npi_1",
        "wh: object, 0.5",
        "number-agreement + npi_1",
        "one/same.jsonl",
        "two/same.jsonl",
    )
