"""What is kept of a GGUF file: the folder made of it, and facts that are slow to find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tests.models.tiny import random_model, tokenizer

from pivotal.models.transformers.gguf import converted, converted_tokenizer, digest, untied, wants_bos


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))


def test_a_digest_is_found_once_as_long_as_its_file_stays_the_same(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_text("old")
    before = digest(file)
    (note,) = (tmp_path / "home" / "digests").iterdir()
    for known, expected in (("f" * 64, "f" * 64), ("spoilt", before)):
        note.write_text(known)
        assert digest(file) == expected
    file.write_text("new")
    os.utime(file, ns=(0, 0))
    assert digest(file) != before


def test_a_folder_is_converted_once_and_anew_if_it_is_of_an_older_form(tmp_path: Path) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.write_text("weights")
    calls = 0

    def convert(_: Path, folder: Path) -> None:
        nonlocal calls
        calls += 1
        (folder / "config.json").write_text(str(calls))

    folder = converted(gguf, convert)
    assert converted(gguf, convert) == folder and calls == 1
    for file in folder.iterdir():
        if file.name != "config.json":
            file.unlink()
    assert (converted(gguf, convert) / "config.json").read_text() == "2"


def test_a_folder_that_another_process_has_finished_first_stays(tmp_path: Path) -> None:
    """The other process may be reading it."""
    gguf = tmp_path / "model.gguf"
    gguf.write_text("weights")

    def first(_: Path, folder: Path) -> None:
        (folder / "config.json").write_text("first")

    def second(_: Path, folder: Path) -> None:
        (folder / "config.json").write_text("second")
        converted(gguf, first)  # the other process, while this one is still at work

    assert (converted(gguf, second) / "config.json").read_text() == "first"


def test_of_weights_with_two_names_the_embedding_is_kept(tmp_path: Path) -> None:
    """Then nothing is missing when the folder is loaded, and nothing is drawn at random."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model = random_model("llama", tie_word_embeddings=True)
    kept = untied(model.state_dict())
    assert set(model.state_dict()) - set(kept) == {"lm_head.weight"}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    for (name, ours), theirs in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
    assert set(untied(random_model("llama").state_dict())) == set(random_model("llama").state_dict())


@pytest.mark.parametrize("bos", [False, True])
def test_a_tokenizer_is_read_as_transformers_reads_it(tmp_path: Path, bos: bool) -> None:
    from transformers import AutoTokenizer

    tokenizer(bos=bos).save_pretrained(tmp_path)
    ours, theirs = converted_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert ours.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert ours("The doctor")["input_ids"] == theirs("The doctor")["input_ids"]
    assert (ours("The doctor")["input_ids"][0] == ours.bos_token_id) == bos
    assert ours.get_vocab() == theirs.get_vocab()


@pytest.mark.parametrize("otherwise", [False, True])
def test_bos_is_read_where_llama_cpp_reads_it(otherwise: bool) -> None:
    sentencepiece, other = {"tokenizer.ggml.model": "llama"}, {"tokenizer.ggml.model": "gpt2"}
    assert wants_bos(sentencepiece, otherwise)
    assert wants_bos(other, otherwise) == otherwise
    for header in (sentencepiece, other):
        for said in (False, True):
            assert wants_bos({**header, "tokenizer.ggml.add_bos_token": said}, otherwise) == said
