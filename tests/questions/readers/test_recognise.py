"""Files of others that are recognised, so that the message names their reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import PROMPTS, SUITE, TABS, read

from pivotal.errors import PivotalError
from pivotal.questions.readers import READERS


def test_a_table_that_is_not_recognised_is_told_how_to_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        PivotalError, match=r"'Satz': unknown column.*: --columns prefix=COLUMN,good=COLUMN,bad=COLUMN"
    ):
        read(tmp_path, "a.csv", "Satz,falsch\nThe cat is,The cat are\n")
    with pytest.raises(PivotalError, match="has no 'dog'") as refused:
        read(tmp_path, "b.csv", "prefix,cue,word.a,word.b\nThe cat,dog,is,are\n")
    assert "table:" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [
        ("a.json", json.dumps(SUITE), "SyntaxGym: use syntaxgym:"),
        ("a.json", json.dumps(PROMPTS), "the format of 'circuits': use circuits:"),
        ("a.jsonl", json.dumps(PROMPTS[0]), "the format of 'circuits': use circuits:"),
        ("a.csv", "id,sentence_good,sentence_bad\n1,a b,a c\n", "the format of 'table': use table:"),
        ("a.txt", TABS, "the format of 'sentences': use sentences:"),
        ("a.tsv", TABS, "the format of 'sentences': use sentences:"),
    ],
)
def test_files_of_others_are_recognised(name: str, text: str, reader: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=f"This looks like {reader}"):
        read(tmp_path, name, text)
    for known, cls in READERS.items():
        assert cls.summary and "\n" not in cls.summary and f"{known}:" in cls.summary


def test_an_unknown_file_is_not_recognised(tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match="ends in one of") as refused:
        read(tmp_path, "a.txt", "Once upon a time.\n")
    assert "looks like" not in str(refused.value)
