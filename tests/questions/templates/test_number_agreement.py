from __future__ import annotations

from collections import Counter

from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.templates import bundled, read_template

FILE = read_template(bundled()["number-agreement"])
PAIRS = FILE.pairs()
SIZES = {
    "simple": 600,
    "adv": 1800,
    "adv_adv": 1800,
    "adv_conjunction": 1200,
    "namepp": 1800,
    "nounpp": 2400,
    "nounpp_adv": 2400,
}


def test_sizes_and_balance():
    assert len(PAIRS) == 12_000 and PAIRS.groups == SIZES
    subjects, verbs = (len(FILE.lexicon[name].entries) for name in ("subject", "verb"))
    for group in SIZES:
        pairs = [pair for pair in PAIRS if pair.group == group]
        cells = Counter((pair.cue_word, pair.words, pair.label) for pair in pairs)
        # Every subject form with every verb, equally often.
        assert len(cells) == 2 * subjects * verbs and len(set(cells.values())) == 1


def test_prefixes_are_shared_enough_for_a_tree_to_pay():
    nodes, steps = set(), 0
    for pair in PAIRS:
        words = pair.prefix.split()
        steps += len(words)
        nodes |= {(pair.label, *words[: i + 1]) for i in range(len(words))}
    assert steps == 53_400 and steps / len(nodes) >= 6.5


def test_the_seed_decides():
    assert PAIRS.fingerprint() == "e2332b0c180ce958"  # changes only with a deliberate change of the data
    other = load_phenomenon("number-agreement", seed=1)
    assert other.fingerprint() != PAIRS.fingerprint() and other.groups == PAIRS.groups
    assert len(set(other)) == 12_000 and other.fingerprint() == "77b99b9b5d02485b"


def test_a_split_by_words_is_useful():
    train, test = PAIRS.split(test=1000, seed=0, by="words")
    assert (
        len(test) == 1000 and len(train) > 3000 and set(test.groups) == set(train.groups) == set(PAIRS.groups)
    )
    for slot in ("subject", "verb", "attractor", "name"):
        seen, unseen = ({dict(pair.lexemes).get(slot) for pair in part} - {None} for part in (train, test))
        assert seen and unseen and not seen & unseen


def test_the_cue_of_gender_bias_is_the_profession_and_no_pronoun_is_right():
    pairs = load_phenomenon("gender-bias")
    assert len(pairs) == 2873 and pairs.fingerprint() == "c684ef2b00714433"
    assert all(pair.lexemes == (("profession", pair.cue_word),) and pair.label == "" for pair in pairs)
    train, test = pairs.split(test=200, by="words")
    assert len(test) == 200 and train.dropped < 17
    assert not {pair.cue_word for pair in train} & {pair.cue_word for pair in test}
