"""The default search on the planted model, where the answer is known."""

from dataclasses import replace

import pytest
import torch
from tests.planted import PAIRS, planted_problem, set_to
from tests.processes import code

from pivotal import Intervention, PivotalError, Problem
from pivotal.models.planted import plant
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.phenomena.planted import LEXICON
from pivotal.searches import Exchange
from pivotal.searches.base import interventions_of
from pivotal.units import Unit

SEARCH = Exchange(max_units=3, batch=32)


def decoys_of(problem: Problem, units: tuple[Unit, ...]) -> Intervention:
    """An intervention on units that decide nothing, outside their natural ranges."""
    return set_to(problem, units, torch.full((1, 2, problem.space.coordinates), 9.0))


def test_swaps_replace_units_that_decide_nothing(tmp_path):
    problem = planted_problem("every")
    decoys_of(problem, plant().decoys).save(tmp_path / "start")
    search = replace(SEARCH, start=str(tmp_path / "start"))
    assert search.solve(problem).best.units == plant().units
    same = replace(search, rounds=0, refit=0, prune=-1.0).solve(problem).best
    assert same.units == plant().decoys and same.values.max() < 1
    assert len(replace(search, max_units=2).solve(problem).best) == 2
    with pytest.raises(PivotalError, match="same question"):
        search.solve(planted_problem("single"))


def crossed() -> RecurrentLM:
    """A model of two layers, in which one unit of the second decides the verbs of classes 0 and 1, and one unit of the
    first those of class 2. In the other layer, eight units share each of these tasks."""
    words, one, eight, others = plant().model.words, [0], list(range(1, 9)), [9, 10, 11]
    encoder, decoder = torch.zeros(2, len(words), 12)
    encoder[:, others] = torch.randn(len(words), 3, generator=torch.Generator().manual_seed(0))
    latch, upwards = (
        torch.diag(torch.tensor([1.6] * 9 + [0.0] * 3)),
        torch.diag(torch.tensor([0.0] * 9 + [1.0] * 3)),
    )
    upwards[one, eight], upwards[eight, one] = 0.25, 1.5
    for part, first, second, size in zip(
        LEXICON, (eight, eight, one), (one, one, eight), (2, 2, 0.25), strict=True
    ):
        for weight, units, forms in ((encoder, first, part["noun"]), (decoder, second, part["verb"])):
            for singular, plural in forms:
                weight[words.index(singular)][units] = 1.5 if weight is encoder else size
                weight[words.index(plural)][units] = -1.5 if weight is encoder else -size
    weights = {
        "encoder.weight": encoder,
        "decoder.weight": decoder,
        "decoder.bias": torch.zeros(len(words)),
        "rnn.weight_ih_l0": torch.eye(12),
        "rnn.weight_hh_l0": latch,
        "rnn.weight_ih_l1": upwards,
        "rnn.weight_hh_l1": torch.zeros(12, 12),
    }
    return RecurrentLM("crossed", cell="rnn", words=words, weights=weights)


def test_a_search_in_later_sites_returns_to_earlier_ones(tmp_path):
    """The start is in the second layer, and so is the unit that does most."""
    problem = Problem(crossed(), PAIRS.sample(200), steps="every")
    idle = (Unit("hidden.1", 10), Unit("hidden.1", 11))
    set_to(problem, idle, torch.zeros(1, 2, 24)).save(tmp_path / "start")
    found = replace(SEARCH, max_units=2, start=str(tmp_path / "start")).solve(problem).best
    assert found.units == (Unit("hidden.0", 0), Unit("hidden.1", 0))
    assert problem.run_intervention(found).flips() == 1


def test_a_swap_keeps_the_directions_in_which_a_unit_acts(tmp_path):
    problem = planted_problem("every")
    mask = torch.zeros(1, 2, 64, dtype=torch.bool)
    mask[0, 0, problem.space.flat(plant().decoys[0])] = True
    interventions_of(problem, mask, torch.zeros(1, 2, 64))[0].save(tmp_path / "start")
    (found,) = replace(SEARCH, start=str(tmp_path / "start")).solve(problem).interventions
    assert found.units[0] in plant().units and found.active.tolist() == [[True], [False]]


def test_units_that_add_nothing_are_removed():
    found = replace(SEARCH, max_units=5).solve(planted_problem("every")).best
    assert found.units == plant().units


def test_a_set_of_all_units_has_no_swaps():
    problem = Problem(plant().model, PAIRS.sample(60), steps="every", sites="hidden.0")
    everyone = replace(SEARCH, max_units=len(problem.space), prune=-1.0).solve(problem).best
    assert len(everyone) == len(problem.space)


def test_only_the_drawn_pairs_differ_between_runs():
    """With all training pairs in every sample there is nothing to draw, so that all runs are the same."""
    search = replace(SEARCH, prefixes=0, sample=0, batch=0)
    one, other = search.solve(planted_problem("every"), runs=2, seed=3).interventions
    assert one == other


@pytest.mark.slow
def test_a_run_imports_neither_the_compiler_of_torch_nor_charts(tmp_path):
    """They take more than a second. torch's own optimisers import its compiler."""
    find = "import sys, pivotal; pivotal.find('planted', 'planted', controls=2, out=sys.argv[1])"
    code(f"{find}; assert not {{'torch._dynamo', 'altair'}} & set(sys.modules)", tmp_path / "run")
