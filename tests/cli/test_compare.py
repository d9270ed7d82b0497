"""`pivotal compare`: a study over searches and numbers of units."""

import json

import pytest
from tests.cli.conftest import COMPARE

from pivotal import PivotalError
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.comparison import comparison, sizes_of
from pivotal.searches import LearnedMask

QUESTION = {"model": "planted", "phenomenon": "planted"}


def test_tables_and_figures_along_the_number_of_units(pivotal, tmp_path):
    small = (*COMPARE, "--max-units", "3,1", "--runs", "1", "--out", tmp_path / "c")
    done = pivotal(*small)
    assert done.code == 0, done.err
    tables = ("Flipped %, by max_units", "KL, by max_units", "Seconds (million node evaluations)")
    assert all(part in done.out for part in (*tables, "learned@paper"))
    page = (tmp_path / "c" / "report.html").read_text(encoding="utf-8")
    assert "Flipped preferences against max units" in page
    again = pivotal(*small, "--json", "-q")
    rows = again.json["rows"]
    assert again.err == "" and [(row["cell"]["search"], row["options"]["max_units"]) for row in rows] == [
        (search, units) for search in ("learned", "learned@paper") for units in (1, 3)
    ]
    record = json.loads((tmp_path / "c" / "study.json").read_text())
    assert "pivotal compare planted planted" in record["command"]


def test_a_model_that_cannot_be_loaded_is_refused_once(pivotal, tmp_path):
    asked = ("compare", "plantd", *COMPARE[2:], "--out", tmp_path / "c")
    pivotal(*asked).refused("not 'plantd'", "Did you mean 'planted'?")
    assert not (tmp_path / "c").exists()


def test_the_cells_have_the_settings_of_their_search():
    searches, question = ["learned", "learned@paper", "greedy"], {**QUESTION, "max_kl": 0.5}
    cells = cells_of(comparison(searches, (1, 3), question, options=["learned.updates=40"]))
    assert [cell.name for cell in cells[:3]] == ["learned, 1", "learned, 3", "learned@paper, 1"]
    assert [cell.options["max_units"] for cell in cells] == [1, 3] * 3
    assert cells[0].search == LearnedMask(max_units=1, updates=40, max_kl=0.5)
    assert {cell.options["max_kl"] for cell in cells} == {0.5}
    assert [cell.question.values for cell in cells[::2]] == ["natural", "unbounded", "natural"]
    stated = comparison(["learned@paper"], (1,), {**QUESTION, "values": "natural"})
    assert cells_of(stated)[0].question.values == "natural"


@pytest.mark.parametrize(
    ("searches", "options", "said"),
    [
        (["lerned"], [], "Did you mean 'learned'?"),
        (["learned", "learned"], [], "are the same"),
        (["learned@papr"], [], "Did you mean 'paper'?"),
        ([""], [], "There are no searches named ''"),
        (["learned"], ["greedy.beam=2"], "SEARCH.NAME=VALUE"),
        (["learned"], ["learned.max_units=2"], "'max_units' is also in another axis"),
        (["learned"], ["learned.beam=2"], "nor an option of the search 'learned'"),
    ],
)  # fmt: skip
def test_bad_searches(searches, options, said):
    with pytest.raises(PivotalError) as error:
        cells_of(comparison(searches, (1,), QUESTION, options=options))
    assert said in str(error.value)


def test_numbers_of_units():
    assert sizes_of("1..3, 5,2") == (1, 2, 3, 5)
    for text in ("1-5", "", "0", "1..2000", "9" * 5000):
        with pytest.raises(PivotalError, match="Numbers of units are"):
            sizes_of(text)
