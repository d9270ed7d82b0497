"""The file to begin with: it works at once, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.templates import write_new
from pivotal.questions.words import read_words


def test_the_new_file_works_and_has_a_known_vocabulary(tmp_path: Path) -> None:
    path = write_new(tmp_path / "mine")
    assert path == tmp_path / "mine.yaml"
    pairs = load_phenomenon(path)
    assert pairs.name == "mine" and len(pairs) > 100 and len(pairs.groups) == 2
    import pivotal

    known = set(read_words(Path(pivotal.__file__).parent / "assets" / "models" / "wiki-lstm" / "vocab.txt"))
    assert {word for pair in pairs for word in (*pair.prefix.split(), *pair.words)} <= known


def test_a_copy_of_a_bundled_one_makes_the_same_pairs(tmp_path: Path) -> None:
    path = write_new(tmp_path / "folder" / "mine.yml", like="reflexive-gender")
    assert path.name == "mine.yml" and load_phenomenon(path).name == "mine"
    assert load_phenomenon(path).pairs == load_phenomenon("reflexive-gender").pairs


@pytest.mark.parametrize(
    ("name", "like", "said"),
    [
        ("reflexive-gender", None, "not that of a bundled phenomenon, but it is 'reflexive-gender'"),
        ("two words", None, "letters, digits, .*'two words'"),
        ("mine", "reflexive-gendr", "'reflexive-gendr' is none. Did you mean 'reflexive-gender'?"),
        ("taken", None, "exists already, and nothing was written"),
    ],
)
def test_what_cannot_be_written_is_explained(tmp_path: Path, name: str, like: str | None, said: str) -> None:
    (tmp_path / "taken.yaml").write_text("mine")
    with pytest.raises(PivotalError, match=said.replace("?", r"\?")):
        write_new(tmp_path / name, like)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.yaml"]
    assert (tmp_path / "taken.yaml").read_text() == "mine"
