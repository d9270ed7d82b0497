from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import (
    PHENOMENA,
    listed_phenomena,
    load_phenomenon,
    phenomenon_names,
    place_of,
)
from pivotal.registry import options_of


@pytest.mark.parametrize("name", PHENOMENA.names())
def test_every_phenomenon_says_what_it_is(name):
    cls = PHENOMENA.get(name)
    assert cls.summary and "\n" not in cls.summary and len(cls.labels) == 2
    assert all(option.help for option in options_of(cls))


def test_a_generator_is_deterministic_and_makes_what_is_listed():
    listed = {one.name: one for one in listed_phenomena()}
    for name in ("planted", "agreement-be", "determiner-irregular"):
        pairs = load_phenomenon(name)
        assert (pairs.name, pairs.labels, len(pairs)) == (name, listed[name].labels, listed[name].pairs)
        assert len(set(pairs)) == len(pairs) and pairs == load_phenomenon(name)


def test_the_names_are_those_that_are_listed():
    assert phenomenon_names() == [one.name.replace(":PATH", ":") for one in listed_phenomena()]


def test_spellings_of_one_file_have_one_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place_of("a.jsonl") == place_of("./a.jsonl") == place_of(str(tmp_path / "a.jsonl"))
    assert place_of("blimp:x") == place_of("blimp:./y/../x") != place_of("x")
    assert place_of("planted") == "planted" != place_of("./planted")  # the name is not that of a file
    assert place_of("a\0b") == "a\0b"


def test_a_file_is_a_phenomenon(tmp_path):
    pairs = PairSet("mine", ("he", "she"), (MinimalPair("The cook smiled because", 1, ("he", "she")),))
    pairs.save(tmp_path / "mine.csv")
    assert load_phenomenon(tmp_path / "mine.csv") == load_phenomenon(str(tmp_path / "mine.csv")) == pairs


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            "number-agrement",
            {},
            r"is none of them. Did you mean 'number-agreement'\? `pivotal list phenomena`",
        ),
        ("absent.yaml", {}, "no such file"),
        ("lakretz", {}, "Write lakretz:PATH"),
        ("gender-bias:here", {}, "takes no path, not 'here'"),
        ("absent.jsonl", {}, "no such file"),
        ("absent.jsonl", {"seed": "1"}, "takes no options, not 'seed'"),
        ("number-agreement", {"sed": "1"}, r"has no option 'sed'. Did you mean 'seed'\?"),
        ("number-agreement", {"seed": "x"}, "takes a whole number, not 'x'"),
    ],
)
def test_what_cannot_be_loaded_is_explained(spec, options, message):
    with pytest.raises(PivotalError, match=message):
        load_phenomenon(spec, **options)


def test_a_folder_that_is_no_pairs_file(tmp_path):
    with pytest.raises(PivotalError, match="a pairs file ends in one of"):
        load_phenomenon(tmp_path)
