"""The checks on models whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.interventions import intervention_of
from tests.models.small import recurrent
from tests.planted import PAIRS, PLANTED

from pivotal import Problem, Question
from pivotal.evidence.checks import (
    dose_response,
    interchange,
    natural_range,
    necessity,
    paths_of,
    turned_away,
)
from pivotal.evidence.controls import permuted, search_permuted
from pivotal.evidence.examination import Examination, right_of, towards
from pivotal.evidence.knowledge import cue_swap
from pivotal.evidence.redundancy import redundancy
from pivotal.evidence.rivals import rivals_of
from pivotal.evidence.side_effects import Subject, effect_on, text_cost, to_be_asked
from pivotal.jobs.find import find
from pivotal.models import RecurrentLM
from pivotal.models.edits import dense
from pivotal.problem.text import OrdinaryText
from pivotal.questions import MinimalPair, PairSet, prompt_pairs
from pivotal.report.evidence import further_table, interchange_sentence, redundancy_sentence
from pivotal.searches import Exchange, LearnedMask


def test_the_dose_runs_from_untouched_to_the_found_values(problem, found):
    dose = dose_response(Examination(found, problem))
    at = dict(zip(dose.doses, dose.flip_accuracy, strict=True))
    assert at[0.0] == 0 and at[1.0] == 1 and list(dose.flip_accuracy) == sorted(dose.flip_accuracy)
    assert dose.kl[0] == 0 and list(dose.kl) == sorted(dose.kl)
    assert dose.half is not None and 0 < dose.half < 1
    assert (dose.monotone, dose.wrong_way) == (1, 0)
    # Values of the wrong sign push every pair away from its target.
    wrong = dose_response(Examination(replace(found, values=-found.values), problem))
    assert (wrong.half, wrong.wrong_way) == (None, 1)


def test_an_edit_towards_a_label_turns_preferences_away_only_if_labels_are_permuted(problem, found):
    assert turned_away(Examination(found, problem)).value == 0
    mixed = Examination(found, problem.on(permuted(problem.pairs)))
    flipped, away = mixed.share(mixed.flipped), turned_away(mixed)
    assert 0.3 < flipped.value < 0.7 and flipped.low < away.value < flipped.high


def test_the_decoder_reads_planted_units_directly(problem, found):
    paths = paths_of(Examination(found, problem))
    assert paths.change > 0
    assert paths.direct == pytest.approx(1, abs=1e-4) and paths.last_step == pytest.approx(1, abs=1e-4)
    # At the cue, the edit reaches the verb through the recurrence, unless the cue is the last word.
    late = [i for i, pair in enumerate(PAIRS) if pair.cue < len(pair.prefix.split()) - 1][:100]
    single = Problem(PLANTED.model, replace(PAIRS, pairs=tuple(PAIRS[i] for i in late)), steps="single")
    assert paths_of(Examination(replace(found, steps="single"), single)).direct == 0


def two_layers() -> tuple[RecurrentLM, Problem]:
    """A model that prefers one word after some prefixes and the other after others."""
    model = recurrent("<eos> <unk> The cat dogs now runs run", layers=2, scale=6, bias=False)
    texts = ("The cat", "The dogs", "The cat now", "The dogs now")
    pairs = tuple(MinimalPair(text, 1, ("runs", "run")) for text in texts)
    return model, Problem(model, PairSet("four", ("singular", "plural"), pairs))


def test_the_direct_path_is_what_remains_with_the_rest_of_the_model_frozen():
    model, problem = two_layers()
    space = model.unit_space()
    units = (space.unit(2), space.unit(10))
    found = intervention_of(model, units, [[0.9, -0.8], [-0.7, 0.6]])
    paths = paths_of(Examination(found, problem))
    # By hand: the unit of the last layer is set in the last state; the unit of the first layer has no direct path.
    rows = problem.tree.live_row[problem.tree.leaf]
    states = problem.tensors.clean[rows].clone()
    states[:, 2] = torch.tensor(found.values[problem.direction, 1])
    logits = model.readout(states)
    d, t = (torch.tensor([6 + int(w) for w in which]) for which in (1 - problem.direction, problem.direction))
    each = torch.arange(len(problem))
    direct = problem.clean_log_ratio - (logits[each, d] - logits[each, t])
    total = problem.clean_log_ratio - problem.run(*dense(found, problem.space)).log_ratio[0]
    assert paths.direct == pytest.approx(float(direct.mean() / total.mean()), abs=1e-4)


@pytest.mark.slow
def test_a_real_change_of_the_cue(problem):
    swap = cue_swap(problem)
    assert swap.flipped.value == 1 and {share.value for share in swap.right.values()} == {1.0}
    # By hand, for the first pairs: KL from the noun on, over all positions.
    model, kl = PLANTED.model, []
    part = problem.sample(128)
    for pair, direction in zip(part.pairs, part.direction, strict=True):
        texts = [pair.prefix.split(), pair.counterfactuals[direction].split()]
        total = 0.0
        for end in range(2, len(texts[0]) + 1):
            p, q = (
                model.next_logits([model.encode(" ".join(words[:end])).ids])[0].log_softmax(-1)
                for words in texts
            )
            total += float((p.exp() * (p - q)).sum())
        kl.append(total / (len(texts[0]) + 1))
    assert swap.kl == pytest.approx(np.mean(kl), rel=1e-3)
    bare = tuple(replace(pair, counterfactuals=("", "")) for pair in PAIRS[:20])
    assert cue_swap(Problem(PLANTED.model, replace(PAIRS, pairs=bare))) is None


def test_a_change_that_adds_a_token_at_the_end():
    """ "He did" and "He didn't" (did n't) differ in no token of the first. Their last positions are compared."""
    vocabulary = ["<eos>", "<unk>", "He", "did", "n't", "yet", "already"]
    model = recurrent(vocabulary, "rnn")
    texts = "He did", "He didn't"
    p, q = (model.next_logits([model.encode(text).ids])[0].log_softmax(-1) for text in texts)
    words = sorted(("yet", "already"), key=lambda word: -p[vocabulary.index(word)])  # the first is preferred
    pair = MinimalPair(texts[0], 1, (words[0], words[1]), counterfactuals=texts)
    swap = cue_swap(Problem(model, PairSet("added", ("yes", "no"), (pair,))))
    assert swap.kl == pytest.approx(float((p.exp() * (p - q)).sum()) / 3, rel=1e-4) and swap.kl > 0


def test_ordinary_text_costs_nothing_if_nothing_changes(found):
    model, lines = PLANTED.model, ["The noun0a near verb0as .", "The noun1bs often quite verb1b", "nothing"]
    cost = text_cost(found, OrdinaryText(model, lines))
    assert cost.tokens == 4 + 4  # a sentence of one token predicts nothing
    p = []
    for line in ("The noun0a near verb0as <unk>", "The noun1bs often quite verb1b"):
        ids = model.encode(line).ids
        log_p = [model.next_logits([ids[:k]])[0].log_softmax(-1)[ids[k]] for k in range(1, len(ids))]
        p += [float(x) for x in log_p]
    assert cost.untouched == pytest.approx(np.exp(-np.mean(p)), rel=1e-4)
    assert set(cost.edited) == {"singular", "plural"} and cost.ratio > 1
    # A unit that nothing reads leaves the text as it is.
    decoys = replace(found, units=PLANTED.decoys)
    same = text_cost(decoys, OrdinaryText(model, lines))
    assert same.ratio == pytest.approx(1, abs=1e-5)
    assert text_cost(found, OrdinaryText(model)) is None, "the model knows no word of it but The"
    single = replace(found, steps="single")
    assert text_cost(single, OrdinaryText(model, ["The noun0a"])) is None, "nothing follows the edit"


def test_effects_on_the_same_question_and_on_another(found):
    subject = Subject.of(PAIRS)
    same = effect_on(found, PLANTED.model, PAIRS.sample(100), subject)
    assert same.related and same.flipped is not None and same.flipped.value == 1
    # All edited towards one number: the verbs of that number are preferred everywhere.
    for label, share in same.edited.items():
        right = np.mean([pair.label == label for pair in PAIRS.sample(100)])
        assert share.value == pytest.approx(right)
    renamed = PairSet("other", ("one", "many"), tuple(replace(pair, label="") for pair in PAIRS[:60]))
    assert effect_on(found, PLANTED.model, renamed, subject).related, "it asks the same words"
    apart = replace(subject, words=frozenset(), features=frozenset({"number"}))
    rivals = rivals_of(Examination(found, Problem(PLANTED.model, PAIRS[:60])), 0)
    other = effect_on(found, PLANTED.model, renamed, apart, rivals)
    assert not other.related and other.flipped is None and other.untouched.value == 1
    assert sum(sum(both) for both in other.changed.values()) == 60 and other.by_chance is not None
    assert effect_on(found, PLANTED.model, replace(renamed, features=("number",)), apart).related
    assert other.moved == pytest.approx(0.5, abs=0.1), "half of the preferences move, towards either number"


@pytest.mark.parametrize("steps", ["every", "single"])
def test_another_phenomenon_is_made_ready_once_for_all_interventions(found, steps):
    """Both directions and all interventions share its tree; the effects are those of its own directed tree."""
    subject, model = Subject.of(PAIRS), PLANTED.model
    ready, directed = to_be_asked(model, PAIRS, steps, 80), Problem(model, PAIRS.at_most(80), steps=steps)
    assert len(ready) == 80 and ready.tree.n_live <= directed.tree.n_live - (steps == "every")
    for values in (found.values, -found.values, found.values / 2):
        used = replace(found, values=values, steps=steps)
        effect = effect_on(used, model, ready, subject)
        assert effect.flipped.value == float(directed.run_intervention(used).flipped().float().mean())
        for d, direction in enumerate(used.directions):
            edit = towards(dense(used, directed.space), [d, d])
            assert effect.edited[direction].value == right_of(directed, *edit).mean()


def test_rivals_are_asked_only_what_moves(found):
    model, nothing = PLANTED.model, Subject()
    rivals = rivals_of(Examination(found, Problem(model, PAIRS[:60])), 0)
    still = effect_on(replace(found, units=PLANTED.decoys), model, PAIRS[:60], nothing, rivals)
    assert still.moved == 0 and still.by_chance is None
    assert effect_on(found, model, PAIRS[:60], nothing, rivals).by_chance is not None


def test_a_real_change_of_the_cue_changes_its_words_in_other_questions():
    subject = Subject.of(PAIRS)
    own, other = subject.changed(PAIRS[:5])
    assert len(own) == 5 and all(b.prefix in b_of.counterfactuals for b, b_of in zip(other, own, strict=True))
    assert not len(subject.changed(PairSet("none", ("a", "b"), (MinimalPair("x y", 0, ("a", "b"), "a"),)))[0])
    prompts = prompt_pairs({"one": "The noun0a near", "many": "The noun0as near"})
    assert not len(subject.changed(prompts)[0]), "no word could become right"
    lone = MinimalPair("Dogs near", 0, ("run", "runs"), counterfactuals=("Dog near", ""))
    assert Subject.of(PairSet("lone", ("a", "b"), (lone,))).forms == {"Dog": "Dogs", "Dogs": "Dog"}


def test_planted_units_are_necessary_and_decoys_are_not(problem, found):
    held = necessity(Examination(found, problem), 0)
    assert held.untouched.value == 1 and held.held.value < 0.8 and held.resampled < 0.8
    assert held.lost.value == pytest.approx(1 - held.held.value) and held.lost.low > 0.05
    assert held.random == (1,) * 5, "no random set comes near, so only the costliest on few prefixes are held"
    decoys = necessity(Examination(replace(found, units=PLANTED.decoys), problem), 0)
    assert decoys.held.value == 1 and len(decoys.random) == 5, "decoys cost nothing"
    assert decoys.lost.value == pytest.approx(min(decoys.random) - 1)


def test_permuted_labels_keep_the_preferences_and_lose_the_meaning():
    mixed = permuted(PAIRS, seed=1)
    assert len(mixed) == len(PAIRS) and Problem(PLANTED.model, mixed).clean_accuracy == 1
    exchanged = {pair.prefix for pair, old in zip(mixed, PAIRS, strict=True) if pair.words != old.words}
    kept = {pair.prefix for pair, old in zip(mixed, PAIRS, strict=True) if pair.words == old.words}
    assert not exchanged & kept and abs(len(exchanged) - len(kept)) <= 1
    for pair, old in zip(mixed, PAIRS, strict=True):
        if pair.prefix in exchanged:
            assert pair.words == old.words[::-1] and pair.label != old.label
            assert pair.counterfactuals == old.counterfactuals[::-1]


@pytest.mark.slow
def test_a_search_finds_little_where_there_is_nothing_to_find():
    train, test = PAIRS.split(200)
    problems = Problem(PLANTED.model, train), Problem(PLANTED.model, test)
    search = LearnedMask(max_units=3.0, updates=40, refit=10)
    mixed = search_permuted(search, *problems, seed=0)
    assert max(mixed.flip_accuracy) < 0.75 and len(mixed.units) == 1


def test_values_in_the_natural_range_stay_and_others_move(problem, found):
    natural = natural_range(Examination(found, problem))
    assert natural.flipped.value == 1 and len(natural.ranges) == 3
    for unit in natural.ranges:  # the states of a planted unit are about +-0.87
        assert -0.95 < unit.low < -0.8 and 0.8 < unit.high < 0.95 and not unit.inside
    inside = replace(found, values=0.5 * found.values)
    assert all(unit.inside for unit in natural_range(Examination(inside, problem)).ranges)
    # Clamped to their range, decoys and extreme values do what they can there.
    extreme = natural_range(Examination(replace(found, values=100 * found.values), problem))
    assert extreme.kl == pytest.approx(natural.kl)


@pytest.mark.parametrize("steps", ["every", "single"])
def test_counterfactual_states_of_planted_units_flip_everything(steps, found):
    problem = Problem(PLANTED.model, PAIRS.sample(200), steps=steps)
    swapped = interchange(Examination(replace(found, steps=steps), problem))
    assert swapped.flipped.value == 1 and swapped.whole_site.value == 1
    decoys = interchange(Examination(replace(found, units=PLANTED.decoys, steps=steps), problem))
    assert decoys.flipped.value == 0 and decoys.whole_site.value == 1
    # A unit less loses its class.
    fewer = interchange(Examination(replace(found.without(0), steps=steps), problem))
    assert fewer is not None and 0.5 < fewer.flipped.value < 0.8


@pytest.mark.parametrize("values", ["natural", "interchange"])
def test_an_interchange_scores_the_pairs_that_the_model_gets_wrong_apart(values, found, monkeypatch):
    """In a quarter of these pairs the forms are exchanged, so the model prefers the word of the other form."""
    pairs = PAIRS.sample(80)
    other = dict(zip(PAIRS.labels, PAIRS.labels[::-1], strict=True))
    turned = [replace(p, label=other[p.label], counterfactuals=p.counterfactuals[::-1]) for p in pairs[::4]]
    kept = [pair for i, pair in enumerate(pairs) if i % 4]
    problem = Problem(PLANTED.model, replace(pairs, pairs=(*turned, *kept)), values=values)
    assert problem.clean_accuracy == 0.75
    found = replace(found, found_with=values)
    # Planted units carry the number of the other form, so the model no longer prefers the word that it preferred.
    for units, flipped, wrong, accuracy in ((PLANTED.units, 1, 0, 0.75), (PLANTED.decoys, 0, 1, 0.25)):
        swapped = interchange(Examination(replace(found, units=units), problem))
        assert (swapped.flipped.value, swapped.flipped.n) == (flipped, 60)
        assert (swapped.wrong.value, swapped.wrong.n) == (wrong, 20)
        assert (swapped.accuracy.value, swapped.accuracy.n) == (accuracy, 80)
    assert "in 100% of the 20 in which the untouched model prefers it" in interchange_sentence(swapped)
    # A sample has as large a share of them, also where the problem itself leaves them out.
    monkeypatch.setattr("pivotal.evidence.checks._EXCHANGED", 4)
    mostly = Problem(PLANTED.model, replace(pairs, pairs=(*turned, *kept[::9])), objective="counterfactual")
    swapped = interchange(Examination(found, mostly))
    assert swapped.wrong.n > 1.5 * swapped.flipped.n


def test_an_interchange_of_everything_is_the_counterfactual_sentence():
    """Each of these sentences is the counterfactual of another, and some make the model prefer the other word."""
    model, _ = two_layers()
    texts = [f"The {a} {b}" for a in ("cat", "dogs", "now", "run") for b in ("cat", "dogs", "now", "runs")]
    others = [*texts[1:], texts[0]]
    pairs = tuple(
        MinimalPair(text, 1, ("runs", "run"), counterfactuals=(other, other))
        for text, other in zip(texts, others, strict=True)
    )
    problem = Problem(model, PairSet("many", ("singular", "plural"), pairs))
    space = model.unit_space()
    found = intervention_of(model, (space.unit(0), space.unit(8)), np.zeros((2, 2)))
    differ = np.mean(problem.direction != np.roll(problem.direction, -1))
    assert 0 < differ < 1
    swapped = interchange(Examination(found, problem))
    assert swapped.whole_site.value == pytest.approx(differ)


@pytest.mark.slow
def test_planted_units_decide_what_was_planted(tmp_path):
    search = LearnedMask(max_units=3.0, updates=60, refit=20)
    question = Question("planted", "planted", test=200)
    found = find(question, search, out=str(tmp_path / "run"), evidence="full")
    verdict = found.summary.verdict
    assert verdict.word == "decide", verdict
    further = found.summary.evidence and found.summary.evidence.redundancy
    assert further.ended and further.carrying == 1 and further.held is None
    assert "Redundancy: 1 disjoint set of units flips more" in redundancy_sentence(further)
    assert further_table(found.summary, further).rows[0][0] == "1"
    # Asking other phenomena later, with quick evidence, keeps the full evidence.
    again = find(question, search, out=str(tmp_path / "run"), others=())
    assert again.summary.evidence.level == "full"
    assert again.summary.verdict == verdict


@pytest.mark.slow
def test_a_second_set_that_says_the_same_is_found_and_no_third():
    """The output reads the decoys too, so either set flips every preference and neither is necessary."""
    model = PLANTED.model
    weights = {name: tensor.clone() for name, tensor in model._weights.items()}
    own, other = ([unit.index for unit in units] for units in (PLANTED.units, PLANTED.decoys))
    twins = {u: v for u in own for v in other if _reads_alike(weights["encoder.weight"], u, v)}
    assert len(twins) == 3
    for unit, twin in twins.items():
        weights["decoder.weight"][:, twin] = weights["decoder.weight"][:, unit]
    redundant = RecurrentLM("redundant", cell="rnn", words=model.words, weights=weights)
    train, test = PAIRS.sample(300).split(test=60, seed=0)
    problem = Problem(redundant, train, values="unbounded")
    search = Exchange(max_units=3)
    examination = Examination(search.solve(problem).best, problem.on(test))
    found = redundancy(search, examination, problem, level=0.4, seed=0, progress=lambda _: None)
    assert examination.flipped.all() and found.carrying == 2 and found.ended
    first, second = {unit.index for unit in examination.intervention.units}, found.sets[0]
    assert second.flipped.value == 1
    assert first | {int(unit.split(":")[1]) for unit in second.units} == {*own, *other}
    assert necessity(examination, 0).held.value == 1
    assert found.held.held.value < 0.8 and min(found.held.random) == 1


def _reads_alike(encoder: torch.Tensor, u: int, v: int) -> bool:
    """Whether two units are moved by the same words."""
    return bool(((encoder[:, u] != 0) == (encoder[:, v] != 0)).all())
