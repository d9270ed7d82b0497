"""The site of an atlas is written to a folder of its own, with a page for each name."""

from dataclasses import replace

import pytest
from tests.paths import ROOT
from tests.processes import locked_elsewhere

from pivotal import PivotalError
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.report.atlas import write_site
from pivotal.report.atlas.entries import atlas_of, slug
from pivotal.report.atlas.pages import unit_address
from pivotal.report.study import StudyFolder


@pytest.fixture(scope="module")
def stored() -> StudyFolder:
    return StudyFolder.open(ROOT / "docs" / "results" / "atlas")


def test_a_site_replaces_its_own_pages_only(stored, tmp_path, monkeypatch):
    few = tuple(
        draft
        for draft in stored.recipe.drafts
        if draft.label["model"] == "wiki-lstm" and draft.label["phenomenon"].startswith("agreement")
    )
    rows = [row for row in stored.rows if row.cell in [draft.label for draft in few]]
    stored = replace(stored, recipe=replace(stored.recipe, drafts=few), rows=tuple(rows))
    monkeypatch.setattr(StudyFolder, "open", lambda path: stored)
    index = write_site(tmp_path / "study", tmp_path / "site")
    unit = next(iter(atlas_of(stored.recipe, rows).shared["wiki-lstm"]))
    shared = index.parent / unit_address("wiki-lstm", unit)
    former = shared.with_name("wiki-lstm-hidden.1-9999.html")
    shared.rename(former)
    (index.parent / "CNAME").write_text("atlas.example")
    with locked_elsewhere(tmp_path / "study"), pytest.raises(PivotalError, match="is working on the study"):
        write_site(tmp_path / "study", index.parent)
    with locked_elsewhere(index.parent), pytest.raises(PivotalError, match="is working on the site"):
        write_site(tmp_path / "another study", index.parent)
    assert former.exists()
    write_site(tmp_path / "study", index.parent)
    assert shared.is_file() and not former.exists() and (index.parent / "CNAME").is_file()


@pytest.mark.parametrize("theirs", ["notes.txt", "index.html"])
def test_a_folder_with_other_files_stays_as_it_is(tmp_path, theirs):
    (tmp_path / "units").mkdir()
    for path in (tmp_path / theirs, tmp_path / "units" / "mine.html"):
        path.write_text("mine")
    with pytest.raises(PivotalError, match=rf"holds other files \({theirs}\)"):
        write_site(tmp_path.parent / "study", tmp_path)
    assert (tmp_path / "units" / "mine.html").is_file() and not (tmp_path / "phenomena").exists()


def test_every_name_has_a_file_of_its_own():
    """Names in other scripts, and names that differ only in signs or capitals, which some disks do not tell apart."""
    names = ["格標記", "量詞", "größe", "gr-e", "+", "a b", "a-b", "A-B", "a--b"]
    names += ["npi_present_1", "tinyllama-1.1b"]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names) and all(part.isascii() and part == part.lower() for part in slugs)
    assert slugs[-2:] == names[-2:]
    assert len({slug("a-b", "c"), slug("a", "b-c"), slug("a-b-c"), slug("a b", "c")}) == 4


def test_phenomena_have_their_labels_or_the_names_of_their_files():
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


def test_a_phenomenon_with_a_label_is_one_phenomenon(stored):
    """The recipe labels the paradigms of BLiMP; cross scores name them as their files do."""
    atlas = atlas_of(stored.recipe, stored.rows)
    tested = {score.phenomenon for entry in atlas.entries for score in entry.cross}
    assert "BLiMP anaphor_gender_agreement" in tested and tested <= set(atlas.phenomena)
