"""A run in another basis: its folder, its certificate, and its intervention on its own."""

import json
import shutil

import numpy as np
import pytest

from pivotal import Finding, PivotalError, Question
from pivotal.cli.run_argument import Saved
from pivotal.cli.shared_options import RunOptions
from pivotal.jobs.certify import certify_run
from pivotal.jobs.find import find
from pivotal.problem.prepare import problem_of
from pivotal.records.certificate import Effort
from pivotal.searches import Greedy

QUESTION = Question(
    model="planted", phenomenon="planted", sites="hidden.0@probe", test=0.7, values="unbounded"
)
SITE = "hidden.0@probe"
SEARCH = Greedy(max_units=1, candidates=8, sample=24, polish=10, refit=20)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Finding:
    out = tmp_path_factory.mktemp("runs") / "probe"
    return find(QUESTION, SEARCH, controls=2, evidence="quick", out=str(out))


def test_the_folder_holds_the_whole_basis_and_the_intervention_its_part(run):
    whole = run.folder.bases()[SITE]
    found = run.folder.intervention()
    assert whole.arrays["encoder"].shape == (64, 64)
    assert found.bases[SITE].card == whole.card
    column = whole.arrays["encoder"][:, found.units[0].index]
    assert np.array_equal(found.bases[SITE].arrays["encoder"][:, 0], column)
    card = json.loads((run.folder.path / "interventions/0/card.json").read_text())
    assert card["bases"][SITE]["kind"] == "probe"


def test_a_finished_run_is_not_fitted_again(run, monkeypatch):
    monkeypatch.setattr("pivotal.problem.bases.fitted.probe_of", lambda *_: pytest.fail("fitted again"))
    assert find(QUESTION, SEARCH, controls=2, evidence="quick", out=str(run.folder.path)).already


@pytest.mark.slow
def test_the_certificate_compares_all_coordinates(run):
    effort = Effort(candidates=3, sample=20, finalists=1, pairs=0)
    made = certify_run(run.folder.intervention(), QUESTION, run.folder, effort=effort)
    assert made.all_units == 64


def test_the_intervention_alone_is_enough_to_apply_it(run, tmp_path):
    shutil.copytree(run.folder.path / "interventions" / "0", tmp_path / "alone")
    saved = Saved.read(str(tmp_path / "alone"), RunOptions())
    question, model = saved.question, saved.lm
    problem = problem_of(question, model, question.load_pairs().sample(60))
    assert problem.run_intervention(saved.intervention).flipped().float().mean() > 0.5
    with pytest.raises(PivotalError, match="carries only the part"):
        certify_run(saved.intervention, question, None)
    (tmp_path / "alone" / "bases.safetensors").unlink()
    with pytest.raises(PivotalError, match=r"bases\.safetensors is missing\. Copy the whole folder"):
        Saved.read(str(tmp_path / "alone"), RunOptions())


def test_overwriting_a_run_removes_its_bases(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run.folder.path, copy)
    plain = Question(model="planted", phenomenon="planted", test=0.7)
    find(plain, SEARCH, controls=0, evidence="none", out=str(copy), overwrite=True)
    assert not list(copy.rglob("bases.*"))
