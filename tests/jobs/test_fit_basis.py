"""Bases fitted to text, written, read back and searched."""

from pathlib import Path

import pytest
from tests.processes import locked_elsewhere

from pivotal import PivotalError, Problem
from pivotal.jobs.fit_basis import fit_basis, one_site, text_states
from pivotal.models.bases.files import read_folder
from pivotal.models.planted import plant
from pivotal.questions.phenomena.planted import PlantedAgreement


@pytest.fixture(scope="module")
def model():
    return plant(hidden=24).model


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(pair.prefix + " near often" for pair in PlantedAgreement().pairs()[:80]))
    return path


def test_a_fitted_basis_is_searched_by_its_folder(model, corpus, tmp_path):
    out = tmp_path / "pca"
    made = fit_basis(model, "hidden", corpus=corpus, out=out)
    assert made.basis.coordinates == 24 and made.site == "hidden.0"
    problem = Problem(model, PlantedAgreement().pairs()[:20], sites=f"hidden.0@pca:{out}")
    assert len(problem.space) == made.basis.coordinates
    states = text_states(model, one_site(model, "hidden.0"), corpus.read_text().splitlines(), 500)
    z = problem.model.bases["hidden.0@pca"].encode(states)
    assert (z.var(0).diff() < 1e-4).all(), "by falling variance"
    with pytest.raises(PivotalError, match="or use --overwrite"):
        fit_basis(model, "hidden.0", corpus=corpus, out=out)
    fit_basis(model, "hidden.0", corpus=corpus, out=out, overwrite=True)
    record = (out / "basis.json").read_text()
    read_folder(str(out), "hidden.0")
    fit_basis(model, "hidden.0", corpus=corpus, out=out, tokens=300, overwrite=True)
    (out / "basis.json").write_text(record)  # as another process reads it that began before
    with pytest.raises(PivotalError, match=r"does not belong to the basis\.json beside it"):
        read_folder(str(out), "hidden.0")


def test_what_cannot_be_fitted_is_said(model, corpus, tmp_path):
    with pytest.raises(PivotalError, match="does not know most words of the text"):
        fit_basis(model, "hidden.0", out=tmp_path / "a")
    with pytest.raises(PivotalError, match="must match a site"):
        fit_basis(model, "resid.3", corpus=corpus, out=tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("keep")
    with pytest.raises(PivotalError, match=r"holds .*mine\.txt"):
        fit_basis(model, "hidden.0", corpus=corpus, out=tmp_path / "b", overwrite=True)


def test_a_basis_stays_until_its_replacement_is_fitted(model, corpus, tmp_path):
    fit_basis(model, "hidden.0", corpus=corpus, out=tmp_path / "basis")
    before = {path.name: path.read_bytes() for path in (tmp_path / "basis").iterdir()}
    with pytest.raises(PivotalError, match="there is no such file"):
        fit_basis(model, "hidden.0", corpus="missing.txt", out=tmp_path / "basis", overwrite=True)
    with (
        locked_elsewhere(tmp_path / "basis"),
        pytest.raises(PivotalError, match=r"Process \d+ is working on the basis in"),
    ):
        fit_basis(model, "hidden.0", corpus=corpus, out=tmp_path / "basis", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "basis").iterdir()} == before
