"""Questions to `wiki-lstm` whose truth is known: most of them ask nothing, some ask number with noisy labels.

Half of the questions that ask nothing have no counterfactual prefixes. The other half state the other number of the
subject as one, which has nothing to do with the words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, product

import torch

import pivotal
from pivotal.evidence.controls import permuted
from pivotal.models.base import LanguageModel
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet

LABELS = ("first", "second")
SUBJECTS = (
    ("boy", "boys"),
    ("girl", "girls"),
    ("doctor", "doctors"),
    ("farmer", "farmers"),
    ("friend", "friends"),
    ("lawyer", "lawyers"),
    ("man", "men"),
    ("woman", "women"),
    ("poet", "poets"),
    ("singer", "singers"),
    ("teacher", "teachers"),
    ("victim", "victims"),
)
NOUNS = (
    *(form for forms in SUBJECTS for form in forms),
    *(
        "king",
        "queen",
        "author",
        "artist",
        "actor",
        "soldier",
        "captain",
        "city",
        "state",
        "school",
        "museum",
    ),
    *("island", "company", "band", "team", "army", "ship", "train", "house", "village", "church", "species"),
)
VERBS = ("saw", "found", "left", "took", "visited", "knew", "wanted", "heard", "reached", "liked")
WORD_PAIRS = (
    ("water", "office"),
    ("film", "paper"),
    ("city", "state"),
    ("house", "music"),
    ("school", "river"),
    ("team", "church"),
    ("garden", "letter"),
    ("horse", "ship"),
    ("song", "field"),
    ("world", "street"),
    ("island", "museum"),
    ("king", "army"),
    ("party", "train"),
    ("bridge", "forest"),
    ("window", "market"),
)
COMMON = [word for pair in WORD_PAIRS for word in pair]
RARE = ("lamp", "barrel", "mirror", "bottle", "rope")
NEVER = (
    ("whereas", "versus", "amongst", "whose", "whom"),
    ("until", "although", "because", "unless", "nor"),
)
"""Words that hardly ever follow an article."""
_EVEN = 0.1
"""How far from one half the share of openings may be after which a model prefers one of two words."""
PHENOMENA = (
    "number-agreement",
    "agreement-be",
    "agreement-have",
    "reflexive-number",
    "pronoun-gender-kinship",
)


def pairs_of(
    name: str, words: Sequence[tuple[str, str]], label: str | None, *, counterfactuals: bool
) -> PairSet:
    """Every opening with every pair of words. Without a label it is the number of the subject: first or second."""
    made = []
    for forms, verb, number, asked in product(SUBJECTS, VERBS, (0, 1), words):
        texts = [f"The {form} {verb} the" for form in forms]
        called = LABELS[number] if label is None else label
        other = LABELS.index(called) == 0 if called else False
        ordered = (texts[number], texts[1 - number]) if other else (texts[1 - number], texts[number])
        lexemes = (("subject", forms[0]), ("verb", verb))
        made.append(
            MinimalPair(
                texts[number],
                1,
                asked,
                called,
                lexemes=lexemes,
                counterfactuals=ordered if counterfactuals else ("", ""),
            )
        )
    return PairSet(name, LABELS, tuple(made))


def preferred(model: LanguageModel, pairs: PairSet) -> PairSet:
    """The pairs labelled with the word that the model prefers, as if that were what the cue calls for."""
    problem = Problem(model, pairs)
    made = []
    for pair, towards in zip(problem.pairs, problem.direction.tolist(), strict=True):
        label = LABELS[1 - towards]
        forms = pair.counterfactuals
        if forms[0] and pair.prefix != forms[1 - towards]:
            forms = (forms[1], forms[0])
        made.append(replace(pair, label=label, counterfactuals=forms))
    return PairSet(pairs.name, LABELS, tuple(made))


def model_labelled(model: LanguageModel, index: int) -> PairSet:
    """Two words that ask nothing. The label is the word that the model prefers."""
    name = f"model-labelled-{'-'.join(WORD_PAIRS[index])}"
    asked = pairs_of(name, [WORD_PAIRS[index]], LABELS[0], counterfactuals=index % 2 == 0)
    return preferred(model, asked)


def chosen_forms(model: LanguageModel, index: int) -> PairSet:
    """Two words that ask nothing. The label is the word that the model prefers, and the counterfactual prefix is the
    same opening with another subject, chosen because the model prefers the other word after it. So the model is always
    right, and the change of the cue always changes its mind."""
    words = _even(model)[index]
    asked = preferred(model, _openings(f"chosen-forms-{'-'.join(words)}", [words]))
    rng, made = random.Random(index), []
    for pair in asked:
        same = [one for one in asked if one.lexemes[1] == pair.lexemes[1] and one.label != pair.label]
        if same:
            both = (pair.prefix, rng.choice(same).prefix)
            made.append(replace(pair, counterfactuals=both if pair.label == LABELS[0] else both[::-1]))
    return PairSet(asked.name, LABELS, tuple(made))


def _openings(name: str, words: Sequence[tuple[str, str]]) -> PairSet:
    """Every subject with every verb and every pair of words, all with the first label."""
    made = (
        MinimalPair(
            f"The {noun} {verb} the", 1, asked, LABELS[0], lexemes=(("subject", noun), ("verb", verb))
        )
        for noun, verb, asked in product(NOUNS, VERBS, words)
    )
    return PairSet(name, LABELS, tuple(made))


@cache
def _even(model: LanguageModel) -> list[tuple[str, str]]:
    """Pairs of common words each of which the model prefers after nearly as many openings."""
    words = COMMON[1:]
    asked = Problem(model, _openings("even", [(COMMON[0], word) for word in words]))
    odds = asked.clean_log_ratio.cpu() * torch.as_tensor(1 - 2 * asked.direction)
    of = {word: odds[[pair.words[1] == word for pair in asked.pairs]] for word in words}
    shares = {(a, b): float((of[a] < of[b]).float().mean()) for a, b in combinations(words, 2)}
    found = [pair for pair, share in shares.items() if abs(share - 0.5) < _EVEN]
    random.Random(0).shuffle(found)
    return found


def one_bias(model: LanguageModel, index: int) -> PairSet:
    """Two pairs of words. After every opening the first label belongs to one of them and the second to the other, and
    the model mostly prefers the words of the labels."""
    first, second = WORD_PAIRS[index], WORD_PAIRS[(index + 4) % len(WORD_PAIRS)]
    name = f"one-bias-{'-'.join((*first, *second))}"
    sets = []
    for label, words in zip(LABELS, (first, second), strict=True):
        liked = Problem(model, pairs_of(name, [words], label, counterfactuals=False)).direction.mean() < 0.5
        wanted = liked == (
            label == LABELS[0]
        )  # whether the mostly preferred word already stands in the label's place
        sets.append(pairs_of(name, [words if wanted else words[::-1]], label, counterfactuals=index % 2 == 0))
    return PairSet(name, LABELS, tuple(pair for one in sets for pair in one))


def number_of_nothing(model: LanguageModel, index: int) -> PairSet:
    """Two words that ask nothing. The label is the number of the subject, which the model ignores."""
    words = WORD_PAIRS[index]
    return pairs_of(f"number-of-nothing-{'-'.join(words)}", [words], None, counterfactuals=True)


def frequency(model: LanguageModel, index: int) -> PairSet:
    """A common and a rare word. The label is the place of the common one."""
    common = [COMMON[(3 * index + k) % len(COMMON)] for k in range(2)]
    rare = [RARE[(index + k) % len(RARE)] for k in range(2)]
    name = f"frequency-{'-'.join((*common, *rare))}"
    shown = index % 2 == 0
    first = pairs_of(name, [(common[0], rare[0])], LABELS[0], counterfactuals=shown)
    second = pairs_of(name, [(rare[1], common[1])], LABELS[1], counterfactuals=shown)
    return PairSet(name, LABELS, (*first, *second))


def random_labels(model: LanguageModel, index: int) -> PairSet:
    """Words that ask nothing, with labels that alternate or are random: one pair of words, or one for each opening."""
    rng = random.Random(index)
    words = rng.sample(WORD_PAIRS, len(WORD_PAIRS) if index % 2 else 1)
    asked = pairs_of(f"random-labels-{index}", words, LABELS[0], counterfactuals=False)
    if index % 2:
        asked = asked.sample(200, index)
    labels = [LABELS[i % 2] if index % 4 == 0 else rng.choice(LABELS) for i in range(len(asked))]
    made = (replace(pair, label=label) for pair, label in zip(asked, labels, strict=True))
    return PairSet(asked.name, LABELS, tuple(made))


def shuffled(model: LanguageModel, index: int) -> PairSet:
    """A real phenomenon whose labels are shuffled among the pairs."""
    phenomenon = PHENOMENA[index % len(PHENOMENA)]
    pairs = pivotal.load_phenomenon(phenomenon).sample(300, index)
    labels = [pair.label for pair in pairs]
    random.Random(index).shuffle(labels)
    made = (
        replace(pair, label=label, counterfactuals=("", ""))
        for pair, label in zip(pairs, labels, strict=True)
    )
    return PairSet(f"shuffled-{phenomenon}-{index}", pairs.labels, tuple(made))


def never_predicted(model: LanguageModel, index: int) -> PairSet:
    """Two words that the model never predicts. The label is the one that it prefers."""
    of = NEVER[index // 5]
    words = (of[index % 5], of[(index + 1) % 5])
    asked = pairs_of(f"never-predicted-{'-'.join(words)}", [words], LABELS[0], counterfactuals=True)
    return preferred(model, asked)


def permuted_labels(model: LanguageModel, index: int) -> PairSet:
    """A real phenomenon whose words are exchanged for half of the prefixes."""
    phenomenon = PHENOMENA[index % len(PHENOMENA)]
    pairs = pivotal.load_phenomenon(phenomenon)
    return replace(permuted(pairs.at_most(400), index), name=f"permuted-{phenomenon}-{index}")


def one_sided(model: LanguageModel, index: int) -> PairSet:
    """A real phenomenon with the pairs of one label."""
    phenomenon, side = PHENOMENA[index // 2 % len(PHENOMENA)], index % 2
    pairs = pivotal.load_phenomenon(phenomenon)
    kept = tuple(pair for pair in pairs if pair.label == pairs.labels[side])
    return PairSet(f"one-sided-{phenomenon}-{pairs.labels[side]}", pairs.labels, kept).at_most(300)


def noisy(model: LanguageModel, index: int) -> PairSet:
    """Number agreement with 0, 10, 20 or 30% wrong labels. With 500 pairs instead of 2,000, the intervals of the
    untouched model reach one half at 20% noise, so that nothing is decided."""
    share, rng = (index % 4) / 10, random.Random(index)
    pairs = _number().sample(2000, index)
    other = dict(zip(pairs.labels, pairs.labels[::-1], strict=True))
    made = tuple(replace(pair, label=other[pair.label]) if rng.random() < share else pair for pair in pairs)
    return PairSet(f"number-with-{share:.0%}-noise-{index}".replace("%", "-percent"), pairs.labels, made)


@cache
def _number() -> PairSet:
    return pivotal.load_phenomenon("number-agreement")
