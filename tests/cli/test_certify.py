"""`pivotal certify`: words on the screen, certificate.json in the folder, a section in the report."""

import json
import shutil

import pytest
from tests.stored_json import with_settings

from pivotal import Intervention, RunFolder

QUICK = ("--candidates", "8", "--sample", "16", "--finalists", "3")
SMALLEST = ("--candidates", "1", "--sample", "4", "--finalists", "1")
"""For tests of what is written where. What the certificate says does not matter."""


@pytest.mark.slow
def test_a_run_is_certified_and_its_report_says_so(pivotal, own_run):
    before = (own_run / "report.html").read_text() if (own_run / "report.html").is_file() else ""
    done = pivotal("certify", own_run, *QUICK)
    assert done.code == 0 and "The certificate holds for these 3 units" in done.out
    assert "Single-unit ablation" in done.out and "found by ablation" in done.out
    written = json.loads((own_run / "certificate.json").read_text())
    assert written["holds"] is True and len(written["ablation"]) == 3
    page = (own_run / "report.html").read_text()
    shown = pivotal("show", own_run).out
    assert "The certificate holds for these 3 units" in page and "The certificate holds" in shown
    assert "tests whether each unit is needed" in before and "tests whether each unit" not in page + shown
    assert "The certificate holds" not in before


def test_a_certificate_about_other_units_is_left_out_by_the_report_and_by_pull(pivotal, own_run, tmp_path):
    theirs = own_run / "interventions" / "0"
    assert pivotal("certify", theirs, *SMALLEST, "-q").code == 0
    assert RunFolder(own_run).certificate() is not None
    shutil.copy(own_run / "certificate.json", theirs)
    assert pivotal("pull", theirs, "--out", tmp_path / "same").code == 0
    Intervention.load(theirs).without(0).save(theirs)
    assert RunFolder(own_run).certificate() is None, "which report.html would show"
    assert pivotal("pull", theirs, "--out", tmp_path / "others").code == 0
    kept = [(tmp_path / name / "certificate.json").is_file() for name in ("same", "others")]
    assert kept == [True, False]


@pytest.mark.slow
def test_an_intervention_by_itself_is_certified_on_all_pairs(pivotal, alone):
    done = pivotal("certify", alone, *SMALLEST, "--json")
    assert done.code == 0 and done.json["found"]["flipped_test"] is None
    assert not (alone / "certificate.json").exists()


def test_bad_input(pivotal, own_run, tmp_path):
    assert pivotal("certify", tmp_path / "nowhere").code == 2
    done = pivotal("certify", own_run, "--epsilon", "2")
    assert done.code == 2 and "epsilon" in done.err
    pivotal("certify", own_run, "--exact", "--candidates", "5").refused("not --candidates 5", "Leave one")
    with_settings(own_run, held_out="4")
    pivotal("certify", own_run, *SMALLEST).refused("(held out is 4 there", "Restore", "Or run the search")
    assert not (own_run / "certificate.json").exists()
