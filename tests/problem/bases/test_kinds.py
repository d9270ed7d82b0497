"""Every kind of basis on the planted model, and what its coordinates promise."""

from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.models.bases.making import states

from pivotal import Intervention, PivotalError, Problem, evaluate, load_model, load_phenomenon, trace
from pivotal.evidence.controls import search_permuted
from pivotal.models.bases.basis import completed
from pivotal.models.planted import plant
from pivotal.problem.bases import BASES, given_bases
from pivotal.problem.bases.fitted import difference_of_means, probe_of, training_states
from pivotal.problem.batch import Outcome
from pivotal.problem.objective import Terms
from pivotal.questions.phenomena.planted import PlantedAgreement
from pivotal.records.run import Progress
from pivotal.searches import Greedy
from pivotal.testing import check_basis

PREFIXES = ["The noun0a near", "The noun0a near often", "The noun0as", "The noun1b near quite", "The"]

SAE = {"W_enc": (24, 40), "W_dec": (40, 24)}


@pytest.fixture(scope="module")
def model():
    return plant(hidden=24).model


@pytest.fixture(scope="module")
def pairs():
    return PlantedAgreement().pairs().sample(80)


@pytest.fixture(scope="module")
def asked(model, pairs, tmp_path_factory):
    """The problem in a kind of basis."""
    folder = tmp_path_factory.mktemp("bases")
    save_file({"rotation": torch.linalg.qr(states(24, 24)).Q.contiguous()}, folder / "r.safetensors")
    noise = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(*shape, generator=noise) for name, shape in SAE.items()}
    save_file(
        {**weights, "b_enc": torch.zeros(40), "b_dec": torch.zeros(24)}, folder / "sae_weights.safetensors"
    )
    (folder / "cfg.json").write_text('{"architecture": "standard"}')
    arguments = {"rotation": f":{folder}/r.safetensors", "sae": f":{folder}"}

    @cache
    def ask(name: str) -> Problem:
        return Problem(model, pairs, sites=f"hidden.0@{name}{arguments.get(name, '')}")

    return ask


@pytest.mark.parametrize("name", BASES.names())
def test_an_empty_mask_changes_nothing_in_any_basis(name, asked):
    check_basis(asked(name).model, PREFIXES)


@pytest.mark.parametrize("name", BASES.names())
def test_a_basis_in_a_file_is_given_and_a_fitted_one_is_made(name, asked, model):
    problem = asked(name)
    given = given_bases(model, problem.sites)
    if name in ("rotation", "sae"):
        assert given[f"hidden.0@{name}"].fingerprint == problem.model.bases[f"hidden.0@{name}"].fingerprint
    else:
        assert given == {}
    assert list(given_bases(problem.model, problem.sites)) == [f"hidden.0@{name}"], "the model has it already"


def test_the_probe_tells_labels_apart(model, asked):
    noise = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 300, 6, generator=noise)
    second[:, 2] += 4.0
    direction = probe_of([first, second])
    assert torch.allclose(direction.norm(), torch.tensor(1.0), atol=1e-5)
    assert direction[2] > 0.95


@pytest.mark.parametrize("name", ["das", "probe"])
@pytest.mark.parametrize("only", [0, 1])
def test_directions_need_states_of_both_labels(name, only, model, pairs, asked):
    one = pairs.take(np.flatnonzero(asked("pca").direction == only).tolist())
    with pytest.raises(PivotalError, match="needs training pairs of both"):
        Problem(model, one, sites=f"hidden.0@{name}")


@pytest.mark.parametrize("name", ["das", "probe", "pca"])
def test_a_fit_does_not_depend_on_the_global_generator(name, model, pairs, asked):
    torch.manual_seed(1)
    again = Problem(model, pairs, sites=f"hidden.0@{name}").model.bases[f"hidden.0@{name}"]
    assert again.fingerprint == asked(name).model.bases[f"hidden.0@{name}"].fingerprint


@pytest.mark.slow
def test_one_learned_direction_flips_what_takes_three_units(model, pairs, asked):
    """Planted unit i decides the verbs of class i, so that no set of two units flips everything."""
    rotated = asked("das").with_values("unbounded")
    found = Greedy(max_units=1).solve(rotated, runs=1, seed=0)
    assert [str(unit) for unit in found.best.units] == ["hidden.0@das:0"]
    share = rotated.run_intervention(found.best).flipped().float().mean()
    units = Problem(model, pairs, sites="hidden.0", values="unbounded")
    two = Greedy(max_units=2).solve(units, runs=1, seed=0)
    assert share > 0.95 > units.run_intervention(two.best).flipped().float().mean()


@pytest.mark.slow
def test_an_intervention_carries_its_basis(model, asked, tmp_path):
    problem = asked("sae")
    found = Greedy(max_units=2).solve(problem, runs=1, seed=0).best
    again = Intervention.load(found.save(tmp_path / "found"))
    assert again == found and again.bases["hidden.0@sae"].arrays["encoder"].shape == (24, len(found.units))
    pair = problem.pairs[0]
    label = found.directions[0]
    expected = problem.model.intervened(found, label).next_words(pair.prefix)
    assert model.intervened(again, label).next_words(pair.prefix) == expected
    told = model.intervened(again, label).generate(pair.prefix, words=3, temperature=0.0)
    assert told == problem.model.intervened(found, label).generate(pair.prefix, words=3, temperature=0.0)
    assert trace(again, model, pair).edited == trace(found, problem.model, pair).edited
    carrying = Problem(model.in_bases(again.bases), problem.pairs, sites="hidden.0@sae")
    score = evaluate(again, carrying)
    assert score.flip_accuracy == evaluate(found, problem).flip_accuracy
    with pytest.raises(PivotalError, match="carries only the part of its basis"):
        Greedy(max_units=2).solve(carrying, runs=1, seed=0)


@pytest.mark.slow
def test_units_of_another_basis_are_refused(model, pairs, asked):
    found = Greedy(max_units=1).solve(asked("pca"), runs=1, seed=0).best
    other = Problem(model, pairs[:20], sites="hidden.0@pca")
    with pytest.raises(PivotalError, match=r"were found in the basis"):
        other.run_intervention(found)


@pytest.mark.slow
def test_controls_fit_the_basis_again_but_keep_one_of_your_own(asked):
    problem, seen = asked("probe"), []

    class Watching(Greedy):
        name = "watching"

        def solve(self, problem, **settings):
            seen.append(problem.model.bases["hidden.0@probe"].fingerprint)
            return super().solve(problem, **settings)

    search_permuted(Watching(max_units=1), problem, problem, seed=0)
    assert len({problem.model.bases["hidden.0@probe"].fingerprint, *seen}) == 2
    named = problem.model.in_bases({"hidden.0@mine": problem.model.bases["hidden.0@probe"]})
    own = Problem(named, problem.pairs, sites="hidden.0@mine")
    assert len(search_permuted(Greedy(max_units=1), own, own, seed=0).units) == 1


def test_a_rotation_must_be_one(model, pairs, tmp_path):
    def told(**arrays: np.ndarray) -> str:
        save_file({name: torch.tensor(array) for name, array in arrays.items()}, tmp_path / "r.safetensors")
        with pytest.raises(PivotalError) as error:
            Problem(model, pairs, sites=f"hidden.0@rotation:{tmp_path / 'r.safetensors'}")
        return str(error.value)

    assert "orthonormal" in told(rotation=np.ones((24, 24), dtype=np.float32))
    assert "for hidden.0, not (8, 8)" in told(rotation=np.eye(8, dtype=np.float32))
    assert "direction per row; " in told(a=np.eye(24, dtype=np.float32), b=np.eye(24, dtype=np.float32))
    whole = np.eye(24, dtype=np.float32)
    assert "must have 1 to 24 rows" in told(rotation=whole[:0])
    assert "must have 24 numbers, not shape" in told(rotation=whole, mean=whole[0, :3])
    np.save(tmp_path / "r.npy", whole[:5])
    some = Problem(model, pairs, sites=f"hidden.0@rotation:{tmp_path / 'r.npy'}")
    assert len(some.space) == 5
    (tmp_path / "r.pt").write_bytes(b"")
    for path, said in (("r.pt", "can hold code"), ("absent.npy", "there is no file")):
        with pytest.raises(PivotalError, match=said):
            Problem(model, pairs, sites=f"hidden.0@rotation:{tmp_path / path}")


@pytest.mark.parametrize(
    ("sites", "said"),
    [
        ("hidden.0@rotation", "is read from a file"),
        ("hidden.0@das:0", "learns 1 to 23"),
        ("hidden.0@das:many", "learns 1 to 23"),
        ("hidden.0@pcb", "There are no bases named 'pcb'"),
        ("hidden.1@pca", "must match a site"),
        ("hidden.0@pca:absent", "there is no absent"),
        ("hidden.0,hidden.0@pca", "Choose one"),
    ],
)
def test_sites_that_cannot_be_made_are_refused(sites, said, model, pairs):
    with pytest.raises(PivotalError, match=said):
        Problem(model, pairs, sites=sites)


def test_statistics_of_many_coordinates_are_measured_in_blocks(asked, monkeypatch):
    problem = asked("sae")
    whole, ends = problem.measure_activations(), problem.natural_range()
    monkeypatch.setattr("pivotal.problem.activations._BLOCK", 7)
    again = Problem(problem.model, problem.pairs, sites="hidden.0@sae")
    for name in ("own", "target", "scale"):
        found = getattr(again.measure_activations(), name)
        assert torch.allclose(found, getattr(whole, name), atol=1e-5)
    for found, expected in zip(again.natural_range(), ends, strict=True):
        assert torch.allclose(found, expected, atol=1e-5)
    basis = problem.model.bases["hidden.0@sae"]
    assert (ends[0] >= 0).all() and len(ends[0]) == basis.coordinates  # a ReLU has no negative activations


def exchanged(problem: Problem) -> Outcome:
    """An exchange of the first coordinate."""
    mask = torch.zeros(1, 2, len(problem.space))
    mask[..., 0] = 1
    return problem.run(mask, torch.zeros(1, 2, problem.space.coordinates))


def shift(problem: Problem) -> float:
    """How far the exchange moves the log odds to the other word, on average."""
    return float((problem.clean_log_ratio - exchanged(problem).log_ratio[0]).mean())


def closed(problem: Problem) -> float:
    """The share of KL to the counterfactual that the exchange removes."""
    return float(Terms().reached(problem, exchanged(problem))[0])


def along_means(problem: Problem) -> Problem:
    """The problem along the difference of means, in the place of its basis."""
    (site,) = problem.space.sites
    asked = {"values": problem.values, "steps": problem.steps}
    plain = Problem(problem.model.without_bases(), problem.examples, sites=site.within, **asked)
    states = training_states(plain)
    basis = completed("probe", difference_of_means(states)[None], torch.cat(states))
    model = plain.model.in_bases({f"{site.within}@probe": basis})
    return Problem(model, problem.examples, sites=f"{site.within}@probe", **asked)


@pytest.mark.parametrize("objective", ["flips", "counterfactual"])
def test_a_rotation_for_an_interchange_moves_more_than_the_difference_of_means(model, pairs, objective):
    """Decoys tell the labels apart better than the planted units do, so the difference of means points to them."""
    told: list[Progress] = []
    problem = Problem(
        model, pairs, sites="hidden.0@das", values="interchange", objective=objective, report=told.append
    )
    assert shift(problem) > 1.5 * shift(along_means(problem)) > 0
    assert (told[-1].update, told[-1].updates) == (len(told), len(told))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "gain", "least"), [("flips", shift, 0), ("counterfactual", closed, 0.8)]
)
def test_a_rotation_of_a_real_model_does_better_than_the_difference_of_means(objective, gain, least):
    lstm, some = load_model("wiki-lstm"), load_phenomenon("number-agreement").sample(400)
    train, test = some.split(test=100, seed=0)
    asked = {"steps": "single", "values": "interchange", "objective": objective}
    learned = Problem(lstm, train, sites="hidden.0@das", **asked)
    means = along_means(learned)
    assert gain(learned.on(test)) > gain(Problem(means.model, test, sites=means.sites, **asked)) > least
