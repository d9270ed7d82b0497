"""The rules of the verdict, on made-up figures: each check can fail alone, and what follows is fixed."""

from typing import Any

import pytest
from tests.paths import ROOT

from pivotal.evidence import verdict as rules
from pivotal.evidence.verdict import limit_of, verdict_of
from pivotal.records.evidence import (
    CueSwap,
    Effect,
    Evidence,
    Interchange,
    Knowledge,
    LabelKnowledge,
    Natural,
    Necessity,
    NullSearch,
    Paths,
    Share,
    TextCost,
    UnitRange,
    UnseenWords,
)
from pivotal.records.serial import replace
from pivotal.records.summary import (
    Control,
    Example,
    Fidelity,
    Overlap,
    PairCounts,
    Rejections,
    RunScores,
    Summary,
)

HIGH, OPEN, LOW = Share(0.97, 0.95, 0.99, 400), Share(0.55, 0.48, 0.62, 400), Share(0.3, 0.25, 0.36, 400)
"""Above one half, not decided, and below."""


def label(accuracy: Share | None = HIGH, prefixes: int = 100) -> LabelKnowledge:
    return LabelKnowledge(pairs=400, accuracy=accuracy, preferred=400, prefixes=prefixes)


def knowledge(**changes: Any) -> Knowledge:
    known = {
        "pairs": 800, "clusters": 200, "labelled": 800, "accuracy": HIGH, "by_group": {}, "one_sided": 0.5,
        "by_label": {"one": label(), "many": label()}, "mass": 0.01, "rank": 3.0,
    }  # fmt: skip
    return Knowledge(**{**known, **changes})


def evidence(**changes: Any) -> Evidence:
    collected = {
        "level": "full", "knowledge": knowledge(), "paths": Paths(change=4.0, last_step=0.3, direct=0.2),
        "text": TextCost(text="a text", tokens=900, untouched=30.0, edited={"one": 31.0, "many": 33.0}),
        "effects": (effect(0.90),), "permuted": NullSearch(flip_accuracy=(0.48,), units=(3,)),
        "unseen_words": UnseenWords(flip_accuracy=HIGH, slots=("noun",), train=500), "natural": natural(),
        "interchange": swapped(LOW), "swap": changed(HIGH), "necessity": necessity(0.3),
    }  # fmt: skip
    return Evidence(**{**collected, **changes})


RANGE = UnitRange(unit="a", low=-0.5, high=0.5, values={"one": 0.2, "many": -0.3})


def natural(share: Share = HIGH) -> Natural:
    return Natural(ranges=(RANGE,), flipped=share, by_direction={"one": share, "many": share}, kl=0.1)


def swapped(share: Share = HIGH) -> Interchange:
    return Interchange(flipped=share, by_direction={"one": share, "many": share}, whole_site=HIGH)


def changed(share: Share, other: Share = HIGH) -> CueSwap:
    right = {"one": HIGH, "many": HIGH}
    return CueSwap(kl=0.5, flipped=share, right=right, by_direction={"one": other, "many": share})


def text(untouched: float, edited: float, reach: float = 0.01) -> TextCost:
    interval = (edited / untouched - reach, edited / untouched + reach)
    edits = {"one": untouched, "many": edited}
    return TextCost(text="t", tokens=9, untouched=untouched, edited=edits, factors={"many": interval})


def necessity(lost: float, reach: float = 0.02) -> Necessity:
    change = Share(lost, lost - reach, lost + reach, 400)
    return Necessity(untouched=HIGH, held=HIGH, lost=change, resampled=0.9, random=(0.97, 0.96))


def effect(after: float, related: bool = False, **more: Any) -> Effect:
    there = Share(0.91, 0.88, 0.94, 200)
    edited = {"one": there, "many": Share(after, after - 0.03, after + 0.03, 200)}
    return Effect(phenomenon="tense", pairs=200, related=related, untouched=there, edited=edited, **more)


def closes(asked: Share, by_chance: float = 0.01) -> Fidelity:
    return Fidelity(asked=asked, from_cue=asked, gap=(1.0, 0.8), kl_asked=0.9, floor=(by_chance, by_chance))


def summary(
    collected: Evidence | None = None, flips: Share = HIGH, p: float | None = 0.01, closed: Share = HIGH
) -> Summary:
    run = RunScores(
        seed=0, flip_accuracy=flips.value, interval=(flips.low, flips.high), units=3, kl=0.2, kl_after_edit=0.3,
        target=(0.1, 0.9), by_direction={"one": flips, "many": flips}, by_group={}, drop_one=(),
        unit_labels=("a", "b", "c"), train_score=0.1, stages={},
        values={"one": (0.1, 0.2, 0.3), "many": (0.1, 0.2, 0.3)}, fidelity=closes(closed),
    )  # fmt: skip
    return Summary(
        model="m", phenomenon="number", steps="every", values="unbounded", labels=("one", "many"), all_units=100,
        flip_accuracy=flips.value, interval=(flips.low, flips.high), units=3, kl=0.2, kl_after_edit=0.3, median=0,
        best=0, forward_nodes=1, backward_nodes=1, clean_accuracy=0.9, labelled=800,
        pairs=PairCounts(train=3000, test=800), overlap=Overlap(prefix=0.0, cue=1.0, words=1.0),
        rejected=Rejections(total=0, reasons={}), controls=Control(sets=99, best=0.3, mean=0.1, p_value=p),
        prevalence={}, example=Example(prefix="The", cue=0, words=("a", "b"), direction="one", target=(0.1, 0.9)),
        runs=(run,), evidence=collected or evidence(),
    )  # fmt: skip


def test_the_page_states_the_thresholds():
    page = " ".join((ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").split())
    for said in (
        f"at least {rules.LEAST_PREFIXES} different held-out prefixes",
        f"by a median KL of {rules.LEAST_GAP:g} or more",
        f"a median probability of {rules.LEAST_MASS:.3%} or more",
        f"closes more than {rules.LEAST_CLOSED:.0%} of the gap",
        f"flips as much (p ≤ {rules.DECIDES:g})",
        f"the random sets give p ≤ {rules.NUDGES:g}",
        f"accuracy changes by more than {100 * rules.MOST_MOVED:g} points",
    ):
        assert said in page, said
    # These are in words there.
    assert (rules.HALF, rules.MOST_DIRECT, rules.MOST_TEXT, rules.BREAKS) == (0.5, 0.5, 1.25, 2)


@pytest.mark.parametrize(("gap", "word"), [(0.02, "switch"), (0.01, "switch"), (0.009, "no evidence")])
def test_lists_of_prompts_must_differ_and_earn_a_switch_at_most(gap, word):
    """Without words there is no preference, so nothing says whether the units are necessary."""
    lists = knowledge(mass=None, rank=None, accuracy=None, gap=gap)
    found = replace(summary(evidence(knowledge=lists, swap=None, necessity=None)), clean_accuracy=None)
    assert verdict_of(found).word == word


def test_every_check_passed_is_the_only_way_to_decide():
    verdict = verdict_of(summary())
    assert verdict.word == "decide" and not verdict.failed
    assert all(check.passed for check in verdict.checks)


@pytest.mark.parametrize(
    ("closed", "word"),
    [
        (Share(0.02, -0.05, 0.09, 100), "no evidence"),
        (Share(0.1, 0.05, 0.15, 100), "no evidence"),
        (Share(0.3, 0.15, 0.45, 100), "no evidence"),
        (Share(0.4, 0.26, 0.6, 100), "decide"),
    ],
)
def test_units_that_only_move_the_asked_words_switch_nothing(closed, word):
    found = verdict_of(summary(closed=closed))
    (check,) = [one for one in found.checks if one.name == "fidelity"]
    assert found.word == word and bool(check.passed) == (word == "decide")
    assert "; the interval must exceed 25.0%." in check.found
    assert ("because “fidelity” " in found.sentence) == (not check.passed)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"natural": natural(LOW)}, "natural values"),
        ({"paths": Paths(change=4.0, last_step=1.0, direct=0.9)}, "through the model"),
        ({"text": text(100.0, 127.0)}, "ordinary text"),
        ({"unseen_words": UnseenWords(flip_accuracy=LOW, slots=("noun", "verb"), train=500)}, "unseen words"),
        ({"effects": (effect(0.90), effect(0.70))}, "other phenomena"),
        ({"necessity": necessity(0.01)}, "necessity"),
        ({"necessity": necessity(0.0, 0.3)}, "necessity"),
        ({"permuted": NullSearch(flip_accuracy=(0.5, 0.995), units=(3, 3))}, "permuted labels"),
    ],
)
def test_a_strong_switch_that_fails_one_check_is_called_a_switch(changes, name):
    verdict = verdict_of(summary(evidence(**changes)))
    assert verdict.word == "switch" and [check.name for check in verdict.failed] == [name]
    assert f"Failed checks: {name}." in verdict.sentence


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"natural": natural(OPEN)}, "natural values"),
        ({"necessity": necessity(0.06)}, "necessity"),
        ({"text": text(100.0, 124.0, 0.05)}, "ordinary text"),
        ({"text": text(100.0, 128.0, 0.05)}, "ordinary text"),
        ({"unseen_words": UnseenWords(flip_accuracy=OPEN, slots=("noun",), train=500)}, "unseen words"),
        ({"permuted": NullSearch(flip_accuracy=(0.96,), units=(3,))}, "permuted labels"),
    ],
)
def test_a_figure_whose_interval_contains_its_threshold_is_not_decided(changes, name):
    verdict = verdict_of(summary(evidence(**changes)))
    assert verdict.word == "switch" and not verdict.failed and f"Not decided: {name}." in verdict.sentence


@pytest.mark.parametrize(("after", "word"), [(199.0, "switch"), (201.0, "nudge")])
def test_units_that_break_the_model_do_not_switch_anything(after, word):
    verdict = verdict_of(summary(evidence(text=text(100.0, after))))
    assert verdict.word == word
    assert ("but they break the model" in verdict.sentence) == (word == "nudge")


def test_a_question_about_two_words_is_about_these_two_words():
    one, two = (verdict_of(summary(evidence(knowledge=knowledge(asked=n)))).sentence for n in (1, 2))
    assert "between these two words (a, b)" in one and "two words" not in two


@pytest.mark.parametrize("missing", ["natural", "paths", "permuted", "necessity"])
def test_what_was_not_checked_is_not_passed(missing):
    verdict = verdict_of(summary(evidence(**{missing: None})))
    assert verdict.word == "switch" and not verdict.failed and "Not checked:" in verdict.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"by_label": {"one": label(), "many": label(LOW)}},
        {"by_label": {"one": label(), "many": label(OPEN)}},
        {"by_label": {"one": label(), "many": label(None)}},
        {"by_label": {"one": label(prefixes=9), "many": label()}},
        {"mass": 1e-7},
    ],
    ids=["below chance", "at chance", "one label", "few prefixes", "unlikely words"],
)
def test_a_question_that_cannot_be_asked_gives_no_evidence(changes):
    assert verdict_of(summary(evidence(knowledge=knowledge(**changes)))).word == "no evidence"


@pytest.mark.parametrize("labelled", [HIGH, None])
@pytest.mark.parametrize(
    ("swap", "passed"),
    [
        (changed(HIGH), True),
        (changed(OPEN), None),
        (changed(LOW), False),
        (changed(HIGH, LOW), False),
        (None, None),
    ],
)
def test_a_change_of_the_cue_must_flip_the_preference_in_both_directions(labelled, swap, passed):
    known = knowledge(accuracy=labelled, by_label={"one": label(labelled), "many": label(labelled)})
    verdict = verdict_of(summary(evidence(knowledge=known, swap=swap)))
    check = verdict.checks[0]
    assert check.passed is passed and check.undecided == (passed is None)
    assert verdict.word == ("decide" if passed else "no evidence")
    assert bool(check.cure) == (swap is None)


def test_noisy_labels_are_called_noisy_and_labels_without_a_cue_are_not():
    noisy = knowledge(cue_tells=0.2)
    known = verdict_of(summary(evidence(knowledge=noisy))).checks[0]
    assert known.passed and "noisy" in known.found
    ignored = verdict_of(summary(evidence(knowledge=noisy, swap=changed(LOW)))).checks[0]
    assert ignored.passed is False and "do not depend on the cue" in ignored.found


@pytest.mark.parametrize(
    ("flips", "p", "word"),
    [
        (HIGH, 0.02, "nudge"),
        (HIGH, 0.3, "no evidence"),
        (HIGH, None, "no evidence"),
        (LOW, 0.01, "nudge"),
        (OPEN, 0.01, "nudge"),
        (LOW, 0.06, "no evidence"),
    ],
)
def test_flips_count_only_beside_random_sets(flips, p, word):
    assert verdict_of(summary(flips=flips, p=p)).word == word


@pytest.mark.parametrize(
    ("flips", "p", "said"),
    [
        (HIGH, 0.02, "but not clearly more often than random units do"),
        (LOW, 0.01, "but not reliably"),
        (LOW, 0.02, "but neither reliably nor clearly more often than random units do"),
    ],
)
def test_a_nudge_says_what_it_lacks(flips, p, said):
    assert f"preference, {said}. Failed checks:" in verdict_of(summary(flips=flips, p=p)).sentence


@pytest.mark.parametrize(
    ("sets", "as_good", "passed", "word"),
    [
        (99, 0, True, "decide"),
        (99, 1, False, "nudge"),
        (98, 0, None, "nudge"),
        (19, 0, None, "nudge"),
        (19, 1, False, "no evidence"),
        (9, 0, None, "no evidence"),
    ],
)
def test_few_random_sets_decide_nothing_but_a_set_that_is_as_good_counts(sets, as_good, passed, word):
    control = Control(sets=sets, best=0.3, mean=0.1, p_value=(1 + as_good) / (1 + sets))
    verdict = verdict_of(replace(summary(), controls=control))
    (check,) = (one for one in verdict.checks if one.name == "random sets")
    assert verdict.word == word and check.passed is passed and check.undecided == (passed is None)
    assert ("Not decided: random sets." in verdict.sentence) == (passed is None)
    assert "Not checked" not in verdict.sentence
    assert ("too few random sets to say more" in verdict.sentence) == (passed is None and word == "nudge")
    assert bool(check.cure) == (sets < 99)
    assert bool(limit_of(sets)) == (sets < 99), "said before the search, too"


def test_what_few_random_sets_exclude():
    assert "With --controls 19 the verdict is 'nudge' at best" in limit_of(19)
    assert "With --controls 18 the verdict is 'no evidence' at best" in limit_of(18)
    assert "Without random sets the verdict is 'no evidence'" in limit_of(0)


def test_counterfactual_states_that_flip_as_much_excuse_learned_values_and_a_direct_path():
    direct = Paths(change=4.0, last_step=1.0, direct=1.0)
    agreeing = evidence(natural=natural(LOW), paths=direct, interchange=swapped())
    assert verdict_of(summary(agreeing)).word == "decide"
    alone = evidence(natural=natural(LOW), paths=direct, interchange=None)
    failed = [check.name for check in verdict_of(summary(alone)).failed]
    assert failed == ["natural values", "through the model"]


def test_a_model_without_ordinary_text_and_other_phenomena_has_nothing_to_disturb():
    assert verdict_of(summary(evidence(text=None, effects=()))).word == "decide"
    assert verdict_of(summary(evidence(effects=(), level="quick"))).word == "switch"


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({"changed": {"many": (60, 18)}, "prefixes": 200}, False),
        ({"changed": {"many": (60, 18)}, "prefixes": 20}, True),
        ({"changed": {"many": (60, 18)}, "prefixes": 200, "by_chance": 0.2, "by_cue": 0.02}, True),
        ({"changed": {"many": (60, 18)}, "prefixes": 200, "by_chance": 0.01, "by_cue": 0.2}, True),
        ({"changed": {"many": (60, 18)}, "prefixes": 200, "by_chance": 0.01, "by_cue": 0.02}, False),
    ],
    ids=["surely moved", "few prefixes", "as random sets do", "as the cue does", "more than both"],
)
def test_an_unrelated_phenomenon_must_not_move_more_than_what_is_expected(changes, passed):
    verdict = verdict_of(summary(evidence(effects=(effect(0.70, **changes),))))
    assert verdict.word == ("decide" if passed else "switch")


def test_a_change_of_one_phenomenon_counts_less_among_many():
    moved = effect(0.82, changed={"many": (19, 1)}, prefixes=200, by_chance=0.03)
    assert verdict_of(summary(evidence(effects=(moved,)))).word == "switch"
    many = (moved, *(effect(0.91) for _ in range(3000)))
    assert verdict_of(summary(evidence(effects=many))).word == "decide"


def test_a_related_phenomenon_may_move():
    moved = (effect(0.90), effect(0.20, related=True))
    assert verdict_of(summary(evidence(effects=moved))).word == "decide"


def test_one_direction_that_hardly_flips_is_not_reliable():
    found = summary()
    run = replace(found.runs[0], by_direction={"one": HIGH, "many": LOW})
    verdict = verdict_of(replace(found, runs=(run,)))
    assert verdict.word == "nudge" and [check.name for check in verdict.failed] == ["flips"]


def test_units_that_turn_as_many_preferences_away_from_a_label_show_nothing():
    """Units of number flip half of the pairs whose labels are permuted, and turn the other half away."""
    flips = Share(0.3, 0.18, 0.45, 40)
    assert verdict_of(summary(evidence(away=Share(0.1, 0.04, 0.25, 40)), flips)).word == "nudge"
    verdict = verdict_of(summary(evidence(away=Share(0.31, 0.19, 0.46, 40)), flips))
    assert verdict.word == "no evidence" and "flips" in [check.name for check in verdict.failed]
    (check,) = [check for check in verdict.checks if check.name == "flips"]
    assert "turns 31.0% (19.0% to 46.0%) of the preferences that already agree" in check.found


@pytest.mark.parametrize(
    ("away", "word"), [(LOW, "decide"), (OPEN, "nudge"), (Share(0.8, 0.7, 0.9, 400), "nudge")]
)
def test_units_that_invert_the_preference_do_not_switch_it(away, word):
    assert verdict_of(summary(evidence(away=away))).word == word


def test_an_interchange_has_no_values_that_could_be_unnatural_or_learned():
    found = replace(summary(evidence(natural=None, permuted=None, unseen_words=None)), values="interchange")
    assert verdict_of(found).word == "decide"
    assert verdict_of(replace(found, values="unbounded")).word == "switch"


@pytest.mark.parametrize(("fixed", "word"), [(HIGH, "decide"), (LOW, "switch"), (None, "decide")])
def test_the_side_effects_of_means_that_do_not_flip_decide_nothing(fixed, word):
    exchanged = replace(swapped(), fixed=fixed)
    found = replace(summary(evidence(interchange=exchanged)), values="interchange")
    verdict = verdict_of(found)
    assert verdict.word == word and not verdict.failed
    open_ = [check.name for check in verdict.checks if check.passed is None]
    assert open_ == (["ordinary text", "other phenomena"] if fixed is LOW else [])
    assert verdict_of(replace(found, values="natural")).word == "decide", "one value is applied everywhere"
    moved = replace(found, evidence=evidence(interchange=exchanged, effects=(effect(0.70),)))
    assert [check.name for check in verdict_of(moved).failed] == ["other phenomena"]
    alone = replace(found, evidence=evidence(interchange=exchanged, text=None, effects=()))
    assert verdict_of(alone).word == "decide", "a model that can be asked nothing else"


@pytest.mark.parametrize(("values", "cure"), [("unbounded", "--values natural"), ("natural", "")])
def test_the_natural_range_is_a_cure_only_for_values_outside_it(values, cure):
    found = replace(summary(evidence(natural=natural(LOW))), values=values)
    (check,) = verdict_of(found).failed
    assert check.name == "natural values" and cure in check.cure and bool(check.cure) == bool(cure)
    inside = "Every value is natural, but such values do not flip most preferences in both directions: to one 30.0%"
    assert (inside in check.found) == (values == "natural"), "what failed"


def test_without_evidence_nothing_is_said_about_the_labels_of_the_pairs():
    """The pairs may state an expected word: this was not measured."""
    verdict = verdict_of(summary(Evidence(level="none")))
    known = next(check for check in verdict.checks if check.name == "the model knows it")
    assert verdict.word == "no evidence" and known.passed is None
    assert known.found == "Not measured." and "--evidence quick" in known.cure
