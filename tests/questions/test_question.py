"""The question: its defaults, its checks and its pairs, and what a name of a phenomenon loads."""

import dataclasses
from dataclasses import replace
from typing import get_args

import pytest
from tests.questions.small_blimp import written

import pivotal
from pivotal import PivotalError, Question, list_phenomena, load_phenomenon
from pivotal.options import options_of
from pivotal.questions.question import default_test
from pivotal.units import Steps


def test_every_field_has_a_default_and_a_help_text():
    for option in options_of(Question):
        assert option.help and not option.required, option.name
    assert pivotal.Question is Question


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("steps", "evry", "steps cannot be 'evry'. Did you mean 'every'?"),
        ("split", "prefix", "split cannot be 'prefix'. Did you mean 'prefixes'?"),
        ("dtype", "float8", "dtype cannot be 'float8'. Did you mean"),
        ("seed", "one", "seed cannot be 'one'. It takes a whole number."),
        ("seed", -1, "A seed is a whole number from 0 to 2^53, but seed is -1"),
        ("test", 0, "a fraction below 1 or a file, but test is 0"),
        ("test", 1.5, "test is 1.5"),
    ],
)
def test_what_cannot_be_asked(field, value, said):
    with pytest.raises(PivotalError) as error:
        Question(**{field: value})
    assert said in str(error.value) and error.value.field == field


@pytest.mark.parametrize("steps", get_args(Steps))
def test_what_can_be_asked(steps):
    for question in (
        Question(steps=steps, dtype="bfloat16", split="words", test=0.2),
        Question(steps=steps, seed=2**53, split_seed=3, test=1, values="natural"),
    ):
        assert Question.of({**dataclasses.asdict(question), "runs": 3}) == question


def test_the_split_follows_its_own_seed():
    pairs = Question(phenomenon="planted").load_pairs()
    train, test = Question(phenomenon="planted", seed=0, test=80).divide(pairs)
    assert abs(len(test) - 80) < 3 and len(train) + len(test) == len(pairs)  # a prefix has three pairs
    assert Question(phenomenon="planted", seed=7, split_seed=0, test=80).divide(pairs) == (train, test)
    assert Question(phenomenon="planted", seed=7, test=80).divide(pairs) != (train, test)


def test_default_test_sizes():
    assert Question(test=1000.0) == Question(test=1000) == Question(test="1000"), "however it is written"
    assert default_test(load_phenomenon("number-agreement")) == 1000
    assert default_test(load_phenomenon("gender-bias")) == 200
    planted = load_phenomenon("planted")
    assert default_test(planted[:50]) == 10 and default_test(planted[:3]) == 1
    for asked, expected in ((7, 7), (0.1, 5), (0.5, 25), (40, 10), (0.001, 1)):
        assert default_test(replace(planted[:50], held_out=asked)) == expected


def test_reading_options_reach_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\nThe Cat is,The Cat are\nbroken,\nThe Cats are,The Cats is\n")
    question = Question(phenomenon=str(tmp_path / "a.csv"), columns="good=x,bad=y", skip_bad=True, lower=True)
    pairs = question.load_pairs()
    assert [pair.prefix for pair in pairs] == ["the cat", "the cats"] and pairs.labels == ("is", "are")
    assert "Left out 1 bad row" in pairs.notes[-1]


@pytest.mark.parametrize("phenomenon", ["planted", "mine.yaml", "number-agreement + planted", "blimp:FOLDER"])
def test_options_of_files_are_refused_for_what_is_no_file(phenomenon):
    with pytest.raises(PivotalError, match=r"--columns is about .*, but .* has none. Leave --columns out"):
        Question(phenomenon=phenomenon, columns="good=x,bad=y").checked()
    if phenomenon != "blimp:FOLDER":
        with pytest.raises(PivotalError, match="--skip-bad is about the rows of a file"):
            Question(phenomenon=phenomenon, skip_bad=True).checked()
    Question(phenomenon=f"{phenomenon} + mine.csv", columns="good=x", skip_bad=True).checked()
    Question(phenomenon=phenomenon, keep="mine.csv", columns="good=x", skip_bad=True).checked()


def test_the_parts_of_what_the_user_named(tmp_path):
    written(tmp_path, "one", "two", "whole")
    folder = Question(phenomenon=f"blimp:{tmp_path}", lower=True).load_parts()
    assert [part.name for part in folder if part.pairs is not None] == ["one", "two"] and len(folder) == 3
    assert folder[0].pairs is not None and folder[0].pairs[0].prefix == "the cats"
    # Several files that are asked as one question are one part, whichever reader reads them.
    joint = Question(phenomenon=f"blimp:{tmp_path}/one.jsonl + blimp:{tmp_path}/two.jsonl")
    (part,) = joint.load_parts()
    assert part.pairs == joint.load_pairs() and part.name == "one + two" and len(part.pairs) == 4
    with pytest.raises(PivotalError, match=r"whole\.jsonl: it compares whole sentences"):
        Question(phenomenon=f"blimp:{tmp_path}/whole.jsonl").load_parts()
    (part,) = Question(phenomenon="planted").load_parts()
    assert part.pairs == load_phenomenon("planted")


def test_a_generator_is_deterministic_and_makes_what_is_listed():
    listed = {one.name: one for one in list_phenomena()}
    for name in ("planted", "agreement-be", "determiner-irregular"):
        pairs = load_phenomenon(name)
        assert (pairs.name, pairs.labels, len(pairs)) == (name, listed[name].labels, listed[name].pairs)
        assert len(set(pairs)) == len(pairs) and pairs == load_phenomenon(name)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("number-agrement", {}, r"is not one of these. Did you mean 'number-agreement'\?"),
        ("blimp", {}, "Write blimp:PATH"),
        ("gender-bias:here", {}, "takes no path, not 'here'"),
        ("absent.jsonl", {}, "no such file"),
        ("number-agreement", {"sed": "1"}, r"has no option 'sed'. Did you mean 'seed'\?"),
    ],
)
def test_what_cannot_be_loaded_is_explained(spec, options, message):
    with pytest.raises(PivotalError, match=message):
        load_phenomenon(spec, **options)
