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


def test_nothing_is_written_if_one_of_the_files_is_there(pivotal, tmp_path):
    written(tmp_path / "blimp", "first", "second")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/second.jsonl").touch()
    pivotal("convert", f"blimp:{tmp_path / 'blimp'}", tmp_path / "out").refused(
        "exists", "nothing was written"
    )
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["second.jsonl"]


def test_the_name_in_a_file_does_not_lead_out_of_the_folder(pivotal, tmp_path):
    pivotal("new-phenomenon", tmp_path / "mine")
    (tmp_path / "mine.yaml").write_text(
        (tmp_path / "mine.yaml").read_text().replace("name: mine", "name: ../mine")
    )
    assert pivotal("convert", tmp_path / "mine.yaml", tmp_path / "out").code == 0
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.jsonl"]
