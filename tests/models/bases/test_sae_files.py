"""Every published layout, written here as its authors publish it, and encoded as they encode it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.bases.sae_files import read_sae
from pivotal.models.planted import plant
from pivotal.problem.problem import Problem
from pivotal.questions.phenomena.planted import PlantedAgreement

WIDTH, FEATURES, K = 6, 10, 3
Encode = Callable[[Tensor], Tensor]


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


W_ENC, W_DEC = draw(WIDTH, FEATURES, seed=0), draw(FEATURES, WIDTH, seed=1)
B_ENC, B_DEC, THRESHOLD = draw(FEATURES, seed=2), draw(WIDTH, seed=3), draw(FEATURES, seed=4).abs()
H = draw(20, WIDTH, seed=5)


def top_k(before: Tensor) -> Tensor:
    best = before.topk(K)
    return torch.zeros_like(before).scatter(1, best.indices, best.values.relu())


def saelens(folder: Path, **settings: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = {"W_enc": W_ENC, "W_dec": W_DEC, "b_enc": B_ENC, "b_dec": B_DEC}
    if settings.get("architecture") in ("jumprelu", "batchtopk"):
        weights["threshold"] = THRESHOLD
    save_file(weights, folder / "sae_weights.safetensors")
    usual = {"d_in": WIDTH, "d_sae": FEATURES, "dtype": "float32", "normalize_activations": "none"}
    (folder / "cfg.json").write_text(json.dumps({**usual, **settings}))


def saelens_standard(folder: Path) -> tuple[Encode, Tensor, str]:
    saelens(folder, architecture="standard", metadata={"hook_name": "blocks.4.hook_resid_post"})
    return lambda h: ((h - B_DEC) @ W_ENC + B_ENC).relu(), W_DEC, "resid.4"


def saelens_early(folder: Path) -> tuple[Encode, Tensor, str]:
    """As releases before 6 wrote it."""
    saelens(
        folder,
        hook_name="blocks.4.hook_resid_pre",
        activation_fn_str="topk",
        activation_fn_kwargs={"k": K},
        apply_b_dec_to_input=False,
    )
    return lambda h: top_k(h @ W_ENC + B_ENC), W_DEC, "resid.3"


def saelens_jumprelu(folder: Path) -> tuple[Encode, Tensor, str]:
    saelens(
        folder,
        architecture="jumprelu",
        apply_b_dec_to_input=True,
        metadata={"hook_name": "blocks.4.mlp.hook_post"},
    )

    def encode(h: Tensor) -> Tensor:
        before = (h - B_DEC) @ W_ENC + B_ENC
        return before.relu() * (before > THRESHOLD)

    return encode, W_DEC, "mlp.4"


def saelens_topk(folder: Path) -> tuple[Encode, Tensor, str]:
    saelens(
        folder,
        architecture="topk",
        k=K,
        rescale_acts_by_decoder_norm=True,
        metadata={"hook_name": "blocks.4.attn.hook_z"},
    )
    norm = W_DEC.norm(dim=1)
    return lambda h: top_k(((h - B_DEC) @ W_ENC + B_ENC) * norm), W_DEC / norm[:, None], "attn.4"


def gemma_scope(folder: Path) -> tuple[Encode, Tensor, str]:
    folder.mkdir(parents=True)
    arrays = {
        "W_enc": W_ENC,
        "W_dec": W_DEC,
        "b_enc": B_ENC,
        "b_dec": B_DEC,
        "threshold": THRESHOLD,
    }
    np.savez(folder / "params.npz", **{name: tensor.numpy() for name, tensor in arrays.items()})
    before = lambda h: h @ W_ENC + B_ENC  # noqa: E731
    return lambda h: before(h).relu() * (before(h) > THRESHOLD), W_DEC, ".12"


def gemma_3(folder: Path) -> tuple[Encode, Tensor, str]:
    folder.mkdir(parents=True)
    tensors = {
        "w_enc": W_ENC,
        "w_dec": W_DEC,
        "b_enc": B_ENC,
        "b_dec": B_DEC,
        "threshold": THRESHOLD,
        "affine_skip_connection": draw(WIDTH, WIDTH, seed=9),
    }
    save_file(tensors, folder / "params.safetensors")
    config = {
        "hf_hook_point_in": "model.layers.17.output",
        "hf_hook_point_out": "model.layers.17.output",
        "width": FEATURES,
        "architecture": "jump_relu",
        "type": "sae",
    }
    (folder / "config.json").write_text(json.dumps(config))
    before = lambda h: h @ W_ENC + B_ENC  # noqa: E731
    return lambda h: before(h).relu() * (before(h) > THRESHOLD), W_DEC, "resid.17"


def sparsify(folder: Path) -> tuple[Encode, Tensor, str]:
    folder.mkdir(parents=True)
    tensors = {
        "encoder.weight": W_ENC.T.contiguous(),
        "encoder.bias": B_ENC,
        "W_dec": W_DEC,
        "b_dec": B_DEC,
    }
    save_file(tensors, folder / "sae.safetensors")
    (folder / "cfg.json").write_text(json.dumps({"d_in": WIDTH, "k": K, "expansion_factor": 32}))
    return lambda h: top_k((h - B_DEC) @ W_ENC + B_ENC), W_DEC, "resid.9"


def llama_scope(folder: Path) -> tuple[Encode, Tensor, str]:
    (folder / "checkpoints").mkdir(parents=True)
    tensors = {
        "encoder.weight": W_ENC.T.contiguous(),
        "encoder.bias": B_ENC,
        "decoder.weight": W_DEC.T.contiguous(),
        "decoder.bias": B_DEC,
    }
    save_file(tensors, folder / "checkpoints" / "final.safetensors")
    settings = {
        "hook_point_in": "blocks.15.hook_resid_post",
        "hook_point_out": "blocks.15.hook_resid_post",
        "d_model": WIDTH,
        "d_sae": FEATURES,
        "act_fn": "jumprelu",
        "jump_relu_threshold": 0.5,
        "norm_activation": "dataset-wise",
        "dataset_average_activation_norm": {"in": 17.0, "out": 17.0},
        "sparsity_include_decoder_norm": True,
        "apply_decoder_bias_to_pre_encoder": False,
    }
    (folder / "hyperparams.json").write_text(json.dumps(settings))
    scale, norm = WIDTH**0.5 / 17.0, W_DEC.norm(dim=1)

    def encode(h: Tensor) -> Tensor:
        before = (h * scale @ W_ENC + B_ENC) * norm
        return before.relu() * (before > 0.5) / norm

    return encode, W_DEC / scale, "resid.15"


LAYOUTS = {
    "saelens": saelens_standard,
    "saelens-early": saelens_early,
    "saelens-jumprelu": saelens_jumprelu,
    "saelens-topk": saelens_topk,
    "layer_12/width_16k/average_l0_82": gemma_scope,
    "resid_post/layer_17_width_16k_l0_small": gemma_3,
    "layers.9": sparsify,
    "Llama3_1-8B-Base-L15R-8x": llama_scope,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_autoencoder_of_a_published_layout_encodes_as_its_authors_do(name: str, tmp_path: Path) -> None:
    encode, decoder, site = LAYOUTS[name](tmp_path / name)
    read = read_sae(str(tmp_path / name))
    assert read.site == site
    assert torch.allclose(read.basis.encode(H), encode(H), atol=1e-4)
    change = draw(20, FEATURES, seed=6)
    assert torch.allclose(read.basis.decode(change), change @ decoder, atol=1e-4)


def test_a_file_of_the_folder_names_the_folder(tmp_path: Path) -> None:
    saelens_standard(tmp_path)
    assert read_sae(str(tmp_path / "cfg.json")).layout == "SAELens"


@pytest.mark.parametrize("name", ["ae.pt", "autoencoder.pth"])
def test_pickles_are_refused_and_not_opened(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(PivotalError, match=rf"cannot hold code, but .* holds {name}, a pickle"):
        read_sae(str(tmp_path))


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return print, ("this must not run",)

    array = np.array([Evil()], dtype=object)
    np.savez(tmp_path / "params.npz", W_enc=array)
    with pytest.raises(PivotalError, match="pickled objects, which can run code"):
        read_sae(str(tmp_path))
    (tmp_path / "params.npz").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(PivotalError, match=r"params\.npz"):
        read_sae(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "cfg.json").unlink(), "comes with cfg.json"),
        (lambda f: (f / "cfg.json").write_text("{"), "must be JSON"),
        (lambda f: (f / "cfg.json").write_text("[]"), "must be a JSON object"),
        (lambda f: saelens(f, architecture="gated"), "architecture 'gated' is not supported"),
        (lambda f: saelens(f, normalize_activations="layer_norm"), "normalize_activations 'layer_norm'"),
        (lambda f: saelens(f, hook_name="blocks.3.hook_mlp_out"), "blocks.3.hook_mlp_out, which is none"),
        (lambda f: saelens(f, hook_name="blocks.0.hook_resid_pre"), "before the first block"),
        (lambda f: (f / "sae_weights.safetensors").write_bytes(b"\x08"), "cannot be read"),
        (lambda f: save_file({"W_enc": W_ENC}, f / "sae_weights.safetensors"), "W_dec"),
        (
            lambda f: save_file(
                {"W_enc": W_ENC, "W_dec": W_ENC.clone(), "b_enc": B_ENC, "b_dec": B_DEC},
                f / "sae_weights.safetensors",
            ),
            "must fit together",
        ),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(
    damage: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    saelens_standard(tmp_path)
    damage(tmp_path)
    with pytest.raises(PivotalError) as told:
        read_sae(str(tmp_path))
    assert said in str(told.value)


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=r"holds one of sae_weights\.safetensors, params\.npz"):
        read_sae(str(tmp_path))
    with pytest.raises(PivotalError, match="there is no folder"):
        read_sae(str(tmp_path / "absent"))


def test_a_transcoder_is_no_basis(tmp_path: Path) -> None:
    gemma_3(tmp_path / "t")
    config = json.loads((tmp_path / "t" / "config.json").read_text())
    config["hf_hook_point_out"] = "model.layers.17.post_feedforward_layernorm.output"
    (tmp_path / "t" / "config.json").write_text(json.dumps(config))
    with pytest.raises(PivotalError, match="holds a transcoder"):
        read_sae(str(tmp_path / "t"))


def test_wrong_width_and_wrong_layer_get_a_sentence(tmp_path: Path) -> None:
    model, pairs = plant(hidden=24).model, PlantedAgreement().pairs()[:20]
    saelens_standard(tmp_path / "a")
    with pytest.raises(PivotalError, match=r"trained on, resid\.4, but .* was named for hidden\.0"):
        Problem(model, pairs, sites=f"hidden.0@sae:{tmp_path / 'a'}")
    saelens(tmp_path / "b")
    with pytest.raises(PivotalError, match=r"is made for 6 coordinates, and hidden\.0 has 24"):
        Problem(model, pairs, sites=f"hidden.0@sae:{tmp_path / 'b'}")
    gemma_scope(tmp_path / "layer_12" / "c")
    with pytest.raises(PivotalError, match=r"hidden\.12, but .* Search hidden\.12"):
        Problem(model, pairs, sites=f"hidden.0@sae:{tmp_path / 'layer_12' / 'c'}")
    with pytest.raises(PivotalError, match=r"names none\. Write hidden\.0@sae:PATH"):
        Problem(model, pairs, sites="hidden.0@sae")
