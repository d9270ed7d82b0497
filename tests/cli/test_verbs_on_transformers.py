"""Every verb on a model of transformers: tiny, random, in a folder."""

import json
from pathlib import Path

import pytest
import torch
from tests.models.tiny import doctors, save_tiny

from pivotal import read_pairs
from pivotal.problem.divergence import KLReference
from pivotal.questions import MinimalPair, PairSet


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model's folder and a file of pairs."""
    here = tmp_path_factory.mktemp("transformers")
    save_tiny(here / "tiny-llama", bos=True)
    pairs = doctors("near", "behind", "near The", "quickly", firsts=("The", "Some"))
    pairs.save(here / "pairs.jsonl")
    return here / "tiny-llama", here / "pairs.jsonl"


@pytest.mark.parametrize(
    ("steps", "sites"), [pytest.param("every", "mlp", marks=pytest.mark.slow), ("single", "head,mlp.1")]
)
def test_find_evaluate_generate_trace(pivotal, question, steps, sites, tmp_path, monkeypatch):
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    model, pairs = question
    settings = ("--sites", sites, "--max-units", 3, "--updates", 40, "-o", "refit=10", "--batch-nodes", 64)
    done = pivotal("find", model, pairs, "--steps", steps, *settings, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "reads <s> before every sentence" in done.err + done.out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    again = pivotal("evaluate", tmp_path / "run", "--json").json
    assert again["flip_accuracy"] == pytest.approx(summary["runs"][0]["flip_accuracy"])
    assert again["kl"] == pytest.approx(summary["runs"][0]["kl"], rel=1e-3)
    cue = ("--cue", "doctor") if steps == "single" else ()
    said = pivotal("generate", tmp_path / "run", "The doctor near", "--direction", "plural", *cue, "--json")
    made = said.json
    sides = [made["untouched"], *made["directions"].values()]
    assert all(text.startswith("The doctor near ") for side in sides for text in side["texts"])
    traced = pivotal("trace", tmp_path / "run", "The doctor near run", "--json").json
    assert traced["words"] == ["runs", "run"]
    assert traced["edited"] == ([1, 1, 1] if steps == "every" else [0, 1, 0])
    stored = json.loads((tmp_path / "run" / "traces.json").read_text())
    assert len(stored["pairs"]) == len(stored["traces"]) == summary["pairs"]["test"]


def test_memory_that_runs_out_beside_the_models_own_passes(pivotal, question, tmp_path, monkeypatch):
    """In its passes a search goes on with fewer nodes; elsewhere, as in the softmax of all positions, one is told what
    to do."""

    def short_of_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")

    monkeypatch.setattr(KLReference, "mean", short_of_memory)
    done = pivotal("find", *question, "--sites", "mlp", "--updates", "5", "--out", tmp_path / "run")
    done.refused("Free memory, or use a smaller model")


@pytest.mark.slow
def test_texts_longer_than_the_positions_of_a_model(pivotal, question, tmp_path, monkeypatch):
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    save_tiny(tmp_path / "tiny-gpt2", "gpt2", bos=True)
    long = tuple(MinimalPair(f"The {noun}" + " near" * 70, 1, ("runs", "run")) for noun in ("doctor", "car"))
    pairs = read_pairs(question[1])
    PairSet("mixed", pairs.labels, (*pairs, *long)).save(tmp_path / "mixed.jsonl")
    settings = ("--sites", "mlp", "--max-units", "2", "--updates", "5", "-o", "refit=2")
    done = pivotal(
        "find", tmp_path / "tiny-gpt2", tmp_path / "mixed.jsonl", *settings, "--out", tmp_path / "run"
    )
    assert done.code == 0, done.err
    said = " ".join((done.err + done.out).split())
    assert "cannot score 2 of 42 pairs" in said
    assert "longer than the 63 tokens that have a position (2)" in said
    ask = ("generate", tmp_path / "run", "The doctors", "--direction", "singular", "--length", "80")
    pivotal(*ask).refused("at most 63 tokens, but this one has")
    sentence = "The doctors" + " near" * 70 + " run"
    pivotal("trace", tmp_path / "run", sentence).refused("63 tokens")
