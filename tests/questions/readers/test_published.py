"""The data of Lakretz et al. (2019), Gulordava et al. (2018), Vig et al. (2020) and BLiMP."""

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.paths import SHARED, loaded
from tests.questions import small_blimp

from pivotal import PivotalError, load_phenomenon
from pivotal.questions.readers import ReadOptions
from pivotal.questions.readers.blimp import Blimp

DATA = SHARED / "data"
published = pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")


@published
def test_the_data_of_three_papers_becomes_pairs():
    papers = loaded("paper_pairs")
    pairs = papers.lakretz(DATA / "number-agreement")
    assert len(set(pairs)) == 12_000 and pairs.fingerprint() == "91b1bc9da7ddf3b9"
    assert list(pairs.groups.values()) == [600, 1800, 1800, 1200, 1800, 2400, 2400]
    pairs = papers.gulordava(DATA / "gulordava" / "generated.tab")
    assert len(pairs) == 410 and pairs.fingerprint() == "710fa586a6f608e4"
    train, test = pairs.split(test=0.2, by="words", seed=0)
    assert not {pair.lexemes for pair in train} & {pair.lexemes for pair in test}
    pairs = papers.vig(DATA / "gender-bias")
    assert len(set(pairs)) == 2873 and pairs.fingerprint() == "107e24193ee9a871"
    # Eleven of the professions are not neutral: eight male, three female.
    assert Counter(pair.label for pair in pairs) == {"": 158 * 17, "he": 8 * 17, "she": 3 * 17}


BLIMP = DATA / "blimp"

NUMBER, GENDER, ONE_WAY = ("singular", "plural"), ("not feminine", "feminine"), ("good", "bad")
ASKED = {
    "anaphor_gender_agreement": (GENDER, "6e127d2d799cec10"),
    "anaphor_number_agreement": (NUMBER, "1b8685b743efbc54"),
    "animate_subject_passive": (ONE_WAY, "2d79b46b192206f7"),
    "determiner_noun_agreement_1": (NUMBER, "b713ffb1a37ad742"),
    "determiner_noun_agreement_irregular_1": (NUMBER, "f94466a8b6af420b"),
    "determiner_noun_agreement_with_adj_irregular_1": (NUMBER, "392c100e6477a98d"),
    "determiner_noun_agreement_with_adjective_1": (NUMBER, "b5e9a9daf81331bc"),
    "distractor_agreement_relational_noun": (NUMBER, "ce73bacac9fc9324"),
    "distractor_agreement_relative_clause": (NUMBER, "44c7ffc8e75fb5d4"),
    "irregular_past_participle_verbs": (ONE_WAY, "944887143eafa1a8"),
    "irregular_plural_subject_verb_agreement_1": (NUMBER, "ccdd953716953f74"),
    "npi_present_1": (ONE_WAY, "a60cef6922644994"),
    "npi_present_2": (ONE_WAY, "6534fb7c447de713"),
    "principle_A_c_command": (NUMBER, "7e7c7469f8192ed6"),
    "principle_A_case_1": (ONE_WAY, "8b5f38b7902b0c71"),
    "principle_A_case_2": (ONE_WAY, "805e037f3ed7322d"),
    "principle_A_domain_1": (ONE_WAY, "51b5757653685652"),
    "principle_A_domain_2": (GENDER, "0f594779b72e2a9b"),
    "regular_plural_subject_verb_agreement_1": (NUMBER, "5a287e70aaa8be98"),
    "wh_island": (ONE_WAY, "1e048cf02e686ecc"),
}
"""The labels of paradigms that can be asked, and the fingerprints of their pairs; published results rest on them."""


@published
def test_twenty_paradigms_can_be_asked_and_the_others_say_why_not():
    parts = {part.name: part for part in Blimp(str(BLIMP)).parts()}
    assert len(parts) == 67
    asked = {name: part.pairs for name, part in parts.items() if part.pairs is not None}
    assert {name: (pairs.labels, pairs.fingerprint()) for name, pairs in asked.items()} == ASKED
    reasons = {part.reason for part in parts.values() if part.pairs is None}
    assert reasons == {
        "it compares one word after two prefixes, not two words after one prefix.",
        "it compares whole sentences, not two words after one prefix.",
    }


@published
@pytest.mark.parametrize(
    ("paradigm", "prefix", "cue", "words", "label"),
    [
        ("anaphor_gender_agreement", "Katherine can't help", "Katherine", ("himself", "herself"), "feminine"),
        ("determiner_noun_agreement_1", "Raymond is selling this", "this", ("sketch", "sketches"), "singular"),
        ("irregular_plural_subject_verb_agreement_1", "Those radii", "radii", ("has", "have"), "plural"),
        ("irregular_past_participle_verbs", "The Borgias", "Borgias", ("wore", "worn"), "good"),
    ],
)  # fmt: skip
def test_labels_and_cues(paradigm, prefix, cue, words, label):
    pairs = load_phenomenon(f"blimp:{BLIMP / paradigm}.jsonl")
    (pair,) = (pair for pair in pairs if pair.prefix == prefix and pair.words == words)
    assert (pair.cue_word, pair.label, pair.group) == (cue, label, paradigm)


@published
def test_a_folder_is_asked_with_the_labels_of_most_paradigms():
    pairs = load_phenomenon(f"blimp:{BLIMP}")
    assert pairs.fingerprint() == "7acfc14179814e5a"
    assert (pairs.name, pairs.labels, len(pairs.groups)) == ("blimp", NUMBER, 10)
    assert "10 of 67 paradigms" in pairs.notes[0]


# -- small files --


def row(**changes: object) -> dict[str, object]:
    words = {"one_prefix_word_good": "sleep", "one_prefix_word_bad": "sleeps"}
    usual = {"one_prefix_prefix": "The cats", **words, "one_prefix_method": True, "two_prefix_method": False}
    return {
        "sentence_good": "The cats sleep.",
        "sentence_bad": "The cats sleeps.",
        **usual,
        "UID": "small",
        **changes,
    }


def other(**changes: object) -> dict[str, object]:
    words = {"one_prefix_word_good": "sleeps", "one_prefix_word_bad": "sleep"}
    return row(one_prefix_prefix="The cat", **words, **changes)


def write(path: Path, *rows: dict[str, object]) -> str:
    path.write_text("\n".join(map(json.dumps, rows)))
    return f"blimp:{path}"


def test_the_sentences_suffice(tmp_path):
    """As Hugging Face has BLiMP: without the fields of the one-prefix method."""
    whole = load_phenomenon(write(tmp_path / "b.jsonl", row(UID="bare"), other(UID="bare")))
    bare = load_phenomenon(f"blimp:{small_blimp.written(tmp_path / 'bare', 'bare')}")
    assert bare.lower().pairs == whole.lower().pairs


def test_rows_that_ask_for_the_other_form_are_counterfactuals(tmp_path):
    first, second = load_phenomenon(write(tmp_path / "a.jsonl", row(), other()))
    assert first.counterfactuals == second.counterfactuals == ("The cats", "The cat")


def test_continuations_of_several_words(tmp_path):
    rows = [
        row(one_prefix_word_good="drove to", one_prefix_word_bad="driven to"),
        row(one_prefix_word_good="had left", one_prefix_word_bad="had leave"),
    ]
    first, second = load_phenomenon(write(tmp_path / "a.jsonl", *rows))
    assert first.words == ("drove", "driven")
    assert (second.prefix, second.words) == ("The cats had", ("left", "leave"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"one_prefix_word_good": 3}, "line 2: .* has the texts one_prefix_prefix, .* but one is missing"),
        ({"one_prefix_word_bad": "sleep well"}, "line 2: .*must differ in a word"),
        ({"one_prefix_method": False, "two_prefix_method": True}, "one word after two prefixes"),
        ({"one_prefix_method": False}, "compares whole sentences"),
    ],
)
def test_bad_rows(changed, message, tmp_path):
    spec = write(tmp_path / "a.jsonl", row(), {**row(), **changed}, other())
    with pytest.raises(PivotalError, match=message):
        load_phenomenon(spec)
    if "one_prefix_method" not in changed:
        pairs = load_phenomenon(spec, ReadOptions(skip_bad=True))
        assert len(pairs) == 2 and "Left out 1 bad row" in pairs.notes[-1] and "line 2" in pairs.notes[-1]


def test_a_folder_without_files(tmp_path):
    with pytest.raises(PivotalError, match=r"must hold the .jsonl files of BLiMP"):
        load_phenomenon(f"blimp:{tmp_path}")
