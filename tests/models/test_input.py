"""What a model is asked to read: words, texts beyond its positions, tokens that it lacks, cues that are none."""

from functools import cache

import pytest
import torch
from tests.models.tiny import intervention_of, random_model, shared_lm, tokenizer

from pivotal import Intervention, PivotalError, Problem, load_model
from pivotal.models import LanguageModel, TransformersLM
from pivotal.models.vocabulary import WordVocabulary
from pivotal.problem.asking import Asking
from pivotal.questions import MinimalPair, PairSet

POSITIONS = 64
TABLES = ("gpt2", "gptj", "opt", "llama")


@cache
def single() -> tuple[LanguageModel, Intervention]:
    lm = shared_lm("llama")
    unit = next(iter(lm.unit_space("mlp.0")))
    intervention = intervention_of(lm, (unit,), [[9.0], [-9.0]], "single")
    return lm, intervention


# -- texts beyond the positions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", TABLES)
def test_as_many_tokens_as_there_are_positions(family):
    lm = shared_lm(family)
    assert lm.longest == POSITIONS - 1, "BOS has one"
    (logits,) = lm.next_logits([[3] * (POSITIONS - 1)])
    expected = lm.network(input_ids=torch.tensor([[1, *[3] * (POSITIONS - 1)]])).logits[0, -1]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(PivotalError, match=r"may have at most 63 tokens.* has 64\. Shorten"):
        lm.next_logits([[3], [3] * POSITIONS])
    with pytest.raises(PivotalError, match=r"may have at most 63 tokens.* has 80\. Shorten"):
        lm.next_words("The doctor " * 40)


def test_a_model_may_read_tokens_that_it_never_predicts():
    """Such as those of images: its embedding has more rows than its head."""
    model = random_model("llama")
    model.lm_head = torch.nn.Linear(16, 20, bias=False)
    lm = TransformersLM("narrow", model, tokenizer(), fingerprint="narrow")
    assert (lm.vocabulary.size, lm.vocabulary_size) == (24, 20)
    (text,) = lm.generate("The doctor", words=3)
    assert len(text.split()) == 5


def test_a_text_is_not_begun_that_will_become_too_long():
    lm = shared_lm("gpt2")
    (text,) = lm.generate("The doctor", words=62, temperature=0.0)
    assert len(text.split()) == 64
    with pytest.raises(PivotalError, match=r"at most 63 tokens.* has 64"):
        lm.generate("The doctor", words=63)
    with pytest.raises(PivotalError, match="k must be a whole number, 1 or more, but it is -1"):
        lm.next_words("The doctor", k=-1)


def test_pairs_that_are_too_long_are_left_out_and_counted():
    texts = ["The doctor", "The doctor near", "The doctor" + " near The" * 31, "The doctor" + " near" * 90]
    pairs = PairSet("some", ("a", "b"), tuple(MinimalPair(text, 1, ("runs", "run")) for text in texts))
    problem = Problem(shared_lm("gpt2"), pairs, sites="mlp")
    assert len(problem) == 2
    assert problem.rejected.describe() == "longer than the 63 tokens that have a position (2)"
    assert len(Problem(shared_lm("bloom"), pairs, sites="mlp")) == 4, "ALiBi has no positions"


def test_priming_leaves_room_for_a_sentence():
    with pytest.raises(PivotalError, match=r"has 64 positions, but its priming text takes 64\. Shorten"):
        TransformersLM("gpt2", random_model("gpt2"), tokenizer(), priming="The " * POSITIONS)


# -- tokens, cues and numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda lm: lm.next_logits([]), "at least one prompt, with at least one word"),
        (lambda lm: lm.next_logits([[]]), "one is empty"),
        (lambda lm: lm.next_logits([[10**7]]), "0 to 23, but a prompt has 10000000"),
        (lambda lm: lm.next_logits([[-1]]), "0 to 23, but a prompt has -1"),
        (lambda lm: lm.generate("The", samples=0), "Samples must be 1 or more"),
        (lambda lm: lm.generate("The", seed=2**64), "seed"),
    ],
)
def test_what_cannot_be_asked(ask, said):
    with pytest.raises(PivotalError, match=said):
        ask(shared_lm("llama"))


def test_the_logits_after_tokens_need_the_position_of_a_single_step():
    lm, intervention = single()
    ids = lm.encode("The doctors near").ids
    edited = lm.intervened(intervention, "singular", cue="doctors")
    for wrong in (None, 3, -1):
        with pytest.raises(PivotalError, match=rf"here 0 to 2 instead of {wrong!r}"):
            edited.next_logits([ids], cue=wrong)
    p = dict(edited.next_words("The doctors near", k=1))
    assert max(p.values()) == pytest.approx(float(edited.next_logits([ids], cue=1).softmax(-1).max()))


def test_a_model_says_how_it_was_loaded():
    for number, priming, known in ((torch.float32, None, [True, False]), (torch.float64, "", [False, True])):
        lm = TransformersLM("tiny", random_model("llama").to(number), tokenizer(bos=True), priming=priming)
        assert lm.dtype == number and [lm.vocabulary.is_priming(s) for s in ("<s>", "")] == known


@pytest.fixture(scope="module")
def wiki() -> LanguageModel:
    return load_model("wiki-lstm", device="cpu")


def test_a_contraction_is_one_word_of_two_tokens(wiki):
    found = wiki.encode("The doctor can't see, they said")
    assert found.ids == wiki.encode("The doctor ca n't see , they said").ids
    assert found.word == (0, 1, 2, 2, 3, 3, 4, 5)
    assert found.last_token_of(2) == 3 and found.last_token_of(4) == 6


def test_contractions_are_compared_at_the_first_difference(wiki):
    def sides(*words: str) -> tuple[list[str], list[list[str]]]:
        one = Asking(wiki).ask(MinimalPair("The doctor", 1, words))
        return [wiki.word(i) for i in one.ids[2:]], [[wiki.word(i) for i in side] for side in one.sides]

    assert sides("hasn't", "haven't") == ([], [["has"], ["have"]])
    shared, (complete, longer) = sides("does", "doesn't")
    assert (shared, longer) == (["does"], ["n't"])
    assert len(complete) > 0.99 * wiki.vocabulary_size and not {"n't", "'s"} & set(complete)


def test_unknown_words():
    words = WordVocabulary(["<unk>", "a", "'s"], "<unk>")
    assert words.encode("a's a").ids == (1, 2, 1) and words.unspeakable() == [0]
    with pytest.raises(PivotalError, match="outside the vocabulary: b, c's"):
        words.encode("a b c's")
    assert WordVocabulary(["a"], "<unk>").unknown_word is None


def test_what_a_model_knows(wiki):
    assert [wiki.vocabulary.knows(word) for word in ("doctor", "can't", "flurbs")] == [True, True, False]
    assert wiki.vocabulary.unknown_word == load_model("planted").vocabulary.unknown_word == "<unk>"
