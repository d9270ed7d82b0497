"""What to do next: each rule on made-up figures, and never more than two suggestions."""

from typing import Any

import pytest
from tests.evidence.test_verdict import HIGH, LOW, effect, evidence, knowledge, label, natural, summary

from pivotal.evidence.verdict import verdict_of
from pivotal.records.evidence import Share, TextCost
from pivotal.records.serial import replace
from pivotal.records.summary import Control, Summary
from pivotal.report.next_steps import _CERTIFY as CERTIFY
from pivotal.report.next_steps import next_steps

NONE = Share(0.0, 0.0, 0.2, 12)


def steps(found: Summary) -> list[str]:
    made = next_steps(replace(found, verdict=verdict_of(found)))
    assert len(made) <= 2
    return made


def with_run(**changes: Any) -> Summary:
    found = summary(flips=LOW)
    return replace(found, runs=(replace(found.runs[0], **changes),))


def test_units_that_decide_can_be_certified_and_runs_without_a_verdict_say_nothing():
    assert steps(summary()) == [CERTIFY]
    assert next_steps(summary()) == []


def test_missing_checks_are_named_first_for_a_switch():
    quick = evidence(level="quick", effects=(), permuted=None)
    assert steps(summary(quick)) == [
        "Make the missing checks: repeat the command with --evidence full.",
        CERTIFY,
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"by_label": {"one": label(prefixes=8), "many": label()}}, "Hold out more prefixes"),
        ({"by_label": {"one": label(), "many": label(LOW)}}, "See what the model knows"),
        ({"mass": 1e-7}, "Ask about words that the model expects"),
    ],
)
def test_a_question_that_cannot_be_asked_comes_before_anything_else(changes, said):
    (step,) = steps(summary(evidence(knowledge=knowledge(**changes)), flips=LOW, p=0.3))
    assert step.startswith(said)


def test_a_search_that_lost_its_flips_needs_more_units_or_updates():
    lost = {"relaxed": {"accuracy": 1.0, "units": 24.0}, "final": {"accuracy": 0.4, "units": 3.0}}
    assert steps(with_run(stages=lost))[0] == (
        "Allow more units, e.g. --max-units 6, or more --updates: on training pairs the search flipped 100% before it "
        "was left with 3 units, which flip 40.0%."
    )
    kept = {"relaxed": {"accuracy": 0.5}, "final": {"accuracy": 0.45}}
    assert steps(with_run(stages=kept))[0] == "Allow more units, e.g. --max-units 6."
    # Units that flip nothing were dropped, and random sets do as well: fewer units would not help.
    none = {"hard": {"accuracy": 0.0, "units": 5.0}, "final": {"accuracy": 0.0, "units": 3.0}}
    dropped = replace(with_run(stages=none), controls=summary(p=1.0).controls)
    assert steps(dropped)[0] == "Allow more units, e.g. --max-units 10."
    assert not any("Random sets" in step for step in steps(dropped))


def test_a_direction_that_never_flips_is_pointed_out():
    made = steps(with_run(by_direction={"one": HIGH, "many": NONE}))
    assert made[1].startswith("Look at the sentences to flip to “many”: 0.0% of them flip.")


def test_too_few_random_sets_and_random_sets_that_do_as_well():
    few = replace(summary(), controls=Control(sets=19, best=0.1, p_value=0.05))
    assert steps(few)[0].startswith("Repeat the command with --controls 99: ")
    assert steps(summary(p=0.3))[0].startswith("Random sets of the same size do as well")


def test_side_effects_have_two_cures_each_named_where_it_was_not_tried():
    text = TextCost(text="t", tokens=9, untouched=30.0, edited={"one": 61.0})
    for collected in (evidence(text=text), evidence(effects=(effect(0.7),))):
        found = summary(collected)
        learn, bound = steps(found)
        assert learn.startswith("Search with --objective counterfactual")
        assert bound.startswith("Bound the side effects: --keep text")
        assert steps(replace(found, objective="counterfactual")) == [bound, CERTIFY]
        assert steps(replace(found, max_kl=0.1)) == [learn, CERTIFY]
        without = replace(found, runs=(replace(found.best_run, fidelity=None),))
        assert steps(without)[0] == bound


def test_unnatural_values_have_a_cure():
    made = steps(summary(evidence(natural=natural(LOW))))
    assert made[0] == "Search inside the natural range with --values natural."
