"""`pivotal import-lm`."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

WORDS = ("<eos>", "<unk>", "the", "cat", "cats")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A state_dict and its vocabulary."""
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    torch.manual_seed(0)
    parts = {"encoder": nn.Embedding(5, 3), "rnn": nn.LSTM(3, 4, 2), "decoder": nn.Linear(4, 5)}
    torch.save(nn.ModuleDict(parts).state_dict(), tmp_path / "small0.2.pt")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path / "small0.2.pt", tmp_path / "vocab.txt"


def test_an_imported_model_has_a_name(pivotal, files, tmp_path):
    checkpoint, vocabulary = files
    done = pivotal("import-lm", checkpoint, "--vocabulary", vocabulary)
    assert done.code == 0
    assert "LSTM of 2 x 4 units, imported from small0.2.pt; 5 words." in done.out
    listed = pivotal("list", "models", "--json").json["models"]
    assert "small0.2" in [model["name"] for model in listed]
    card = json.loads((tmp_path / "home" / "models" / "small0.2" / "card.json").read_text())
    assert card["command"].startswith("pivotal import-lm")
    pivotal("import-lm", checkpoint, "--vocabulary", vocabulary).refused("exists already", "--overwrite")
    assert pivotal("import-lm", checkpoint, "--vocabulary", vocabulary, "--overwrite").code == 0


def test_a_model_may_go_elsewhere(pivotal, files, tmp_path):
    done = pivotal("import-lm", files[0], "--vocabulary", files[1], "--out", tmp_path / "a" / "b", "--json")
    assert done.json["model"] == str(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "model.safetensors").is_file()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", ["wiki-lstm", "planted", ".small"])
def test_a_local_model_does_not_hide(pivotal, files, tmp_path, name):
    checkpoint = files[0].rename(tmp_path / f"{name}.pt")
    for flags in ((), ("--overwrite",)):
        pivotal("import-lm", checkpoint, "--vocabulary", files[1], *flags).refused(
            "Rename the file, or give --out"
        )
    assert not (tmp_path / "home").exists()
    assert pivotal("import-lm", checkpoint, "--vocabulary", files[1], "--out", tmp_path / "mine").code == 0


def test_bad_input(pivotal, files, tmp_path):
    checkpoint, vocabulary = files
    pivotal("import-lm", tmp_path / "no.pt", "--vocabulary", vocabulary).refused(
        "no.pt: there is no such file"
    )
    (tmp_path / "file").write_text("")
    pivotal("import-lm", checkpoint, "--vocabulary", vocabulary, "--out", tmp_path / "file" / "x").refused(
        "Cannot write"
    )
    assert not (tmp_path / "home").exists()
