"""Scores: shares and their intervals, drop-one, the random control."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.models.small import recurrent
from tests.planted import PAIRS

from pivotal import Intervention, PivotalError, Problem, evaluate, load_model, load_phenomenon
from pivotal.evidence.controls import known_units, matched_sets, random_control
from pivotal.evidence.examination import Examination, flips_of, score_many
from pivotal.evidence.intervals import shares_of
from pivotal.models.edits import dense
from pivotal.problem.objective import Terms
from pivotal.questions import MinimalPair, PairSet
from pivotal.records.summary import Control
from pivotal.searches.base import interventions_of


def test_the_whole_set_flips_everything_and_each_unit_is_missed(problem, found):
    scores = evaluate(found, problem)
    assert scores.flip_accuracy == shares_of(problem.pairs)(np.ones(300, bool))
    assert scores.flip_accuracy.n == len(problem) == 300
    assert scores.units == 3 and scores.clean_accuracy == 1.0
    assert 0 < scores.kl < scores.kl_after_edit
    assert [one.unit for one in scores.drop_one] == [str(unit) for unit in found.units]
    for i, one in enumerate(scores.drop_one):
        flipped, kl = score_many([found.without(i)], problem.sample(128))
        assert one.flip_accuracy == pytest.approx(flipped.mean()) and one.kl == pytest.approx(kl[0])
        assert 0.5 < one.flip_accuracy < 0.8  # a class of three is lost
    assert evaluate(found.without(0).without(0), problem).drop_one == ()
    json.dumps(scores.as_dict())


def test_shares_by_direction_and_group_are_those_of_the_parts(problem, found):
    """One direction and one class spoiled: the parts tell which."""
    values = np.array(found.values)
    values[1] = 1.0  # set to singular when it should be plural
    spoiled = replace(found.without(0), values=values[:, 1:])
    scores = evaluate(spoiled, problem)
    flipped = score_many([spoiled], problem)[0][0]
    for i, label in enumerate(problem.labels):
        share = scores.by_direction[label]
        assert share.value == pytest.approx(flipped[problem.direction == i].mean())
        assert share.n == (problem.direction == i).sum()
    assert scores.by_direction["plural"].value == 0 < scores.by_direction["singular"].value
    for group, share in scores.by_group.items():
        of = np.array([pair.group == group for pair in problem.pairs])
        assert share.value == pytest.approx(flipped[of].mean()) and share.n == of.sum()
    assert min(share.value for share in scores.by_group.values()) == 0


def test_a_direction_without_pairs_is_left_out(problem, found):
    singular = PairSet("one", PAIRS.labels, tuple(p for p in problem.pairs if p.label == "singular"))
    assert list(evaluate(found, problem.on(singular)).by_direction) == ["plural"]


# -- the control --


FREE = Terms()


def control_of(
    found: Intervention,
    on: Problem,
    terms: Terms = FREE,
    sets: int = 4,
    *,
    train: Problem | None = None,
    flips: bool | None = None,
    keeps: bool = False,
) -> Control:
    """Random sets like the found one, whose values are fitted on `train`, by default `on`, and which are scored on
    `on`. With `flips`, the found set counts as one that flips all pairs or none; with `keeps`, as one that changes
    nothing."""
    examination = Examination(found, on)
    if flips is not None:
        part = examination.sample(64, 0)
        part.flipped = np.full(len(part.problem), flips)
    if keeps:
        mask, values = examination.edit
        examination.edit = torch.zeros_like(mask), values
    return random_control(examination, train or on, sets, terms, seed=0)


def test_the_p_value_is_the_share_of_random_sets_that_do_as_well(problem, found):
    held_out = problem.on(PAIRS[300:500])
    control, again = (control_of(found, held_out, train=problem, flips=True) for _ in range(2))
    assert control == again and control.sets == len(control.flip_accuracy) == 4
    assert control.best == max(control.flip_accuracy) < 1
    assert control.mean == pytest.approx(np.mean(control.flip_accuracy))
    assert control.p_value == pytest.approx(1 / 5)
    assert control_of(found, held_out, train=problem, flips=False).p_value == 1


def test_a_random_set_that_flips_exactly_as_many_does_as_well(problem, found, monkeypatch):
    """One planted unit flips the pairs of its class, a share that no binary fraction can express."""
    one = found.without(2).without(0)
    mask, _ = dense(one, problem.space)
    monkeypatch.setattr("pivotal.evidence.controls.matched_sets", lambda *_: mask.repeat(3, 1, 1))
    control = control_of(one, problem, sets=3)
    assert len(set(control.flip_accuracy)) == 1, "the values of these copies flip the same pairs"
    share = control.flip_accuracy[0]
    assert float(np.float32(share)) != share, "single precision would break the tie"
    assert control.p_value == 1


def test_every_random_set_that_does_as_well_counts_however_few_rank_first(problem, found, monkeypatch):
    """Eight of forty sets are copies, and the leading eighth are five."""
    drawn = matched_sets(found, problem, 40, seed=0)
    drawn[::5] = dense(found, problem.space)[0]
    monkeypatch.setattr("pivotal.evidence.controls.matched_sets", lambda *_: drawn)
    before = problem.work.forward
    control = control_of(found, problem, sets=40)
    assert control.best == 1 and control.p_value == pytest.approx(9 / 41)
    assert sum(share == 1 for share in control.flip_accuracy) == 8
    assert problem.work.forward - before < 40 * problem.sample(64, 0).tree.n_live, "not all others are run"


def test_a_control_that_breaks_the_bound_on_kl_does_not_do_as_well(problem, found):
    """No values of a unit keep a bound as tight as this one. Where ours breaks it too, flips alone are compared."""
    tight = Terms(max_kl=1e-6)
    for terms, keeps, expected in (
        (Terms(), False, (0, 1)),
        (tight, True, (4, 1 / 5)),
        (tight, False, (0, 1)),
    ):
        control = control_of(found, problem, terms, flips=False, keeps=keeps)
        assert (control.broken, control.p_value) == pytest.approx(expected)


def test_without_a_bound_to_keep_the_controls_learn_for_flips_alone(problem):
    """Of so many units that a random set has planted ones among them."""
    mask = (torch.arange(len(problem.space)) < 40).expand(1, 2, -1)
    (many,) = interventions_of(problem, mask, mask.float())
    flips = control_of(many, problem, flips=True)
    assert flips.mean > 0.3
    for held_back in (Terms(kl_weight=100.0), Terms(kl_weight=100.0, max_kl=1e-9)):
        assert control_of(many, problem, held_back, flips=True) == flips
    assert control_of(many, problem, Terms(max_kl=1e-6), flips=True, keeps=True).mean < flips.mean


def test_controls_come_with_training_pairs_only(problem, found):
    assert evaluate(found, problem).control is None
    with pytest.raises(PivotalError, match="Pass them as train="):
        evaluate(found, problem, controls=2)
    control = evaluate(found, problem, train=problem, controls=2).control
    assert control.p_value == pytest.approx(1 / 3)


def random_model(width: int, layers: int) -> Problem:
    model = recurrent("<eos> <unk> The cat dogs runs run", "rnn", layers, hidden=width)
    pairs = tuple(MinimalPair(f"The {noun}", 1, ("runs", "run")) for noun in ("cat", "dogs"))
    return Problem(model, PairSet("two", ("singular", "plural"), pairs))


@pytest.mark.parametrize("layers", [1, 8])
@pytest.mark.parametrize("sets", [1, 2, 5])
def test_any_number_of_controls(layers, sets):
    problem = random_model(4, layers)
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    mask[..., 0] = True
    (found,) = interventions_of(problem, mask, mask.float())
    control = control_of(found, problem, sets=sets, flips=False)
    assert control.sets == len(control.flip_accuracy) == sets and control.p_value == 1


def test_random_sets_have_as_many_units_in_each_site():
    problem = random_model(40, 3)
    mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
    mask[0, 0, [3, 5, 90]] = mask[0, 1, [3, 5]] = True
    (found,) = interventions_of(problem, mask, mask.float())
    drawn = matched_sets(found, problem, 20, seed=0)
    by_site = drawn.view(20, 2, 3, 40).sum(-1)
    assert (by_site == torch.tensor([[2, 0, 1], [2, 0, 0]])).all()
    assert len({tuple(row.flatten().tolist()) for row in drawn}) > 10, "the sets differ"
    assert not drawn[..., [3, 5, 90]].any(), "the found units are no random units"
    whole = torch.ones(1, 2, len(problem.space), dtype=torch.bool)
    (all_units,) = interventions_of(problem, whole, whole.float())
    assert matched_sets(all_units, problem, 2, seed=0).all(), "unless a site has no others"


def test_random_sets_leave_out_the_units_that_are_known_for_a_feature_of_the_question():
    pairs = load_phenomenon("number-agreement")[:40]
    problem = Problem(load_model("wiki-lstm"), pairs, sites="hidden.1")
    known = known_units(problem)
    assert {276, 278, 352} < set(known) and len(known) < 60, "units of other number questions are among them"
    assert not known_units(problem.on(replace(pairs, features=())))
    others = known_units(problem.on(replace(pairs, features=("negation",))))
    assert others and not set(others) <= set(known)
    for units, spared in ((1, True), (320, False)):  # there are not so many that are not known
        mask = torch.zeros(1, 2, len(problem.space), dtype=torch.bool)
        mask[..., [i for i in range(650) if i not in known][:units]] = True
        (found,) = interventions_of(problem, mask, mask.float())
        drawn = matched_sets(found, problem, 1000 // units, seed=0).amax((0, 1)).nonzero()[:, 0].tolist()
        assert (not set(drawn) & set(known)) is spared


# -- on which problem --


def test_memory_bounds_change_no_score(problem, monkeypatch):
    mask = (torch.rand(5, 2, 64, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    values = torch.rand(5, 2, 64, generator=torch.Generator().manual_seed(1)) * 2 - 1
    many = interventions_of(problem, mask.bool(), values)
    flips, (_, kl) = flips_of(mask, values, problem), score_many(many, problem)
    monkeypatch.setattr("pivotal.problem.batch._ROWS", 1)
    assert problem.runs_at_once() == 1
    assert (flips_of(mask, values, problem) == flips).all()
    assert np.allclose(score_many(many, problem)[1], kl, atol=1e-5)


def test_exchanged_labels_and_other_steps_are_refused(problem, found):
    """Values are told apart by the order of the labels: scores of the wrong ones would look like a bad result."""
    said = r"flips to plural or singular, but the pairs are labelled singular and"
    with pytest.raises(PivotalError, match=said):
        evaluate(replace(found, directions=("plural", "singular")), problem)
    with pytest.raises(PivotalError, match="acts at steps='single', but the problem is about steps='every'"):
        evaluate(replace(found, steps="single"), problem)
