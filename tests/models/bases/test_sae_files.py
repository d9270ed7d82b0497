"""Both layouts, written here as their authors publish them, and encoded as they encode."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pivotal import PivotalError, Problem
from pivotal.models.bases.files import read_tensors
from pivotal.models.bases.sae_files import read_sae
from pivotal.models.planted import plant
from pivotal.questions.phenomena.planted import PlantedAgreement

WIDTH, FEATURES, K = 6, 10, 3
Encode = Callable[[Tensor], Tensor]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


W_ENC, W_DEC = draw(WIDTH, FEATURES, seed=0), draw(FEATURES, WIDTH, seed=1)
B_ENC, B_DEC, THRESHOLD = draw(FEATURES, seed=2), draw(WIDTH, seed=3), draw(FEATURES, seed=4).abs()
H = draw(20, WIDTH, seed=5)
WHOLE = {"W_enc": W_ENC, "W_dec": W_DEC, "b_enc": B_ENC, "b_dec": B_DEC}


def top_k(before: Tensor) -> Tensor:
    best = before.topk(K)
    return torch.zeros_like(before).scatter(1, best.indices, best.values.relu())


def jump_relu(before: Tensor, threshold: Tensor | float = THRESHOLD) -> Tensor:
    return before.relu() * (before > threshold)


def saelens(folder: Path, **settings: Any) -> None:
    tensors = dict(WHOLE)
    if settings.get("architecture") == "jumprelu":
        tensors["threshold"] = THRESHOLD
    usual = {"d_in": WIDTH, "d_sae": FEATURES, "dtype": "float32", "normalize_activations": "none"}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(json.dumps({**usual, **settings}))


def saelens_standard(folder: Path) -> tuple[Encode, Tensor, str]:
    saelens(folder, architecture="standard", metadata={"hook_name": "blocks.4.hook_resid_post"})
    return lambda h: ((h - B_DEC) @ W_ENC + B_ENC).relu(), W_DEC, "resid.4"


def saelens_early(folder: Path) -> tuple[Encode, Tensor, str]:
    """As releases before 6 wrote it."""
    old = {"activation_fn_str": "topk", "activation_fn_kwargs": {"k": K}, "apply_b_dec_to_input": False}
    saelens(folder, hook_name="blocks.4.hook_resid_pre", **old)
    return lambda h: top_k(h @ W_ENC + B_ENC), W_DEC, "resid.3"


def saelens_jumprelu(folder: Path) -> tuple[Encode, Tensor, str]:
    saelens(folder, architecture="jumprelu", metadata={"hook_name": "blocks.4.mlp.hook_post"})
    return lambda h: jump_relu((h - B_DEC) @ W_ENC + B_ENC), W_DEC, "mlp.4"


def saelens_topk(folder: Path) -> tuple[Encode, Tensor, str]:
    hook = {"hook_name": "blocks.4.attn.hook_z"}
    saelens(folder, architecture="topk", k=K, rescale_acts_by_decoder_norm=True, metadata=hook)
    norm = W_DEC.norm(dim=1)
    return lambda h: top_k(((h - B_DEC) @ W_ENC + B_ENC) * norm), W_DEC / norm[:, None], "attn.4"


def gemma_scope(folder: Path) -> tuple[Encode, Tensor, str]:
    folder.mkdir(parents=True)
    arrays = {**WHOLE, "threshold": THRESHOLD}
    np.savez(folder / "params.npz", **{name: tensor.numpy() for name, tensor in arrays.items()})
    return lambda h: jump_relu(h @ W_ENC + B_ENC), W_DEC, ""


LAYOUTS = {
    "saelens": saelens_standard, "saelens-early": saelens_early, "saelens-jumprelu": saelens_jumprelu,
    "saelens-topk": saelens_topk, "gemma-scope": gemma_scope,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_autoencoder_of_a_published_layout_encodes_as_its_authors_do(name, tmp_path):
    encode, decoder, site = LAYOUTS[name](tmp_path / name)
    basis, trained_on = read_sae(str(tmp_path / name))
    assert trained_on == site
    assert torch.allclose(basis.encode(H), encode(H), atol=1e-4)
    change = draw(20, FEATURES, seed=6)
    assert torch.allclose(basis.decode(change), change @ decoder, atol=1e-4)


def test_pickled_arrays_are_refused(tmp_path):
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("this must not run",)

    array = np.array([Evil()], dtype=object)
    np.savez(tmp_path / "params.npz", W_enc=array)
    with pytest.raises(PivotalError, match="arrays of numbers only"):
        read_sae(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "cfg.json").unlink(), "holds neither"),
        (lambda f: saelens(f, architecture="gated"), "architecture 'gated'"),
        (lambda f: saelens(f, normalize_activations="layer_norm"), "normalize_activations 'layer_norm'"),
        (lambda f: saelens(f, hook_name="blocks.3.hook_mlp_out"), "is for blocks.3.hook_mlp_out"),
        (lambda f: (f / "sae_weights.safetensors").write_bytes(b"\x08"), "cannot be read"),
        (lambda f: save_file({**WHOLE, "W_dec": W_ENC.clone()}, f / "sae_weights.safetensors"), "must fit"),
        (lambda f: save_file({**WHOLE, "b_dec": B_ENC.clone()}, f / "sae_weights.safetensors"), "must fit"),
        (lambda f: (f / "cfg.json").write_text("[1]"), "must fit"),
        (lambda f: saelens(f, metadata=3), "must fit"),
        (lambda f: saelens(f, architecture="topk", k=0), "k must be 1 or more, but it is 0"),
        (lambda f: saelens(f, architecture="topk", k=float("inf")), "must fit"),
    ],
)
def test_what_is_wrong_with_a_folder(damage, said, tmp_path):
    saelens_standard(tmp_path)
    damage(tmp_path)
    with pytest.raises(PivotalError) as told:
        read_sae(str(tmp_path))
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("cut.npz", lambda whole: whole[: len(whole) // 2]),
        ("flipped.npz", lambda whole: whole[:150] + bytes([255 - whole[150]]) + whole[151:]),
        ("header.npy", lambda whole: whole.replace(b"), }", b"(, }")),
    ],
)
def test_a_damaged_file_of_numpy_is_refused(name, spoil, tmp_path):
    """It makes numpy raise errors of zipfile and of tokenize."""
    path = tmp_path / name
    np.savez(path, W_enc=W_ENC) if path.suffix == ".npz" else np.save(path, W_ENC)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(PivotalError, match="Download it again"):
        read_tensors(path)


def test_wrong_width_and_wrong_layer_get_a_sentence(tmp_path):
    model, pairs = plant(hidden=24).model, PlantedAgreement().pairs()[:20]
    saelens_standard(tmp_path / "a")
    with pytest.raises(PivotalError, match=r"autoencoder of resid\.4, not of hidden\.0"):
        Problem(model, pairs, sites=f"hidden.0@sae:{tmp_path / 'a'}")
    saelens(tmp_path / "b")
    with pytest.raises(PivotalError, match=r"has the width 6, but hidden\.0 has 24"):
        Problem(model, pairs, sites=f"hidden.0@sae:{tmp_path / 'b'}")
    with pytest.raises(PivotalError, match=r"is read from a file\. Write hidden\.0@sae:PATH"):
        Problem(model, pairs, sites="hidden.0@sae")
