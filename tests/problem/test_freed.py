"""A model is freed when the last reference to it is gone, not when Python happens to look for cycles.

Python looks for them rarely in a process with many objects, and a few models of gigabytes would then fill the memory.
"""

import gc
import weakref
from collections.abc import Iterator

import pytest
from tests.models.tiny import PREFIXES, random_model, tokenizer

from pivotal import PivotalError, Problem, load_phenomenon
from pivotal.models import LanguageModel, TransformersLM
from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.problem.objective import Terms


@pytest.fixture
def without_cycles() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_cycles")
def test_a_problem_does_not_keep_its_model():
    model: LanguageModel = plant().model
    there = weakref.ref(model)
    problem = Problem(model, load_phenomenon("planted").sample(40, seed=0), values="natural")
    sample = problem.sample(4)
    assert sample.bounds()[0].equal(problem.bounds()[0])
    assert sample.whole is sample and sample.clean_accuracy is not None
    for part in (problem, sample, *problem.batches(8)):
        assert len(Terms(kl_weight=0.1).weights(part)) == 1
        assert part.preferences.change(part.tensors.clean[:, None]).shape
    del problem, sample, part, model
    assert there() is None


@pytest.mark.usefixtures("without_cycles")
def test_a_question_that_cannot_be_asked_does_not_keep_the_model():
    model: LanguageModel = plant().model
    there = weakref.ref(model)
    with pytest.raises(PivotalError, match="cannot score"):
        Problem(model, load_phenomenon("gender-bias").sample(20, seed=0))
    del model
    assert there() is None


@pytest.mark.usefixtures("without_cycles")
def test_a_transformer_does_not_keep_itself():
    lm = TransformersLM("tiny", random_model("llama"), tokenizer())
    there = weakref.ref(lm)
    tree = PrefixTree.build([lm.encode(text).ids for text in PREFIXES])
    states = lm.states(lm.prepare(tree))
    assert len(states) == tree.n_live
    del lm
    assert there() is None
