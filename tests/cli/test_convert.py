from pathlib import Path

import pytest
from tests.questions.small_blimp import written

from pivotal import load_phenomenon, read_pairs


@pytest.fixture
def blimp(tmp_path: Path) -> Path:
    return written(tmp_path / "blimp", "small", "whole")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".jsonl.gz"])
def test_a_file_of_others_becomes_ours(pivotal, blimp, tmp_path, suffix):
    out = tmp_path / f"mine{suffix}"
    done = pivotal("convert", f"blimp:{blimp / 'small.jsonl'}", out)
    assert done.code == 0 and f"{out}: 2 pairs." in done.out and "The cue of 2 pairs is" in done.out
    assert read_pairs(out).pairs == load_phenomenon(f"blimp:{blimp / 'small.jsonl'}").pairs
    pivotal("convert", "planted", out).refused("exists already", "--overwrite")
    assert pivotal("convert", "planted", out, "--overwrite").code == 0
    assert read_pairs(out).pairs == load_phenomenon("planted").pairs


def test_a_folder_becomes_a_file_for_each_question(pivotal, blimp, tmp_path):
    done = pivotal("convert", f"blimp:{blimp}", tmp_path / "new" / "ours", "--lower", "--json")
    first, second = done.json
    assert (first["name"], first["pairs"]) == ("small", 2) and "one prefix" in second["reason"]
    assert read_pairs(first["file"])[0].prefix == "the cats"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["planted", "mine.txt"], ["ends in .jsonl, .csv or .tsv, but mine.txt does not"]),
        (["none.jsonl", "mine.jsonl"], ["no such file"]),
        (["table:none.csv", "mine.jsonl", "--columns", "x"], ["no such file"]),
    ],
)
def test_what_cannot_be_converted(pivotal, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pivotal("convert", *arguments).refused(*said)
