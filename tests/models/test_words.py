"""How word-level models read written English."""

from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.models import LanguageModel, load_model
from pivotal.models.vocabulary import WordVocabulary
from pivotal.problem.asking import Asking
from pivotal.questions.minimal_pair import MinimalPair


@pytest.fixture(scope="module")
def wiki() -> LanguageModel:
    return load_model("wiki-lstm", device="cpu")


def test_a_contraction_is_one_word_of_two_tokens(wiki: LanguageModel) -> None:
    found = wiki.encode("The doctor can't see, they said")
    assert found.ids == wiki.encode("The doctor ca n't see , they said").ids
    assert found.word == (0, 1, 2, 2, 3, 3, 4, 5)
    assert found.last_token_of(2) == 3 and found.last_token_of(4) == 6


def test_contractions_are_compared_at_the_first_difference(wiki: LanguageModel) -> None:
    def sides(*words: str) -> tuple[list[str], list[list[str]]]:
        one = Asking(wiki).ask(MinimalPair("The doctor", 1, words))  # type: ignore[arg-type]
        return [wiki.word(i) for i in one.ids[2:]], [[wiki.word(i) for i in side] for side in one.sides]

    assert sides("hasn't", "haven't") == ([], [["has"], ["have"]])
    shared, (complete, longer) = sides("does", "doesn't")
    assert (shared, longer) == (["does"], ["n't"])
    assert len(complete) > 0.99 * wiki.vocabulary_size and not {"n't", "'s"} & set(complete)


def test_unknown_words() -> None:
    words = WordVocabulary(["<unk>", "a", "'s"], "<unk>")
    assert words.encode("a's a").ids == (1, 2, 1) and words.unspeakable() == [0]
    with pytest.raises(PivotalError, match="outside the vocabulary: b, c's"):
        words.encode("a b c's")
    assert WordVocabulary(["a"], "<unk>").unknown_word is None


def test_what_a_model_knows(wiki: LanguageModel) -> None:
    assert (
        wiki.vocabulary.knows("doctor")
        and wiki.vocabulary.knows("can't")
        and not wiki.vocabulary.knows("flurbs")
    )
    assert (
        wiki.vocabulary.unknown_word == "<unk>" and load_model("planted").vocabulary.unknown_word == "<unk>"
    )
