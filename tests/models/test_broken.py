"""Folders of transformers with a file that is missing, cut short or of another model: the message says which."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.models.tiny import random_model, tokenizer

from pivotal.errors import PivotalError
from pivotal.models import load_model
from pivotal.models.transformers.lm import TransformersLM


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    random_model("llama").save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def pointer(folder: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (folder / "model.safetensors").write_text(text)


def claiming(**changed: object) -> Callable[[Path], None]:
    """Change config.json alone."""

    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **changed}))

    return spoil


def with_a_nan(folder: Path) -> None:
    model = random_model("llama")
    model.model.layers[1].mlp.down_proj.weight.data[3, 5] = float("nan")
    model.save_pretrained(folder)


def with_code(folder: Path) -> None:
    """A model with its own code; the code would leave a file if it ran."""
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "strange",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.LM"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\nclass Config: pass\nclass LM: pass\n"
    )


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("token*"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, r"model\.safetensors must be a whole safetensors file.*Download it again"),
        (pointer, r"model\.safetensors.*a Git LFS pointer.*git lfs pull"),
        (
            claiming(intermediate_size=32),
            r"config\.json must describe the weights.*mlp.*32, and the weights have .*24",
        ),
        (with_a_nan, r"Weights must be finite numbers, but model\.layers\.1\.mlp\.down_proj\.weight of"),
        (with_code, r"needs Python code that comes with the model, and pivotal never runs"),
        (no_tokenizer, r"has no tokenizer\.json.*save_pretrained"),
        (lambda f: (f / "tokenizer.json").write_text("{oh"), r"tokenizer\.json must be JSON"),
        (
            lambda f: (f / "tokenizer.json").write_text('{"model": 3}'),
            r"The tokenizer of tiny cannot be read",
        ),
        (lambda f: (f / "config.json").write_text("{oh"), r"config\.json must be JSON"),
    ],
)
def test_the_broken_file_is_named(
    whole: Path, spoil: Callable[[Path], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    spoil(shutil.copytree(whole, tmp_path / "tiny"))
    with pytest.raises(PivotalError, match=said):
        load_model(tmp_path / "tiny")
    assert not (tmp_path / "tiny" / "ran").exists()


def test_a_gguf_file_that_is_only_a_pointer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    (tmp_path / "tiny.gguf").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(PivotalError, match="git lfs pull"):
        load_model(tmp_path / "tiny.gguf")


def test_priming_that_the_model_cannot_read() -> None:
    with pytest.raises(PivotalError, match=r"priming text must be in the model's words, but 'zzz' is not"):
        TransformersLM("llama", random_model("llama"), tokenizer(), priming="zzz")


def test_a_tokenizer_without_its_token_for_unknown_words(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "gone"
    (folder / "tokenizer.json").write_text(json.dumps(content))
    model = load_model(str(folder))
    assert len(model.encode("The doctor").ids) == 2
    for ask in (model.encode, model.tokens_of):
        with pytest.raises(PivotalError, match="the tokenizer cannot read it"):
            ask("The zebra")
