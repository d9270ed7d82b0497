"""A page for each unit, inside the report."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder
from pivotal.questions.question import Question
from pivotal.records.basis import BasisCard, StoredBasis
from pivotal.records.intervention import Intervention
from pivotal.records.serial import replace
from pivotal.report.page import write_report
from pivotal.report.unit_pages import histogram_figure, unit_sections
from pivotal.report.units import anchor, chosen_table, note
from pivotal.searches.learned import LearnedMask


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    search = LearnedMask(max_units=3.0, updates=40, refit=10)
    question = Question(model="planted", phenomenon="planted", test=81)
    out = str(tmp_path_factory.mktemp("units") / "run")
    return find(question, search, runs=2, controls=0, out=out).folder


def test_every_unit_of_the_chosen_run_has_a_page_and_a_link(
    folder: RunFolder, check_page: Callable[[str], None]
) -> None:
    text = write_report(folder).read_text(encoding="utf-8")
    check_page(text)
    units = folder.summary().best_run.unit_labels
    assert re.findall(r"<section class=unit-page id=(\S+) ", text) == [anchor(unit) for unit in units]
    for unit in units:
        assert f'<a href="#{anchor(unit)}">{unit}</a>' in text
    inside = set(re.findall(r'href="#([^"]+)"', text))
    assert inside <= set(re.findall(r"\bid=\"?([\w.-]+)", text)), "no link leads nowhere"


def test_a_page_shows_what_is_stored(folder: RunFolder) -> None:
    profiles, summary = folder.unit_profiles(), folder.summary()
    assert profiles is not None
    written = profiles.profiles[0].written
    assert written is not None
    first = unit_sections(folder, summary, profiles)[0]
    assert written["singular"].up[0].word in first.content
    assert f"Words asked about: “{written['singular'].asked[0].word}” " in first.content
    assert "Previous" not in first.content and "Next: " in first.content
    assert "This model does not know most of the words of the bundled text." in first.content
    none, unknown = (
        replace(profiles, profiles=(replace(profiles.profiles[0], written=value),)) for value in ({}, None)
    )
    assert "no direct path to the output" in unit_sections(folder, summary, none)[0].content
    assert "is not known for this model" in unit_sections(folder, summary, unknown)[0].content


def test_the_histogram_has_a_bar_for_each_bin_and_a_line_for_each_value(folder: RunFolder) -> None:
    profiles = folder.unit_profiles()
    assert profiles is not None
    one = profiles.profiles[0]
    figure = histogram_figure(one)
    filled = sum(count > 0 for counts in one.natural.counts.values() for count in counts)
    assert figure.svg.count(" states that prefer ") == filled
    assert len(re.findall(r"Set to [+−]\d", figure.svg)) == 2
    assert len(figure.data.rows) == 40
    alone = histogram_figure(replace(one, values={"singular": 1.0, "plural": None}))
    assert alone.alternative.endswith("set to: +1.00 for singular.")


def test_other_interventions_with_the_same_unit_are_named(folder: RunFolder, tmp_path: Path) -> None:
    here = RunFolder.open(shutil.copytree(folder.path, tmp_path / "here"))
    profiles = here.unit_profiles()
    assert profiles is not None
    one = replace(profiles, profiles=profiles.profiles[:1])

    def shown() -> str:
        return unit_sections(here, here.summary(), one)[0].content

    assert "there, run 0" not in shown()
    there = Path(shutil.copytree(folder.path, tmp_path / "there"))
    (tmp_path / "damaged" / "interventions" / "0").mkdir(parents=True)
    (tmp_path / "damaged" / "run.json").write_text("{}")
    (tmp_path / "damaged" / "interventions" / "0" / "card.json").write_text("{")
    assert "there, run 0" in shown() and "damaged" not in shown()
    array = np.eye(64, dtype=np.float32)
    arrays = {"encoder": array, "decoder": array, "bias": array[0]}
    card = BasisCard(kind="pca", coordinates=64, fingerprint="fitted there")
    for run in there.glob("interventions/*"):
        found = Intervention.load(run)
        dataclasses.replace(found, bases={"hidden.0": StoredBasis(card, arrays)}).save(run)
    assert "there, run 0" not in shown(), "a unit of another basis of the site"
    for path in there.glob("interventions/*/card.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"bases": {}}))
    assert "there, run 0" in shown()
    for path in there.glob("interventions/*/card.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"model_fingerprint": "another"}))
    assert "there, run 0" not in shown()


def test_columns_and_notes_say_what_is_there_and_no_more(folder: RunFolder) -> None:
    summary = folder.summary()
    assert chosen_table(summary).columns == (
        *("unit", "site", "→ singular", "→ plural", "natural range", "without it", "found by runs"),
    )
    assert "attention head" not in note(summary)
    bare = replace(
        summary, runs=summary.runs[summary.best :][:1], best=0, median=0, evidence=None, verdict=None
    )
    assert chosen_table(bare).columns == ("unit", "site", "→ singular", "→ plural", "without it")
    assert "natural range" not in note(bare)
