import json
from pathlib import Path

import pytest

from pivotal import load_phenomenon, read_pairs

ROWS = [
    {"sentence_good": "The Cats sleep.", "sentence_bad": "The Cats sleeps.", "UID": "small"},
    {"sentence_good": "The Cat sleeps.", "sentence_bad": "The Cat sleep.", "UID": "small"},
]


@pytest.fixture
def blimp(tmp_path: Path) -> Path:
    folder = tmp_path / "blimp"
    folder.mkdir()
    (folder / "small.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    other = {**ROWS[0], "UID": "whole", "one_prefix_method": False}
    (folder / "whole.jsonl").write_text(json.dumps(other))
    return folder


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
