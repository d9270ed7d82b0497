"""`pivotal train-lm`: options are the settings, files may follow each other, what is bad is refused."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from pivotal.lm.recipes import Settings

SMALL = ("--hidden", 12, "--embedding", 12, "--batch", 8, "--bptt", 8, "--epochs", 1)


@pytest.fixture
def text(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.txt" for name in ("first", "second")]
    for i, path in enumerate(paths):
        path.write_text(f"the cats sleep here .\nthe cat sleeps in bed number {i} .\n" * 60)
    return paths


def test_a_model_that_the_other_verbs_take(pivotal, text, tmp_path):
    out = tmp_path / "model"
    done = pivotal("train-lm", "--corpus", *text, "--out", out, *SMALL, "--cell", "gru", "--tied")
    assert done.code == 0, done.err
    assert f"{out}: validation perplexity" in done.out and "held out" in done.err
    card = json.loads((out / "card.json").read_text())
    assert [file["file"] for file in card["training"]["corpus"]] == ["first.txt", "second.txt"]
    assert card["training"]["settings"]["cell"] == "gru" and card["training"]["settings"]["tied"] is True
    assert card["command"].startswith("pivotal train-lm --corpus")
    again = pivotal("train-lm", "--corpus", *text, "--out", out, *SMALL, "--cell", "gru", "--tied")
    again.refused("This training is finished")


def test_a_model_with_the_name_of_a_bundled_one_is_named_by_its_path(pivotal, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pivotal("train-lm", "--corpus", *text, "--out", "wiki-lstm", *SMALL)
    assert "pivotal find ./wiki-lstm" in done.out


def test_every_setting_is_an_option(pivotal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = pivotal("train-lm", "--help").out
    for field in fields(Settings):
        assert f"--{field.name.replace('_', '-')}" in shown
    assert "0.003 (fast), 20.0 (gulordava)" in shown


def test_flags_and_their_opposites(pivotal, text, tmp_path):
    for i, flags in enumerate((("--tied", "--as-it-stands"), ("--untied", "--shuffle"))):
        given = ["--corpus", *text, *SMALL, *flags, "--recipe", "gulordava", "--valid-share", 0.1, "--out"]
        assert pivotal("train-lm", *given, tmp_path / f"model-{i}").code == 0
        card = json.loads((tmp_path / f"model-{i}" / "card.json").read_text())
        settings = card["training"]["settings"]
        assert (settings["tied"], settings["shuffle"]) == (i == 0, i == 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "m"), "no corpus file was given"),
        (("--corpus", "TEXT"), "Missing option '--out'"),
        (("--corpus", "TEXT", "--out", "m", "--recipe", "slow"), "There is no recipe 'slow'"),
        (("--corpus", "TEXT", "--out", "m", "--cell", "rnn"), "'rnn'"),
    ],
)
def test_bad_input_is_refused(pivotal, text, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    pivotal("train-lm", *(text[0] if a == "TEXT" else a for a in arguments)).refused(message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.txt", "second.txt"]
