"""Properties of template files: a wrong value anywhere is one sentence, and a sample is balanced."""

import itertools
import json
import math
from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.questions.spoiling import places, spoilt

from pivotal import PivotalError
from pivotal.questions import PairSet
from pivotal.questions.templates.template_file import parse_template

CONTENT: dict[str, Any] = yaml.load(
    """
    name: toy
    labels: [a, b]
    summary: a toy
    test: 4
    cue: noun
    words: verb
    lexemes: [noun, verb]
    lexicon:
      noun: [{a: man, b: men, kind: x}, {a: cat, b: cats, kind: x}, {a: car, b: cars, kind: y}]
      verb: {a: [sings, runs], b: [sing, run], kind: [x, x]}
      near: [near, by]
    templates:
      - The {noun}
      - {group: g, prefix: "The {noun} {near} {noun2.any}", sample: 4, where: noun.kind = noun2.kind}
      - {prefix: {a: "One {noun} {near}", b: "Two {noun} {near}"}, words: {a: is, b: [are, were]}}
      - {prefix: "This {near}", label: none, cue: near, counterfactual: {near: [he, they]}, lexemes: {place: near}}
    """,
    yaml.BaseLoader,
)
"""A file with every key, in every shape that a key may have. All values are texts."""

WRONG: list[Any] = [
    *(None, "", "  ", "x", "none", "any", "0", "-1", "1.5", "9" * 30, "noun", "noun9", "{noun}", "{noun.b}", "{", "}{"),
    *("{}", "{noun.zz}", "{noun.any} {noun}", "a b", "a|b", "é\u0301", "\u2028", "noun.kind = x", "=", "<<"),
    *([], {}, [[]], [{}], [""], ["x"], ["x", "x"], ["x", "y"], ["x", "y", "z"], [["x"], ["y"]], [None], {"a": "x"}),
    *({"a": "x", "b": "y"}, {"a": [], "b": []}, {"a": ["x"], "b": ["x", "y"]}, {"": "x"}, {"noun": ["x", "y"]}),
    *(1, 2.5, True, {"any": "x"}, {"a": {"b": "c"}}, [{"a": "x"}, {"b": "y"}], "The {noun} {noun} {verb.kind}"),
]  # fmt: skip


def outcome(text: str) -> PairSet | str:
    """The pairs, or the sentence that says what is wrong. Anything else fails the test."""
    try:
        file = parse_template(text, "toy.yaml", "toy")
        pairs = file.pairs()
        assert len(pairs) == file.size()
        return pairs
    except PivotalError as error:
        said = str(error)
        assert said.startswith("toy.yaml") and "\n" not in said and said.endswith((".", "?")), said
        assert ", line " in said or said.startswith("toy.yaml: a template file"), said
        return said


def test_the_whole_content_is_good():
    assert isinstance(outcome(yaml.safe_dump(CONTENT)), PairSet)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_value_wrong_in_every_way_is_told_or_works(step):
    """With the step 1 every value in every place; otherwise a part of the values, another one in each place."""
    told = Counter(
        isinstance(outcome(json.dumps(spoilt(CONTENT, path, wrong))), str)
        for i, path in enumerate(places(CONTENT))
        for wrong in WRONG[i % step :: step]
    )
    assert told[True] > 100 and told[False] > 10  # the test reaches both


TEXT = yaml.safe_dump(CONTENT, sort_keys=False)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 30),
    st.text(alphabet=st.sampled_from(list("{}[]:,-#&*!|>'\"%@` \n\tax.=\x00\ufeff\u2028é0")), max_size=6),
)
def test_a_text_with_a_hole_and_an_insertion_is_told_or_works(start, length, inserted):
    outcome(TEXT[:start] + inserted + TEXT[start + length :])


# -- samples ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    cues=st.integers(1, 5),
    fillers=st.integers(1, 6),
    words=st.integers(1, 5),
    free=st.booleans(),
    share=st.floats(0.01, 1.2),
    seed=st.integers(0, 99),
)
def test_a_sample_is_balanced(cues, fillers, words, free, share, seed):
    variants = 2 if free else 1
    whole = 2 * cues * fillers * words * variants
    size = max(2 * variants, math.floor(share * whole))
    content = {
        "labels": ["a", "b"],
        "lexicon": {
            "cue": [{"a": f"c{i}a", "b": f"c{i}b"} for i in range(cues)],
            "filler": [{"a": f"f{i}a", "b": f"f{i}b"} for i in range(fillers)],
            "word": [{"a": f"w{i}a", "b": f"w{i}b"} for i in range(words)],
        },
        "words": "word",
        "templates": [
            {"prefix": f"x {{cue}} {{filler.{'any' if free else 'a'}}}", "cue": "cue", "sample": str(size)}
        ],
    }
    file = parse_template(yaml.safe_dump(content), "toy.yaml", "toy")
    pairs = file.pairs(seed)
    assert len(pairs) == file.size() <= size and len(set(pairs)) == len(pairs)
    assert file.pairs(seed) == pairs
    if size >= whole:
        assert len(pairs) == whole
        return
    cells = Counter((pair.cue_word, pair.label) for pair in pairs)
    assert len(set(cells.values())) == 1  # every form of every cue equally often
    assert len({label for _, label in cells}) == 2
    if size >= 2 * cues * variants:
        assert len(cells) == 2 * cues and len(pairs) > size - 2 * cues * variants
        for cue, form in itertools.product(cells, "ab" if free else "a"):
            chosen = [p for p in pairs if p.cue_word == cue[0] and p.prefix.endswith(form)]
            by_word = Counter(pair.words for pair in chosen)
            assert max(by_word.values()) - (min(by_word.values()) if len(by_word) == words else 0) <= 1
