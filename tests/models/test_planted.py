"""The planted model keeps what it promises: these units, all of them, and no others decide, in any precision."""

import pytest
import torch
from tests.planted import BOTH_STEPS, mask_of, pushed
from torch import Tensor

from pivotal import PivotalError, Problem, load_model, load_phenomenon
from pivotal.models.planted import Planted, plant
from pivotal.testing import check_model
from pivotal.units import Unit


def flips(problem: Problem, sets: list[tuple[Unit, ...]]) -> Tensor:
    """Which preferences flip when the units of each set are set to +1 for singular and -1 for plural."""
    _, values = pushed(problem, sets[0], size=1.0)
    return problem.run(mask_of(problem, *sets), values.expand(len(sets), -1, -1)).flipped()


@pytest.mark.parametrize("seed", [0, 1])
@BOTH_STEPS
def test_the_planted_set_is_sufficient_and_each_unit_necessary_and_no_others_do_anything(seed, steps):
    planted = plant(seed)
    problem = Problem(planted.model, load_phenomenon("planted"), steps=steps)
    assert len(planted.units) == 3 and problem.clean_accuracy == 1.0
    less = [tuple(u for u in planted.units if u != unit) for unit in planted.units]
    every, *without = flips(problem, [planted.units, *less])
    assert every.all()
    groups = [pair.group for pair in problem.pairs]
    for flipped in without:
        # A class goes unflipped altogether, and it is a different class for each unit.
        assert flipped.float().mean() == pytest.approx(2 / 3)
        assert len({g for g, f in zip(groups, flipped, strict=True) if not f}) == 1
    assert (~torch.stack(without)).sum(0).eq(1).all()
    others = tuple(unit for unit in problem.space if unit not in planted.units)
    assert not flips(problem, [planted.decoys, others]).any()


def test_the_seed_decides():
    models: list[Planted] = [plant(seed) for seed in (0, 0, 1)]
    assert models[0].units == models[1].units != models[2].units
    assert models[0].model.fingerprint() == models[1].model.fingerprint() != models[2].model.fingerprint()
    assert not set(models[0].units) & set(models[0].decoys)


def test_it_is_loaded_by_name_with_the_settings_given():
    assert load_model("planted").fingerprint() == plant().model.fingerprint()
    assert load_model("planted:7").name == "planted:7"
    assert load_model("planted", priming="The").fingerprint() != plant().model.fingerprint()
    assert load_model("planted", device="cpu").device == torch.device("cpu")


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ("9" * 17, r"from 0 to 2\^53, but SEED in planted:SEED is 99999999999999999\."),
        ("9" * 100, r"from 0 to 2\^53"),
        ("²", "A model is a name"),
    ],
)
def test_impossible_seeds_are_refused(seed, said):
    with pytest.raises(PivotalError, match=said):
        load_model(f"planted:{seed}")


def test_float64_keeps_the_contract_a_million_times_more_closely():
    model = load_model("planted", dtype="float64", device="cpu")
    noun, filler = model.word(10), model.word(3)
    check_model(model, [f"The {noun} {filler}", "The", f"The {filler} {noun}"], tolerance=1e-10)
    assert model.next_logits([(2, 10)]).dtype == torch.float64


def test_the_dtype_is_not_part_of_the_fingerprint():
    """An intervention may be applied in another precision than the one in which it was found."""
    single, double = (
        load_model("planted", dtype=dtype, device="cpu") for dtype in ("float32", torch.float64)
    )
    assert single.fingerprint() == double.fingerprint()
    assert torch.allclose(single.next_logits([(2, 10)]).double(), double.next_logits([(2, 10)]), atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_keep_the_contract_on_a_gpu(dtype):
    model = load_model("planted", dtype=dtype, device="cuda")
    check_model(model, [f"The {model.word(10)}", "The", f"The {model.word(12)}"], tolerance=0.05)
    assert model.next_logits([(2, 10)]).dtype == torch.float32


def test_an_intervention_by_hand_sets_units_by_name():
    """The planted units, set by their names, flip the preference, and units that nothing reads do not."""
    model, units = load_model("planted"), plant(seed=0).units

    def plural_is_preferred(names: list[str]) -> bool:
        by_hand = model.intervention({name: (1, -1) for name in names}, ("singular", "plural"))
        words = dict(model.intervened(by_hand, "plural").next_words("The noun0a", k=model.vocabulary_size))
        return words["verb0a"] > words["verb0as"]

    assert plural_is_preferred([str(unit) for unit in units])
    assert not plural_is_preferred([str(unit) for unit in model.unit_space() if unit not in units][:3])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden.0:17": 1.0}, "takes two values, such as"),
        ({"hidden.0:64": (1, -1)}, "has units 0 to 63; there is no unit 64"),
        ({"hidden0:17": (1, -1)}, "Did you mean 'hidden.0'"),
        ({}, "at least one unit"),
    ],
)
def test_an_intervention_by_hand_must_be_possible(values, message):
    with pytest.raises(PivotalError, match=message):
        load_model("planted").intervention(values, ("singular", "plural"))
