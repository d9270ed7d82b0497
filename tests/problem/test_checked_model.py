"""A model that was loaded before must be the one that the question states."""

import pytest

from pivotal import PivotalError, Question
from pivotal.evidence.check import check
from pivotal.jobs.find import find
from pivotal.models.planted import plant
from pivotal.problem.prepare import checked_model, model_of
from pivotal.searches import LearnedMask

PLANTED = plant().model


@pytest.mark.parametrize(
    ("model", "how", "said"),
    [
        ("wiki-lstm", {}, "names the model wiki-lstm, but .* given is planted. Give that"),
        ("planted", {"priming": "The"}, r"with another priming. Load it with priming='The'\."),
        ("planted", {"dtype": "float64"}, r"loaded in float32, .* Load it with dtype='float64'\."),
    ],
)
def test_another_model_is_refused_before_anything_is_written(model, how, said, tmp_path):
    question = Question(model, "planted", **how)
    with pytest.raises(PivotalError, match=said):
        find(question, LearnedMask(updates=2), model=PLANTED, out=str(tmp_path / "run"))
    with pytest.raises(PivotalError, match=said):
        check(question, PLANTED)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "question",
    [
        Question("planted", priming="The", dtype="float64"),
        Question("planted:0", priming="<eos>"),
        Question("planted:2"),
    ],
)
def test_the_model_of_the_question_is_accepted(question):
    model = model_of(question)
    assert checked_model(question, model) is model


@pytest.mark.parametrize("name", ["mine", "/models/planted", "hf:some/planted"])
def test_a_name_of_ones_own_may_stand_for_any_model(name):
    assert checked_model(Question(name), PLANTED) is PLANTED
