"""The verdict: what may be said about a run's best intervention. All rules are in this file.

A search that may set any unit to any value flips almost any preference, so flips alone are no evidence. A verdict is
the strongest word whose conditions hold:

- *decide*: every check was made and passed.
- *switch*: the model knows the phenomenon, the units take it nearer to what it says itself after the counterfactual
  prefix, and they flip its preference reliably and more often than random sets do, without making ordinary text more
  than twice as perplexing. Some other check failed, was not decided or was not made.
- *nudge*: the same, but the units flip the preference not reliably, or not clearly more often than random sets do
  (p <= 0.05), or they break the model, or there were too few random sets to tell.
- *no evidence*: anything else, such as units that move little more than the asked words.

A question of two lists of prompts asks no words. A prompt then counts as flipped if the edited model is nearer to what
it says after the partner of the prompt than to what it says untouched.

A check has three outcomes. It is not decided if the 95% interval of its figure contains the threshold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pivotal.evidence.intervals import exact_low
from pivotal.printing import chance
from pivotal.records.evidence import (
    Check,
    Effect,
    Evidence,
    Interchange,
    Knowledge,
    Necessity,
    NullSearch,
    Share,
    Verdict,
    Word,
)
from pivotal.records.serial import replace
from pivotal.records.summary import Summary

HALF = 0.5
"""Chance for two words, and the least share of flips that is reliable."""
LEAST_PREFIXES = 10
"""The fewest distinct held-out prefixes in each direction."""
LEAST_UNSEEN = 8
"""The fewest prefixes, to learn values on and to score them, for which unseen words are reported."""
LEAST_GAP = 0.01
"""The least median KL between what the model says after a prompt and after its partner, in nats."""
LEAST_MASS = 1e-5
"""The least median probability of the words of both labels together."""
LEAST_CUE = 0.5
"""The least that the cue tells about labels without noise: 0 is what random labels give, 1 is one label for each cue
word."""
LEAST_CLOSED = 0.25
"""The least share of the gap to the counterfactual that an edit closes where words are asked. In the bench, the
interval begins at 21% or less if the words ask nothing, and at 27% or more if the units are known."""
DECIDES, NUDGES = 0.01, 0.05
"""The largest p-values of the random control."""
MOST_DIRECT = 0.5
"""The largest share of the effect that may go straight to the output projection."""
MOST_TEXT = 1.25
"""The largest factor by which the perplexity of ordinary text may grow."""
BREAKS = 2.0
"""A larger factor breaks the model, and units that break it do not switch anything."""
MOST_MOVED = 0.05
"""The largest change in accuracy that counts as none, for other phenomena and for necessity."""
TAIL = 0.025
"""What an interval leaves below it, before it is corrected for the number of phenomena."""

EXCEEDS, EACH = (f"{which} interval must exceed {HALF:.0%}" for which in ("the", "each"))
NO_PREFERENCE = Check(name="necessity", passed=None, found="Without words, there is no preference to lose.")
QUICK = "Repeat the command with --evidence quick."
FULL = "Collect it with --evidence full."
FORMS = "Give the pairs counterfactual prefixes, with the cue in its other form: the columns counterfactual.LABEL."
NATURAL = "Search inside the natural range with --values natural."


def verdict_of(summary: Summary) -> Verdict:
    """The verdict on the best run of a summary, with every check behind it."""
    evidence = summary.evidence or Evidence(level="none")
    asked = can_be_asked(evidence)
    flips = reliable(summary)
    near, control = fidelity(summary), random_sets(summary)
    others = (
        unseen_words(summary, evidence),
        natural_values(summary, evidence),
        through_the_model(summary, evidence),
        ordinary_text(summary, evidence),
        other_phenomena(summary, evidence),
        necessary(evidence.necessity) if summary.asks_words else NO_PREFERENCE,
        permuted_labels(summary, evidence.permuted),
    )
    checks = (*asked, near, flips, control, *others)
    word = _word(summary, (*asked, near), (flips, control), others)
    needed = [check for check in (*asked, near) if not check.passed]
    why = _outcomes(needed + [flips] * turn_away(summary) or [control])
    return Verdict(word=word, sentence=_sentence(word, checks, summary, evidence, why), checks=checks)


def _word(
    summary: Summary, needed: tuple[Check, ...], reliably: tuple[Check, ...], others: tuple[Check, ...]
) -> Word:
    if not all(check.passed for check in needed) or turn_away(summary):
        return "no evidence"
    p = summary.controls.p_value
    if all(check.passed for check in reliably) and not breaks(summary.evidence):
        return "decide" if all(check.passed for check in others) else "switch"
    return "nudge" if p is not None and p <= NUDGES else "no evidence"


def breaks(evidence: Evidence | None) -> bool:
    """Whether the units make ordinary text more than twice as perplexing."""
    return evidence is not None and evidence.text is not None and evidence.text.ratio > BREAKS


def _sentence(word: Word, checks: tuple[Check, ...], summary: Summary, evidence: Evidence, why: str) -> str:
    """The verdict in words. `why` says which checks keep it from being a nudge, if it is none."""
    failed = [check.name for check in checks if check.passed is False]
    undecided = [check.name for check in checks if check.undecided]
    missing = [check.name for check in checks if check.passed is None and not check.undecided]
    text = evidence.text
    preference = "the model's preference" if summary.asks_words else "what the model says next"
    if evidence.knowledge is not None and evidence.knowledge.asked == 1:
        preference += " between these two words ({}, {})".format(*summary.example.words)
    meaning = {
        "decide": f"Decide: these units decide {preference if '(' in preference else 'the phenomenon in this model'}.",
        "switch": f"Switch: these units switch {preference}.",
        "nudge": f"Nudge: these units change {preference}, but {_short_of(failed, undecided, breaks(evidence))}.",
        "no evidence": f"No evidence: these figures do not show that the units decide anything, because {why}.",
    }[word]
    parts = [meaning]
    if word != "no evidence" and text is not None and breaks(evidence):
        parts.append(f"The perplexity of ordinary text grows by a factor of {text.ratio:,.1f}.")
    if failed:
        parts.append(f"Failed checks: {', '.join(failed)}.")
    if undecided:
        parts.append(f"Not decided: {', '.join(undecided)}.")
    if missing:
        parts.append(f"Not checked: {', '.join(missing)}.")
    return " ".join(parts)


def _outcomes(checks: Sequence[Check]) -> str:
    """Which checks failed, could not be decided or did not run."""
    names: dict[str, list[str]] = defaultdict(list)
    for check in checks:
        undone = "could not be decided" if check.undecided else "did not run"
        names["failed" if check.passed is False else undone].append(f"“{check.name}”")
    return ", and ".join(f"{' and '.join(said)} {outcome}" for outcome, said in names.items())


def _short_of(failed: Sequence[str], undecided: Sequence[str], breaking: bool) -> str:
    """What keeps a nudge from being a switch."""
    flips, clearly = "flips" not in (*failed, *undecided), "clearly more often than random units do"
    if flips and "random sets" in undecided:
        return "there were too few random sets to say more"
    if flips and "random sets" in failed:
        return f"not {clearly}"
    if flips and breaking:
        return "they break the model"
    return f"neither reliably nor {clearly}" if "random sets" in failed else "not reliably"


# -- can the question be asked? ----------------------------------------------------------------------------


def known(evidence: Evidence) -> Check:
    """Whether the untouched model prefers the expected word more often than chance, for both labels, and whether it
    does so because of the cue: changing the cue to its other form must flip its own preference, in both directions.
    Otherwise the labels may merely say which words the model prefers, and there is nothing that units could carry."""
    name, knowledge, swap = "the model knows it", evidence.knowledge, evidence.swap
    if knowledge is None:
        return _open(name, QUICK)
    said, outcomes = [], []
    if shares := {
        label: one.accuracy for label, one in knowledge.by_label.items() if one.accuracy is not None
    }:
        said.append(f"The untouched model prefers the expected word: {_listed(shares)}; {EACH}.")
        outcomes.append(_above_half(shares) if len(shares) == 2 else False)
    if len(shares) == 1:
        said.append("All pairs have the same label.")
    if swap is not None:
        said.append(
            f"A change of the cue to its other form flips its preference: {_listed(swap.by_direction)}; {EACH}."
        )
        outcomes.append(_above_half(swap.by_direction) if len(swap.by_direction) == 2 else False)
    else:
        said.append("Without counterfactual prefixes, nothing shows whether the cue matters.")
        outcomes.append(False if labels_ignore_cue(knowledge) else None)
    passed = _all(outcomes)
    if labels_ignore_cue(knowledge) and swap is not None and _above_half(swap.by_direction):
        said.append("Some labels contradict the cue: they are noisy.")
    elif labels_ignore_cue(knowledge):
        said.append("The labels do not depend on the cue.")
    return _decided(name, passed, " ".join(said), "" if passed or swap is not None else FORMS)


def can_be_asked(evidence: Evidence) -> tuple[Check, ...]:
    """The checks of the question itself."""
    knowledge = evidence.knowledge
    if knowledge is None or knowledge.gap is None:
        return known(evidence), both_directions(knowledge), likely_words(knowledge)
    differ = Check(
        name="the lists differ",
        passed=knowledge.gap >= LEAST_GAP,
        found="The untouched predictions after a prompt and after its partner differ by a median KL of "
        f"{knowledge.gap:.3f}; at least {LEAST_GAP:g} is needed.",
    )
    return differ, both_directions(knowledge)


def labels_ignore_cue(knowledge: Knowledge | None) -> bool:
    """Whether the labels are those of the words, or random, or noisy, whatever the cue."""
    return knowledge is not None and knowledge.cue_tells is not None and knowledge.cue_tells < LEAST_CUE


def both_directions(knowledge: Knowledge | None) -> Check:
    """Whether there are enough held-out prefixes to flip to each label."""
    name = "both directions"
    if knowledge is None:
        return _open(name)
    listed = " and ".join(f"{n:,} to “{label}”" for label, n in knowledge.prefixes_towards.items())
    return Check(
        name=name,
        passed=enough_to_flip(knowledge.prefixes_towards),
        found=f"Held-out prefixes to flip: {listed}; at least {LEAST_PREFIXES} each are needed.",
    )


def enough_to_flip(towards: Mapping[str, int]) -> bool:
    """Whether there are enough held-out prefixes to flip to each label."""
    return min(towards.values()) >= LEAST_PREFIXES


def likely_words(knowledge: Knowledge | None) -> Check:
    """Whether the model ever predicts the words."""
    name = "likely words"
    if knowledge is None or knowledge.mass is None:
        return _open(name)
    return Check(
        name=name,
        passed=knowledge.mass >= LEAST_MASS,
        found=f"The words of both labels together have a median probability of {chance(knowledge.mass)}; at least "
        f"{chance(LEAST_MASS)} is needed.",
    )


# -- do the units flip it? ---------------------------------------------------------------------------------


def reliable(summary: Summary) -> Check:
    """Whether most held-out preferences flip, in both directions, and the edit towards a label keeps most preferences
    that already agree with it: an edit that flips these too inverts the preference and sets nothing."""
    shares, away = summary.best_run.by_direction, _away(summary)
    found = f"Held-out preferences flipped: to {_listed(shares, ', to ')}; {EACH}."
    outcomes = [_above_half(shares)]
    if away is not None:
        outcomes.append(away.high < HALF or (None if away.low <= HALF else False))
        found += (
            f" The edit turns {_percent(away)} of the preferences that already agree with it the other way; the "
            f"interval must stay below {HALF:.0%}, and the share below {summary.best_run.interval[0]:.1%}."
        )
    return _decided("flips", False if turn_away(summary) else _all(outcomes), found)


def turn_away(summary: Summary) -> bool:
    """Whether the units turn preferences away from a label about as often as towards it, as units do that carry
    something else than the labels say."""
    away = _away(summary)
    return away is not None and away.value >= summary.best_run.interval[0]


def _away(summary: Summary) -> Share | None:
    return None if summary.evidence is None else summary.evidence.away


def fidelity(summary: Summary) -> Check:
    """Whether the edit takes the model to what it says itself after the counterfactual prefix, over the whole
    vocabulary: it closes more of the gap than random units do and, where words are asked, more than a quarter. Units
    that move little more than the asked words do not."""
    closed = summary.best_run.fidelity
    if closed is None or closed.floor is None:
        return _open("fidelity")
    share, (by_chance, _) = closed.asked, closed.floor
    least = max(LEAST_CLOSED, by_chance) if summary.asks_words else by_chance
    found = (
        f"Of the gap to the prediction after the counterfactual prefix, the edit closes {_percent(share)}, random "
        f"units {by_chance:.1%}; the interval must exceed {least:.1%}."
    )
    passed = None if share.low <= least <= share.high else share.low > least
    return _decided("fidelity", passed, found, "" if passed else "Search with --objective counterfactual.")


def random_sets(summary: Summary) -> Check:
    """Whether random sets of as many units in the same layers do worse."""
    control = summary.controls
    if control.p_value is None:
        return _open("random sets", "Use --controls 99.", "No random sets were tried.")
    # A set that does as well counts against the units, however few sets there are. Without one, few sets say nothing.
    none_as_good = round(control.p_value * (1 + control.sets)) == 1
    undecided = none_as_good and least_p(control.sets) > DECIDES
    return Check(
        name="random sets",
        passed=None if undecided else control.p_value <= DECIDES,
        undecided=undecided,
        found=f"{control.sets} random sets in the same layers flip {control.best or 0:.1%} at best: p = "
        f"{control.p_value:.2g}; at most {DECIDES:g} is needed{', which so few sets cannot reach' * undecided}.",
        cure="Use --controls 99." if least_p(control.sets) > DECIDES else "",
    )


def least_p(sets: int) -> float:
    """The smallest p-value that so many random sets can give."""
    return 1 / (1 + sets)


def limit_of(controls: int) -> str:
    """What so few random sets exclude, before a search; empty if every verdict can be reached."""
    if least_p(controls) <= DECIDES:
        return ""
    best = "nudge" if least_p(controls) <= NUDGES else "no evidence"
    tried = "Without random sets" if not controls else f"With --controls {controls}"
    return f"{tried} the verdict is '{best}' at best; 'switch' and 'decide' need --controls {round(1 / DECIDES) - 1}."


def unseen_words(summary: Summary, evidence: Evidence) -> Check:
    """Whether the units flip most preferences about words with which their values were not learned."""
    name, unseen = "unseen words", evidence.unseen_words
    if summary.values == "interchange":
        return _met(name, "An interchange learns no values, so it cannot depend on the words.")
    if unseen is None and evidence.level == "none":
        return _open(name, QUICK)
    if unseen is None:
        found = (
            f"The words of the pairs do not vary enough: {LEAST_UNSEEN} held-out prefixes must have unseen words "
            f"only, and {LEAST_UNSEEN} training prefixes none of them."
        )
        return _open(name, found=found)
    slots = ", ".join(unseen.slots)
    return _decided(
        name,
        _above_half({"": unseen.flip_accuracy}),
        f"With values learned without their words ({slots}), {_percent(unseen.flip_accuracy)} of the held-out "
        f"preferences flip; {EXCEEDS}.",
    )


# -- what do the flips mean? -------------------------------------------------------------------------------


def natural_values(summary: Summary, evidence: Evidence) -> Check:
    """Whether the units flip most preferences within their natural range, or with the values of real sentences."""
    name, natural, swapped = "natural values", evidence.natural, evidence.interchange
    if summary.values == "interchange":
        return _met(name, "Each unit takes the state that it has in the counterfactual prefix.")
    if natural is None:
        return _open(name)
    kept = summary.values == "natural"
    passed = True if _agrees(swapped) else _above_half(natural.by_direction)
    if kept and passed is False:
        shares = _listed(natural.by_direction, ", to ")
        found = f"Every value is natural, but such values do not flip most preferences in both directions: to {shares}"
    elif kept:
        found = f"Set inside their natural range, the units flip {_percent(natural.flipped)}"
    else:
        inside = sum(one.inside for one in natural.ranges)
        where = f"{inside} of {len(natural.ranges)} units are set inside their natural range. "
        found = (where if natural.ranges else "") + f"Moved into it, they flip {_percent(natural.flipped)}"
    if swapped is not None:
        found += f"; set to their counterfactual states, {_percent(swapped.flipped)}"
    found += f". In both directions, {EXCEEDS}{', in one of the two ways' * (swapped is not None)}."
    return _decided(name, passed, found, "" if kept else NATURAL)


def _all(outcomes: Sequence[bool | None]) -> bool | None:
    """Whether all passed; None if some are not decided and none failed."""
    return False if False in outcomes else None if None in outcomes else True


def _above_half(shares: Mapping[str, Share]) -> bool | None:
    """Whether each share lies above one half; None if the interval of one contains it and none lies below."""
    if not shares or any(share.high < HALF for share in shares.values()):
        return False
    return True if all(share.low > HALF for share in shares.values()) else None


def _agrees(swapped: Interchange | None) -> bool:
    return swapped is not None and bool(_above_half(swapped.by_direction))


def through_the_model(summary: Summary, evidence: Evidence) -> Check:
    """Whether most of the effect goes through later layers or steps. A direct effect is no concern if the states of
    real sentences have it too: then the output projection reads the phenomenon from these units anyway."""
    name, paths = "through the model", evidence.paths
    if paths is None or paths.direct is None:
        return _open(name, found="The direct path was not measured.")
    rule = f"at most {MOST_DIRECT:.0%} is allowed, unless their counterfactual states flip most preferences"
    found = f"{paths.direct:.0%} of the effect goes straight from the units to the output projection; {rule}."
    exchanged = summary.values == "interchange" and _above_half(summary.best_run.by_direction)
    if paths.direct > MOST_DIRECT and (exchanged or _agrees(evidence.interchange)):
        return _met(name, f"{found} They do.")
    return Check(name=name, passed=paths.direct <= MOST_DIRECT, found=found)


def ordinary_text(summary: Summary, evidence: Evidence) -> Check:
    """Whether ordinary text stays as likely."""
    name, text = "ordinary text", evidence.text
    if text is None and evidence.level != "none":
        return _met(name, "This model cannot read ordinary text.")
    if text is None:
        return _open(name)
    edited = ", ".join(f"{value:.1f} towards {label}" for label, value in text.edited.items())
    low, high = text.interval
    found = _decided(
        name,
        None if low <= MOST_TEXT < high else high <= MOST_TEXT,
        f"Perplexity of {text.text}: {text.untouched:.1f} untouched, {edited}: at most {text.ratio:.2f} times as much "
        f"({low:.2f} to {high:.2f}); {MOST_TEXT:g} is allowed.",
    )
    return _of_means(found, summary, evidence.interchange)


def other_phenomena(summary: Summary, evidence: Evidence) -> Check:
    """Whether phenomena that have nothing to do with this one, and that the model knows, stay as they are."""
    name = "other phenomena"
    unrelated = [one for one in evidence.effects if not one.related and one.untouched.low > HALF]
    if not unrelated and evidence.level == "full":
        return _met(name, "This model can score no other phenomenon.")
    if not unrelated:
        return _open(name, FULL)
    moved = [one for one in unrelated if one.moved > MOST_MOVED]
    outside = [one for one in moved if _surely_moved(one, len(unrelated)) > one.expected]
    worst = max(outside or unrelated, key=lambda effect: effect.moved)
    found = Check(
        name=name,
        passed=not outside,
        found=f"Of {len(unrelated)} unrelated phenomena that the model knows, {len(moved)} move by more than "
        f"{100 * MOST_MOVED:.0f} points, {len(outside)} of them more than random sets with the same KL and a real "
        f"change of the cue do; none may. {worst.phenomenon} moves by {100 * worst.moved:.1f} points from "
        f"{worst.untouched.value:.1%}.",
    )
    return _of_means(found, summary, evidence.interchange)


def _surely_moved(effect: Effect, phenomena: int) -> float:
    """The least change in accuracy that an exact paired test does not exclude, corrected for the number of phenomena
    and of directions. Its observations are prefixes."""
    if not effect.changed:
        return effect.moved
    least, per_pair = [], effect.prefixes / effect.pairs
    for wrong, right in effect.changed.values():
        discordant = round((wrong + right) * per_pair)
        more = min(discordant, round(max(wrong, right) * per_pair))
        share = exact_low(more, discordant, TAIL / (phenomena * len(effect.changed)))
        least.append(max(0.0, 2 * share - 1) * (wrong + right) / effect.pairs)
    return max(least)


def _of_means(check: Check, summary: Summary, swapped: Interchange | None) -> Check:
    """A check of side effects, which for an interchange is made with the means of the exchanged states. It is not
    decided if it would pass, but the means do not flip most preferences of the phenomenon itself: such means show
    little by leaving everything else unchanged."""
    fixed = None if swapped is None else swapped.fixed
    if summary.values != "interchange" or not check.passed or fixed is None or fixed.low > HALF:
        return check
    return replace(
        check,
        passed=None,
        found=f"{check.found} This was measured with the means of the exchanged states, which flip only "
        f"{_percent(fixed)} of the preferences.",
    )


def necessary(necessity: Necessity | None) -> Check:
    """Whether the model is less often right without what the units say than without what any random units say, by more
    than 5 points."""
    name = "necessity"
    if necessity is None:
        return _open(name, QUICK)
    lost = necessity.lost
    passed = lost.low > MOST_MOVED or (None if lost.value > 0 and lost.high > MOST_MOVED else False)
    return _decided(
        name, passed, f"{necessity.told()} The interval must exceed {100 * MOST_MOVED:.0f} points."
    )


def permuted_labels(summary: Summary, permuted: NullSearch | None) -> Check:
    """Whether the same search flips less if the labels mean nothing."""
    name, (low, high) = "permuted labels", summary.best_run.interval
    if summary.values == "interchange":
        return _met(name, "An interchange learns no values, so it cannot learn permuted labels.")
    if permuted is None:
        return _open(name, FULL)
    best = max(permuted.flip_accuracy)
    return _decided(
        name,
        None if low <= best <= high else best < low,
        f"The same search with the words of the labels exchanged for half of the prefixes flips {best:.1%}, against "
        f"{summary.best_run.flip_accuracy:.1%}; it must flip less than {low:.1%}, where that interval begins.",
    )


def _open(name: str, cure: str = "", found: str = "Not measured.") -> Check:
    """A check that was not made."""
    return Check(name=name, passed=None, found=found, cure=cure)


def _met(name: str, found: str) -> Check:
    return Check(name=name, passed=True, found=found)


def _decided(name: str, passed: bool | None, found: str, cure: str = "") -> Check:
    """A check that was made. It is not decided if `passed` is None, because an interval contains the threshold."""
    return Check(name=name, passed=passed, undecided=passed is None, found=found, cure=cure)


def _listed(shares: Mapping[str, Share], between: str = ", ") -> str:
    return between.join(f"{label} {_percent(share)}" for label, share in shares.items())


def _percent(share: Share) -> str:
    return f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
