"""The certificate on the planted model: confirms the planted set, refutes decoys, idle units and sets too small."""

from typing import Any

import pytest
from tests.planted import PAIRS, mask_of, set_to

from pivotal import Intervention, PivotalError, Problem, certify
from pivotal.evidence.examination import flips_of
from pivotal.models.planted import plant
from pivotal.problem.objective import Terms
from pivotal.questions import PairSet
from pivotal.records.certificate import Ablated, Certificate, Effort
from pivotal.records.serial import replace
from pivotal.report.certified import sentences, units_table, verdict
from pivotal.searches.tools.refit import Refit
from pivotal.units import Unit

QUICK = Effort(candidates=12, audit=6, sample=24, finalists=4, polish=20, first=8)
EXACT = Effort(candidates=0, sample=24, finalists=4, polish=20, pairs="all")
BOTH = pytest.mark.parametrize("steps", ["single", "every"])


def problem_of(steps: str, seed: int = 0) -> Problem:
    return Problem(plant(seed).model, PAIRS.sample(300), steps=steps, values="unbounded")


def fitted(problem: Problem, units: tuple[Unit, ...]) -> Intervention:
    return set_to(problem, units, Refit(updates=30).fit(problem, mask_of(problem, units)).values)


@BOTH
@pytest.mark.parametrize("effort", [QUICK, EXACT], ids=["screened", "exact"])
@pytest.mark.slow
def test_the_planted_set_is_confirmed(steps, effort):
    problem, planted = problem_of(steps, seed=3), plant(3)
    made = certify(fitted(problem, planted.units), problem, effort=effort)
    assert made.holds and made.found.flipped > 0.99
    assert all(row.matters and row.left.flipped < 0.7 for row in made.without)
    assert made.neighbours.there_are == 3 * 61
    assert made.neighbours.tried == (3 * 61 if effort is EXACT else 3 * 12)
    one, two = made.smaller
    assert (one.size, one.there_are, one.looks[0].sets) == (1, 64, 64) and one.best.flipped < 0.45
    assert (two.size, two.there_are) == (2, 2016) and 0.6 < two.best.flipped < 0.75
    assert (two.looks[0].sets == 2016) is (effort is EXACT)
    assert not (one.enough or two.enough)
    assert set(two.best.units) < set(map(str, planted.units))


@BOTH
def test_a_decoy_set_is_refuted_by_a_planted_unit(steps):
    problem = problem_of(steps)
    made = certify(fitted(problem, plant().decoys), problem, effort=QUICK)
    assert not made.holds and not made.neighbours.optimal
    assert made.neighbours.swap[0] in map(str, plant().decoys)
    assert made.neighbours.swap[1] in map(str, plant().units)
    assert not any(row.matters for row in made.without)
    assert "does not hold" in verdict(made)


def test_an_idle_unit_is_named():
    problem = problem_of("every")
    idle = plant().decoys[0]
    made = certify(fitted(problem, (*plant().units, idle)), problem, effort=QUICK)
    assert [row.unit for row in made.without if not row.matters] == [str(idle)]
    assert f"{idle} is not needed" in verdict(made)


def test_a_set_of_all_units_has_no_neighbours():
    problem = Problem(plant().model, PAIRS.sample(60), steps="every", sites="hidden.0")
    made = certify(fitted(problem, tuple(problem.space)), problem, effort=QUICK)
    near = made.neighbours
    assert (near.there_are, near.tried, near.best, near.swap, near.optimal) == (0, 0, None, None, True)
    alike = replace(made.smaller[0], enough=True)
    assert verdict(replace(made, smaller=(alike, alike))).count(" flips ") == 1
    assert "the set contains all units" in " ".join(sentences(made))
    held = verdict(replace(made, without=(), smaller=()))
    assert held.endswith("every unit matters, and no smaller set that was tried is as good.")


@pytest.mark.parametrize(("max_kl", "refuted"), [(0.005, False), (2.0, True)])
@pytest.mark.slow
def test_rivals_must_keep_the_bound_on_kl(max_kl, refuted):
    """To flip a verb costs 0.04 nats at least. Where that much is allowed, a planted unit refutes a set of decoys,
    which cost nothing and flip nothing; where it is not, no rival does."""
    problem = problem_of("every")
    made = certify(fitted(problem, plant().decoys), problem, terms=Terms(max_kl=max_kl), effort=QUICK)
    assert made.found.bound_kept and made.found.flipped == 0
    assert made.neighbours.optimal is not refuted
    assert made.neighbours.best.bound_kept is refuted
    assert all(part.best.bound_kept and (part.best.flipped > 0.3) is refuted for part in made.smaller)
    assert f"keep KL within {max_kl:g}" in " ".join(sentences(made))


def test_the_words():
    """How many of the drawn swaps score well differs between processors, so the test writes that number itself."""
    problem = problem_of("every")
    made: Certificate = certify(fitted(problem, plant().units), problem, test=problem, effort=QUICK)
    assert made.neighbours.audited == 18
    ablation = tuple(
        Ablated(unit=str(u), rank=i, effect=1.0, drop=0.2, condition="all", found=i == 0)
        for i, u in enumerate(plant().units)
    )
    content = replace(made, ablation=ablation)

    def said(hits: int) -> str:
        near = replace(made.neighbours, audit_hits=hits)
        return " ".join((verdict(content), *sentences(replace(content, neighbours=near))))

    clear, doubtful = said(0), said(2)
    for part in (
        "The certificate holds for these 3 units",
        "of the 183 sets that differ in one unit, 36 (the highest first-order gains)",
        "no single unit was found to flip more than",
        "No decision used held-out pairs",
        f"would have found 1 of the 3 units ({plant().units[0]})",
    ):
        assert part in clear and part in doubtful
    assert "with 95% confidence fewer than 16.7% of them would" in clear
    assert "2 scored well enough to be refitted" in doubtful and "95%" not in doubtful
    for without_ablation in (content, replace(content, ablation=())):
        assert [row[0] for row in units_table(without_ablation).rows] == list(content.found.units)


def test_one_rule_for_every_part_of_a_certificate():
    """Three pairs, one for each planted unit: without a unit a third of the flips is lost, which is less than two
    standard errors of so few. So no unit matters, and two units are enough."""
    three = tuple(next(pair for pair in PAIRS if pair.group == group) for group in PAIRS.groups)
    problem = Problem(plant().model, PairSet("three", PAIRS.labels, three), steps="every", values="unbounded")
    made = certify(fitted(problem_of("every"), plant().units), problem, effort=QUICK)
    assert made.found.flipped == 1.0 and made.neighbours.optimal
    assert [round(3 * row.left.flipped) for row in made.without] == [2, 2, 2]
    assert not any(row.matters for row in made.without)
    assert round(3 * made.smaller[1].best.flipped) == 2 and made.smaller[1].enough


def test_bad_input():
    problem = problem_of("every")
    with pytest.raises(PivotalError, match="steps='single'"):
        certify(fitted(problem_of("single"), plant().units), problem)
    with pytest.raises(PivotalError):
        certify(fitted(problem_of("every", 1), plant(1).units), problem)
    for settings in ({"points": 2}, {"polish": 0}, {"epsilon": 1.5}, {"finalists": 0}):
        with pytest.raises(PivotalError, match=next(iter(settings))):
            Effort(**settings)


def test_inside_natural_ranges_the_certificate_says_what_is_out_of_reach(monkeypatch):
    problem = Problem(plant().model, PAIRS.sample(60), steps="every", values="natural")
    low, high = problem.natural_range()
    outside = []

    def watched(mask: Any, values: Any, *rest: Any) -> Any:
        outside.append(bool((((values < low - 1e-5) | (values > high + 1e-5)) & (mask > 0)).any()))
        return flips_of(mask, values, *rest)

    monkeypatch.setattr("pivotal.evidence.certify.flips_of", watched)
    made = certify(fitted(problem, plant().units[:1]), problem, effort=QUICK)
    assert len(outside) > 3 and sum(outside) <= 1, "at most the set whose ranges are lifted"
    assert made.reach.lifted.units == made.found.units
    assert [len(larger.units) for larger in made.reach.larger] == [2, 4, 8]
    assert {*made.found.units} < {*made.reach.larger[-1].units}
    assert made.reach.larger[-1].flipped > made.found.flipped + 0.2, "the other planted units come in"
    (text,) = [text for text in sentences(made) if text.startswith("Range:")]
    assert "8 units flip" in text and "No larger set that was tried flips more than" in text
