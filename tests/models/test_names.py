"""Models by name: bundled ones, local ones, and repositories of Hugging Face."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch

from pivotal.errors import PivotalError
from pivotal.models import LanguageModel, list_models, load_model, transformers
from pivotal.models.recurrent.folder import FILES, save_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def save(folder: Path, seed: int = 0) -> LanguageModel:
    """A small model in a folder; it is returned as it was before."""
    torch.manual_seed(seed)
    words = ("<eos>", "<unk>", "the", "cat")
    rnn = torch.nn.GRU(2, 3)
    weights = {f"rnn.{name}": weight.detach() for name, weight in rnn.named_parameters()}
    weights |= {"encoder.weight": torch.randn(4, 2), "decoder.weight": torch.randn(4, 3)}
    save_folder(folder, cell="gru", words=words, weights=weights, card={"summary": f"a GRU, seed {seed}"})
    return load_model(folder, device="cpu")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "models"


def test_models_at_home_are_listed_and_opened_by_name(home: Path) -> None:
    there = save(home / "mine")
    seeds = [save(home / "several" / f"seed-{i}", i) for i in range(2)]
    listed = dict(list_models())
    assert {"wiki-lstm", "planted", "mine", "several/seed-0", "several/seed-1"} <= set(listed)
    assert listed["several/seed-1"] == "a GRU, seed 1"
    assert load_model("mine", device="cpu").fingerprint() == there.fingerprint()
    model = load_model("several/seed-1", device="cpu")
    assert (model.name, model.fingerprint()) == ("several/seed-1", seeds[1].fingerprint())
    with pytest.raises(PivotalError, match="Did you mean 'mine'"):
        load_model("mines", device="cpu")


def test_a_gguf_file_at_home_is_a_local_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    (home / "small.gguf").write_bytes(b"GGUF")
    (home / ".half.gguf").write_bytes(b"GGUF")
    opened = []

    def load(name: str, path: Path, *_: object) -> LanguageModel:
        opened.append((name, path))
        return load_model("planted", device="cpu")

    monkeypatch.setattr(transformers, "load", load)
    monkeypatch.setattr(transformers, "converted", lambda path: path)
    monkeypatch.setattr(transformers, "converted_tokenizer", lambda path: None)
    assert load_model("small", device="cpu").name == "planted" and opened == [("small", home / "small.gguf")]
    assert "small" in dict(list_models()) and ".half" not in dict(list_models())
    save(home / "small")
    assert load_model("small", device="cpu").name == "small" and len(opened) == 1, "a folder comes first"


def test_a_path_comes_before_a_name_and_the_bundled_model_before_both(home: Path, tmp_path: Path) -> None:
    save(home / "mine", 0)
    here = save(tmp_path / "mine", 1)
    assert load_model("mine", device="cpu").fingerprint() == here.fingerprint()
    save(tmp_path / "wiki-lstm")
    assert load_model("wiki-lstm", device="cpu").vocabulary_size > 4


@pytest.mark.parametrize("spec", ["", " ", "  \n"])
def test_a_model_has_a_name(home: Path, spec: str) -> None:
    save(home)  # which nothing would be the path of
    with pytest.raises(PivotalError, match="the name is empty"):
        load_model(spec)


# -- Hugging Face ---------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of huggingface_hub, without a network."""
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def put(cache: Path, repository: str, folder: Path) -> None:
    """As `hf_hub_download` leaves it: a snapshot of a commit, and a reference to that."""
    root = cache / f"models--{repository.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT)
    shutil.copytree(folder, root / "snapshots" / COMMIT)


@pytest.mark.parametrize("spec", ["hf:somebody/small-gru", "somebody/small-gru"])
def test_a_repository_with_our_files_is_a_model(cache: Path, tmp_path: Path, spec: str) -> None:
    there = save(tmp_path / "local")
    put(cache, "somebody/small-gru", tmp_path / "local")
    model = load_model(spec, device="cpu", dtype="float64")
    assert (model.name, model.fingerprint()) == ("somebody/small-gru", there.fingerprint())


def test_a_mistyped_path_asks_no_network(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    save(tmp_path / "models" / "mine")
    with monkeypatch.context() as patch, pytest.raises(PivotalError, match="is none of these"):
        patch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("it asked"))
        load_model("models/mnie", device="cpu")
    there = save(tmp_path / "local")
    put(cache, "models/mnie", tmp_path / "local")  # with hf: it is a repository all the same
    assert load_model("hf:models/mnie", device="cpu").fingerprint() == there.fingerprint()


@pytest.mark.parametrize("missing", ["config.json", *FILES[1:]])
def test_without_a_network_the_cure_is_a_local_folder(cache: Path, tmp_path: Path, missing: str) -> None:
    save(tmp_path / "local")
    (tmp_path / "local" / missing).unlink()
    put(cache, "somebody/partial", tmp_path / "local")
    without_config = (
        r"^Cannot download the Hugging Face repository somebody/partial .* path of a local folder"
    )
    with pytest.raises(
        PivotalError, match=without_config if missing == "config.json" else f"lacks {missing}"
    ):
        load_model("hf:somebody/partial", device="cpu")
    with pytest.raises(PivotalError, match=r"^There is no folder nobody/nothing\. Cannot download"):
        load_model("nobody/nothing", device="cpu")


def test_without_huggingface_hub_the_cure_is_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PivotalError, match=r"Install pivotal\[hf\], or give the path of a local folder"):
        load_model("hf:somebody/small-gru", device="cpu")
    with pytest.raises(PivotalError, match="is none of these"):
        load_model("somebody/small-gru", device="cpu")


@pytest.mark.parametrize("spec", ["hf:somebody/small-gru", "somebody/small-gru"])
def test_a_model_that_nobody_asked_for_is_not_downloaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    """The name may come from a folder of somebody else. What is in the cache is loaded without asking the network."""
    from huggingface_hub import constants

    def connects(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.getaddrinfo", connects)
    said = r"not on this machine\. If you trust it, name it yourself: --model hf:somebody/small-gru"
    with pytest.raises(PivotalError, match=said):
        load_model(spec, device="cpu", download=False)
    there = save(tmp_path / "local")
    put(cache, "somebody/small-gru", tmp_path / "local")
    assert load_model(spec, device="cpu", download=False).fingerprint() == there.fingerprint()
