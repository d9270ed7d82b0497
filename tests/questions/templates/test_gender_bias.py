from __future__ import annotations

import pytest
from tests.paths import SHARED

from pivotal.questions.templates import bundled, read_template

VOCABULARY = SHARED / "data" / "gulordava" / "vocab.txt"
PAIRS = read_template(bundled()["gender-bias"]).pairs()


def test_sizes():
    assert len(PAIRS) == 2873 and PAIRS.fingerprint() == "c684ef2b00714433"
    assert set(PAIRS.groups.values()) == {169} and len(PAIRS.groups) == 17
    assert PAIRS.labels == ("he", "she") and all(pair.words == ("he", "she") for pair in PAIRS)


def test_the_cue_is_the_profession_and_no_pronoun_is_right():
    assert all(pair.lexemes == (("profession", pair.cue_word),) and pair.label == "" for pair in PAIRS)


def test_a_split_by_words_holds_out_professions():
    train, test = PAIRS.split(test=200, by="words")
    assert len(test) == 200 and train.dropped < 17
    assert not {pair.cue_word for pair in train} & {pair.cue_word for pair in test}


@pytest.mark.skipif(not VOCABULARY.exists(), reason="needs the shared data")
def test_every_word_is_in_the_vocabulary():
    known = set(VOCABULARY.read_text(encoding="utf-8").split("\n"))
    assert {word for pair in PAIRS for word in (*pair.prefix.split(), *pair.words)} <= known
