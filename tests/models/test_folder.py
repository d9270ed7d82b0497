"""Model folders, models by name, and repositories of Hugging Face: what is loaded, and what is wrong with a bad one."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.stored_json import changed
from torch import nn

from pivotal import PivotalError, list_models, load_model
from pivotal.models import LanguageModel, RecurrentLM, transformers
from pivotal.models.recurrent.folder import FILES, load_folder, save_folder
from pivotal.models.recurrent.weights import dequantised

WORDS = ["<eos>", "<unk>", "the", "cat", "sleeps", "sleep"]
CARD = {"name": "toy", "summary": "a toy"}


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    tensors = {f"rnn.{name}": weight for name, weight in nn.LSTM(3, 4, 2).state_dict().items()}
    decoder = nn.Linear(4, len(WORDS)).state_dict()
    tensors |= {f"decoder.{name}": weight for name, weight in decoder.items()}
    return tensors | {"encoder.weight": torch.randn(len(WORDS), 3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_folder(tmp_path / "toy", cell="lstm", words=WORDS, weights=weights(), card=CARD)


def config(**changes: Any) -> Any:
    return lambda folder: changed(folder / "config.json", **changes)


def tensors(**changes: torch.Tensor | None) -> Any:
    """The weights with some changed; `__` stands for the dot, None leaves one out."""

    def damage(f: Path) -> None:
        named = {name.replace("__", "."): tensor for name, tensor in changes.items()}
        kept = {name: tensor for name, tensor in {**weights(), **named}.items() if tensor is not None}
        save_file(kept, f / "model.safetensors")

    return damage


def packed(scale: torch.Tensor | None = None) -> Any:
    """The embedding in 8 bits, with or without its scales."""
    return tensors(
        encoder__weight=None, encoder__weight__int8=torch.zeros(6, 3), encoder__weight__scale=scale
    )


def truncate(f: Path) -> None:
    path = f / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "must be a whole safetensors file, but cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), "lacks model.safetensors."),
        (
            lambda f: (f / "vocab.txt").write_text("one\ntwo\n"),
            r"encoder.weight of this lstm.* must have the shape \(2, 3\), but has \(6, 3\)",
        ),
        (lambda f: (f / "vocab.txt").write_text("\n".join([*WORDS[:5], "cat"])), "'cat' occurs twice"),
        (lambda f: (f / "config.json").write_text("{"), "must be JSON"),
        (config(cell="lstmm"), "no recurrent cell 'lstmm'.*Did you mean 'lstm'"),
        (config(cell="gru"), r"of this gru must have the shape \(12, 3\), but has \(16, 3\)"),
        (config(priming="hello"), r"priming text.*'hello' is not \(outside the vocabulary: hello\)"),
        (tensors(encoder__weight=None), "encoder.weight is missing"),
        (
            tensors(decoder__bias=torch.zeros(1)),
            r"decoder.bias .* must have the shape \(6,\), but has \(1,\)",
        ),
        (tensors(rnn__bias_hh_l1=torch.zeros(3)), r"must have the shape \(16,\), but has \(3,\)"),
        (tensors(decoder__weight=torch.zeros(())), r"must have the shape \(6, 1\), but has \(\)"),
        (tensors(rnn__weight_ih_l1=None), "layers 0 to 0 .* but there is also rnn.bias_hh_l1"),
        (packed(), "int8 has no encoder.weight.sc"),
        (packed(torch.ones(5)), "encoder.weight.int8 needs one scale for each row"),
        (packed(torch.ones(())), "encoder.weight.int8 needs one scale for each row"),
        (tensors(encoder__weight=torch.zeros(6, 0)), "encoder.weight has none"),
    ],
)
def test_a_bad_folder_is_refused_with_the_reason(folder, damage, message):
    damage(folder)
    with pytest.raises(PivotalError, match=message):
        load_model(str(folder))


def test_a_whole_folder_is_loaded(folder):
    model = load_model(str(folder), device="cpu")
    assert (model.name, model.vocabulary_size, len(model.unit_space())) == ("toy", 6, 8)
    # The name may change, the function may not.
    renamed = folder.rename(folder.with_name("renamed"))
    assert load_folder(renamed).fingerprint() == model.fingerprint()
    assert load_folder(renamed, priming="the cat").fingerprint() != model.fingerprint()
    (renamed / "vocab.txt").write_text("\n".join(reversed(WORDS)), encoding="utf-8")
    assert load_folder(renamed).fingerprint() != model.fingerprint()


def test_int8_rows_with_scales_are_restored():
    whole = weights()["encoder.weight"]
    scale = whole.abs().amax(1) / 127
    packed = {"x.int8": (whole / scale[:, None]).round().to(torch.int8), "x.scale": scale, "b": scale.half()}
    restored = dequantised(packed)
    assert set(restored) == {"x", "b"}
    assert (restored["x"] - whole).abs().max() <= scale.max() / 2 + 1e-6


@pytest.mark.parametrize("tied", [False, True])
def test_a_saved_model_is_the_same_model(tied, tmp_path):
    parts = weights()
    if tied:
        parts |= {"encoder.weight": torch.randn(len(WORDS), 4), "rnn.weight_ih_l0": torch.randn(16, 4)}
        parts["decoder.weight"] = parts["encoder.weight"]
    model = RecurrentLM("mine", cell="lstm", words=WORDS, weights=parts)
    saved, states = model.save(tmp_path / "saved"), torch.randn(3, 4)
    assert load_folder(saved).fingerprint() == model.fingerprint()
    assert ("decoder.weight" in load_file(saved / "model.safetensors")) != tied, (
        "tied weights are written once"
    )
    expected = states @ parts["decoder.weight"].T + parts["decoder.bias"]
    torch.testing.assert_close(load_folder(saved).readout(states), expected)
    small = save_folder(tmp_path / "small", cell="lstm", words=WORDS, weights=parts, card=CARD, int8=True)
    again = load_folder(small).save(tmp_path / "again")
    assert load_folder(again).fingerprint() == load_folder(small).fingerprint()


def test_a_folder_is_replaced_only_when_asked(folder):
    before = (folder / "model.safetensors").read_bytes()
    changed = {name: tensor + 1 for name, tensor in weights().items()}
    with pytest.raises(PivotalError, match="exists already"):
        save_folder(folder, cell="lstm", words=WORDS, weights=changed, card=CARD)
    assert (folder / "model.safetensors").read_bytes() == before
    save_folder(folder, cell="lstm", words=WORDS, weights=changed, card=CARD, replace=True)
    assert torch.equal(load_file(folder / "model.safetensors")["decoder.bias"], changed["decoder.bias"])
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "config.json").write_text('{"model_type": "gpt2"}'),
        lambda f: (f / "thesis.tex").write_text("years of work"),
        lambda f: (f / "notes").mkdir(),
        lambda f: (f / "config.json").unlink(),
    ],
)
def test_what_is_not_a_model_alone_is_never_replaced(folder, change):
    change(folder)
    before = sorted((path.name, path.is_dir() or path.read_bytes()) for path in folder.iterdir())
    with pytest.raises(PivotalError, match="holds other files than a model"):
        save_folder(folder, cell="lstm", words=WORDS, weights=weights(), card=CARD, replace=True)
    assert sorted((path.name, path.is_dir() or path.read_bytes()) for path in folder.iterdir()) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_an_empty_folder_is_taken_a_nameless_one_not(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    save_folder(tmp_path / "empty", cell="lstm", words=WORDS, weights=weights(), card=CARD)
    assert load_folder(tmp_path / "empty").vocabulary_size == len(WORDS)
    monkeypatch.chdir(tmp_path)
    for nameless in (".", "..", "/"):
        with pytest.raises(PivotalError, match="has no name"):
            save_folder(Path(nameless), cell="lstm", words=WORDS, weights=weights(), card=CARD, replace=True)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def save(folder: Path, seed: int = 0) -> LanguageModel:
    """A small model in a folder."""
    save_folder(folder, cell="lstm", words=WORDS, weights=weights(seed), card={"summary": f"seed {seed}"})
    return load_model(folder, device="cpu")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "models"


def test_models_at_home_are_listed_and_opened_by_name(home):
    there = save(home / "mine")
    seeds = [save(home / "several" / f"seed-{i}", i) for i in range(2)]
    listed = dict(list_models())
    assert {"wiki-lstm", "planted", "mine", "several/seed-0", "several/seed-1"} <= set(listed)
    assert listed["several/seed-1"] == "seed 1"
    assert load_model("mine", device="cpu").fingerprint() == there.fingerprint()
    model = load_model("several/seed-1", device="cpu")
    assert (model.name, model.fingerprint()) == ("several/seed-1", seeds[1].fingerprint())
    with pytest.raises(PivotalError, match="Did you mean 'mine'"):
        load_model("mines", device="cpu")


def test_a_gguf_file_at_home_is_a_local_model(home, monkeypatch):
    home.mkdir(parents=True)
    (home / "small.gguf").write_bytes(b"GGUF")
    (home / ".half.gguf").write_bytes(b"GGUF")
    opened = []

    def load(name: str, path: Path, *_: object) -> LanguageModel:
        opened.append((name, path))
        return load_model("planted", device="cpu")

    monkeypatch.setattr(transformers, "load", load)
    monkeypatch.setattr(transformers, "converted", lambda path: path)
    assert load_model("small", device="cpu").name == "planted" and opened == [("small", home / "small.gguf")]
    assert "small" in dict(list_models()) and ".half" not in dict(list_models())
    save(home / "small")
    assert load_model("small", device="cpu").name == "small" and len(opened) == 1, "a folder comes first"


def test_a_path_comes_before_a_name_and_the_bundled_model_before_both(home, tmp_path):
    save(home / "mine", 0)
    here = save(tmp_path / "mine", 1)
    assert load_model("mine", device="cpu").fingerprint() == here.fingerprint()
    save(tmp_path / "wiki-lstm")
    assert load_model("wiki-lstm", device="cpu").vocabulary_size > len(WORDS)


@pytest.mark.parametrize("spec", ["", " ", "  \n"])
def test_a_model_has_a_name(home, spec):
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
def test_a_repository_with_our_files_is_a_model(cache, tmp_path, spec):
    there = save(tmp_path / "local")
    put(cache, "somebody/small-gru", tmp_path / "local")
    model = load_model(spec, device="cpu", dtype="float64")
    assert (model.name, model.fingerprint()) == ("somebody/small-gru", there.fingerprint())


def test_a_mistyped_path_stays_local(cache, tmp_path, monkeypatch):
    import huggingface_hub

    save(tmp_path / "models" / "mine")
    with monkeypatch.context() as patch, pytest.raises(PivotalError, match="A model is a name"):
        patch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("it asked"))
        load_model("models/mnie", device="cpu")
    there = save(tmp_path / "local")
    put(cache, "models/mnie", tmp_path / "local")  # with hf: it is a repository all the same
    assert load_model("hf:models/mnie", device="cpu").fingerprint() == there.fingerprint()


@pytest.mark.parametrize("missing", ["config.json", *FILES[1:]])
def test_without_a_network_the_cure_is_a_local_folder(cache, tmp_path, missing):
    save(tmp_path / "local")
    (tmp_path / "local" / missing).unlink()
    put(cache, "somebody/partial", tmp_path / "local")
    without_config = "^Cannot download somebody/partial .* Give a local folder"
    said = without_config if missing == "config.json" else f"lacks {missing}"
    with pytest.raises(PivotalError, match=said):
        load_model("hf:somebody/partial", device="cpu")
    with pytest.raises(PivotalError, match=r"^There is no folder nobody/nothing\. Cannot download"):
        load_model("nobody/nothing", device="cpu")


def test_without_huggingface_hub_it_must_be_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PivotalError, match=r"Install pivotal\[hf\], or give a local folder"):
        load_model("hf:somebody/small-gru", device="cpu")
    with pytest.raises(PivotalError, match="A model is a name"):
        load_model("somebody/small-gru", device="cpu")


@pytest.mark.parametrize("spec", ["hf:somebody/small-gru", "somebody/small-gru"])
def test_a_model_that_nobody_asked_for_is_not_downloaded(cache, tmp_path, monkeypatch, spec):
    """The name may come from a folder of somebody else. What is in the cache is loaded without asking the network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("the network was asked"))
    said = r"not on this machine\..* If you trust the repository, name it yourself: --model hf:somebody/small-gru"
    with pytest.raises(PivotalError, match=said):
        load_model(spec, device="cpu", download=False)
    there = save(tmp_path / "local")
    put(cache, "somebody/small-gru", tmp_path / "local")
    assert load_model(spec, device="cpu", download=False).fingerprint() == there.fingerprint()
