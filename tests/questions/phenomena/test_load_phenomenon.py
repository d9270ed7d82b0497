from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.questions.phenomena import PHENOMENA, load_phenomenon
from pivotal.registry import options_of


@pytest.mark.parametrize("name", PHENOMENA.names())
def test_every_phenomenon_says_what_it_is(name):
    cls = PHENOMENA.get(name)
    assert cls.summary and "\n" not in cls.summary and len(cls.labels) == 2
    assert cls.takes_path == any(option.name == "path" for option in options_of(cls))
    assert all(option.help for option in options_of(cls))


@pytest.mark.parametrize("name", [name for name, cls in PHENOMENA.items() if not cls.takes_path])
def test_every_generator_is_deterministic_and_has_no_pair_twice(name):
    pairs = load_phenomenon(name)
    assert pairs.name == name and pairs.labels == PHENOMENA.get(name).labels
    assert len(set(pairs)) == len(pairs) and pairs == load_phenomenon(name)


def test_a_file_is_a_phenomenon(tmp_path):
    pairs = PairSet("mine", ("he", "she"), (MinimalPair("The cook smiled because", 1, ("he", "she")),))
    pairs.save(tmp_path / "mine.csv")
    assert load_phenomenon(tmp_path / "mine.csv") == load_phenomenon(str(tmp_path / "mine.csv")) == pairs


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("number-agrement", {}, r"is neither. Did you mean 'number-agreement'\? Available: gender-bias"),
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
