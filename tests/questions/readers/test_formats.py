"""Plain sentences, prompts of circuit papers, suites of SyntaxGym, and files without a reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import PROMPTS, SUITE, TABS, read

from pivotal.errors import PivotalError
from pivotal.questions.readers import READERS


def test_sentences(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.txt", TABS, "sentences")
    assert pairs.labels == ("sleeps", "sleep") and pairs.name == "a"
    first, second = pairs
    assert (first.prefix, first.words, first.label) == ("The cat", ("sleeps", "sleep"), "sleeps")
    assert (first.cue, first.counterfactuals) == (1, ("The cat", "The cats"))
    assert (second.prefix, second.label) == ("The cats", "sleep")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("The cat sleeps  The cat sleep", "line 2: .* has 0 tabs or an empty side"),
        ("a b\ta c\td", "line 2: .* has 2 tabs"),
        ("The cat sleeps\t", "line 2: .* an empty side"),
        ("The cat sleeps here\tThe cat sleep there", "line 2: .*differ in one word"),
    ],
)
def test_bad_lines_are_told_or_left_out(line: str, message: str, tmp_path: Path) -> None:
    text = TABS.replace("\n", f"\n{line}\n", 1)
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.txt", text, "sentences")
    pairs = read(tmp_path, "a.txt", text, "sentences", skip_bad=True)
    assert (
        len(pairs) == 2 and pairs.notes[-1].startswith("Left out 1 bad row:") and "line 2" in pairs.notes[-1]
    )


@pytest.mark.parametrize("lines", [True, False])
def test_prompts_and_answers(lines: bool, tmp_path: Path) -> None:
    text = "\n".join(map(json.dumps, PROMPTS)) if lines else json.dumps(PROMPTS)
    pairs = read(tmp_path, "a.json", text, "circuits")
    assert pairs.labels == ("has", "have") and len(pairs) == 4
    first, second = pairs[:2]
    assert (first.prefix, first.words, first.cue) == ("The girl", ("has", "have"), 1)
    assert first.counterfactuals == second.counterfactuals == ("The girl", "The girls")
    assert (second.prefix, second.label) == ("The girls", "have")
    assert "the word that differs from the other prefix" in " ".join(pairs.notes)


def test_prompts_with_sets_of_answers(tmp_path: Path) -> None:
    prompts = {
        "prompts": [
            {"clean": "The war lasted from 1732 to 17", "corrupt": "The war lasted from 1701 to 17",
             "answers": ["33", "34"], "wrong_answers": ["02", "03"]},
        ]
    }  # fmt: skip
    first, second = read(tmp_path, "a.json", json.dumps(prompts), "circuits")
    assert set(first.words) == {"33|34", "02|03"} and (first.cue_word, second.cue_word) == ("1732", "1701")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean_prefix": 3}, "entry 1: clean_prefix and patch_prefix must be texts, not 3"),
        ({"clean_answer": [3]}, "entry 1, column 'clean_answer': Must be a text or a list"),
        ({"clean_answer": ""}, "entry 1, column 'clean_answer': Must be a text"),
        ({"clean_answer": " have"}, "two different words"),
    ],
)
def test_bad_prompts(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.json", json.dumps([{**PROMPTS[0], **change}, PROMPTS[1]]), "circuits")


def test_a_suite_of_syntaxgym_has_the_labels_of_its_conditions(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.json", json.dumps(SUITE), "syntaxgym")
    assert (pairs.name, pairs.labels) == ("agreement", ("good_sing", "good_plur"))
    first, second = pairs
    assert (first.prefix, first.cue_word, first.words) == ("The cat near the car", "cat", ("sleeps", "sleep"))
    assert first.counterfactuals == ("The cat near the car", "The cats near the car")
    assert second.label == "good_plur" and second.words == first.words


def test_suites_that_cannot_be_asked(tmp_path: Path) -> None:
    two = {**SUITE, "predictions": [{"formula": "(4;%good_sing%) < (4;%good_plur%)"}]}
    with pytest.raises(PivotalError, match="one word after two prefixes"):
        read(tmp_path, "a.json", json.dumps(two), "syntaxgym")
    both = {**SUITE, "predictions": [*SUITE["predictions"], *two["predictions"]]}
    assert "Left out 1 of 3 comparisons" in read(tmp_path, "a.json", json.dumps(both), "syntaxgym").notes[0]
    for change, message in (
        ({"predictions": []}, "but there is none"),
        ({"items": 3}, r"a test suite is .* \(Expected array, got int - at \$.items\)"),
        ({"predictions": [{"formula": "(*;%a%) < (*;%b%)"}]}, "but there is none"),
        ({"predictions": [{"formula": "(9;%a%) < (9;%b%)"}]}, "has every condition once, but 'a' 0 times"),
    ):
        with pytest.raises(PivotalError, match=message):
            read(tmp_path, "a.json", json.dumps({**SUITE, **change}), "syntaxgym")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(SUITE)),
        ("a.jsonl", json.dumps(PROMPTS[0])),
        ("a.jsonl", '{"words": {"a": "b", "c": "d"}}'),
        ("a.csv", "Satz,falsch\nThe cat is,The cat are\n"),
        ("a.csv", "prefix,cue\nThe cat,cat\n"),
        ("a.txt", TABS),
    ],
)
def test_a_file_that_is_named_without_its_reader(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(
        PivotalError, match=r"write its reader before the path, such as blimp:PATH, or table:PATH"
    ):
        read(tmp_path, name, text)
    with pytest.raises(PivotalError, match="has no 'dog'") as refused:
        read(tmp_path, "b.csv", "prefix,cue,word.a,word.b\nThe cat,dog,is,are\n")
    assert "table:" not in str(refused.value)


def test_every_reader_says_how_it_is_named() -> None:
    for known, cls in READERS.items():
        assert cls.summary and "\n" not in cls.summary and f"{known}:" in cls.summary
