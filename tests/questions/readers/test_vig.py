from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.paths import SHARED

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import ReadOptions

DATA = SHARED / "data" / "gender-bias"
LISTED = [["waiter", 1.0, 0.0], ["nun", -0.8, -0.1], ["cab_driver", 0.1, 0.8], ["nurse", -0.1, -0.9]]


def folder(path: Path, templates: object = ("The {} sang because",), professions: object = LISTED) -> Path:
    for name, content in (("templates", templates), ("professions", professions)):
        text = content if isinstance(content, str) else json.dumps(content)
        (path / f"{name}.json").write_text(text)
    return path


def test_files_become_pairs(tmp_path):
    pairs = load_phenomenon(f"vig:{folder(tmp_path, ['The {} sang because', 'Once a {} said that'])}")
    assert [pair.cue_word for pair in pairs] == ["waiter", "nun", "nurse"] * 2
    assert [pair.label for pair in pairs[:3]] == ["he", "she", ""]
    assert pairs[3].prefix == "Once a waiter said that" and pairs[3].cue == 2
    # A list of one-token professions, where there is one, goes before the full list.
    (tmp_path / "derived_professions_gpt2_single_token.json").write_text('[["cook", 0]]')
    assert [pair.cue_word for pair in load_phenomenon(f"vig:{tmp_path}")] == ["cook"] * 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"templates": "[1,\n}"}, r"templates\.json, line 2, column 1: not JSON"),
        ({"templates": {}}, r"templates\.json: the file must hold a JSON list"),
        ({"templates": ["The {} a", "The cook"]}, r"templates\.json, entry 2: a template .* 'The cook'"),
        ({"templates": ["The {}'s"]}, "entry 1: a template"),
        ({"professions": ["cook"]}, r"professions\.json, entry 1: a profession .* not 'cook'"),
        ({"professions": [["cab_driver", 0.1]]}, "at least one profession must be a single word"),
        ({"professions": [["co\0ok", 0.1]]}, r"cannot hold the character U\+0000"),
        ({"professions": "[" * 100_000}, "too large"),
    ],
)
def test_errors_name_the_entry(tmp_path, files, message):
    with pytest.raises(PivotalError, match=message) as caught:
        load_phenomenon(f"vig:{folder(tmp_path, **files)}")
    assert str(caught.value).startswith(str(tmp_path))


def test_bad_entries_can_be_left_out(tmp_path):
    there = folder(tmp_path, ["The cook", "The {} sang because"], ["cook", *LISTED, ["co\0ok", 0.1]])
    pairs = load_phenomenon(f"vig:{there}", ReadOptions(skip_bad=True))
    assert [(pair.cue_word, pair.group) for pair in pairs] == [(n, "t02") for n in ("waiter", "nun", "nurse")]
    assert pairs.notes[0].startswith("Left out 3 bad rows: ") and "entry 1" in pairs.notes[0]
    with pytest.raises(PivotalError, match=r"there is none\. The first bad row: .*entry 1: a template"):
        load_phenomenon(f"vig:{folder(tmp_path, ['The cook', 1])}", ReadOptions(skip_bad=True))


def test_errors_about_the_path(tmp_path):
    with pytest.raises(PivotalError, match="no such folder"):
        load_phenomenon(f"vig:{tmp_path / 'absent'}")
    with pytest.raises(PivotalError, match=r"templates\.json: there is no such file"):
        load_phenomenon(f"vig:{tmp_path}")
    (folder(tmp_path) / "professions.json").unlink()
    with pytest.raises(PivotalError, match="must hold one of derived"):
        load_phenomenon(f"vig:{tmp_path}")


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_published_files():
    pairs = load_phenomenon(f"vig:{DATA}")
    assert len(set(pairs)) == 2873 and len(pairs.groups) == 17 and set(pairs.groups.values()) == {169}
    # Eleven of the professions are not neutral: eight male, three female.
    assert Counter(pair.label for pair in pairs) == {"": 158 * 17, "he": 8 * 17, "she": 3 * 17}
