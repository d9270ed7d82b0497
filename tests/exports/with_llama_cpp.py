"""The same logits twice: in llama.cpp, and in transformers with the control vectors added by hooks."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pivotal.exports import Portable
from pivotal.models.hooks import attach

FLOAT32 = ("--cache-type-k", "f32", "--cache-type-v", "f32", "--flash-attn", "off")
"""Arguments of llama.cpp for attention in float32. By default, its cache holds 16-bit floats."""
_TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""The Conv1D of GPT-2 stores inputs x outputs."""


def in_peer(python: str | Path, script: str, folder: Path, cases: list[dict[str, Any]]) -> list[np.ndarray]:
    """What a script of this folder computes of each case, in the environment of another library."""
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    command = [python, Path(__file__).with_name(script), folder / "cases.json", folder / "out.npz"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    arrays = np.load(folder / "out.npz")
    return [arrays[f"arr_{n}"] for n in range(len(cases))]


@contextmanager
def adding(portable: Portable, vectors: dict[int, Tensor]) -> Iterator[None]:
    """Within the block, the model of transformers has vectors added to the outputs of blocks, at every position."""
    taps = {tap.block: tap for tap in portable.model.taps if tap.side == "output"}
    with ExitStack() as stack:
        for block, vector in vectors.items():
            stack.callback(attach(taps[block], lambda h, vector=vector: h + vector).remove)
        yield


def write_gguf(network: Any, path: Path) -> Path:
    """Write a Llama or a GPT-2. The file has no tokenizer: it is for rows of token ids."""
    from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map

    config = network.config
    kind = next(arch for arch in MODEL_ARCH if MODEL_ARCH_NAMES[arch] == config.model_type)
    names = get_tensor_name_map(kind, config.num_hidden_layers)
    writer = GGUFWriter(path, config.model_type)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_context_length(config.max_position_embeddings)
    if config.model_type == "llama":
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    else:
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    for name, tensor in network.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        there = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert there is not None, name
        writer.add_tensor(there, _as_stored(name, tensor, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _as_stored(name: str, tensor: Tensor, config: Any) -> np.ndarray:
    if name.endswith(_TRANSPOSED):
        tensor = tensor.T
    for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if part in name:
            # llama.cpp rotates neighbours; transformers rotates the first half of a head with the second
            width = tensor.shape[1]
            tensor = tensor.reshape(getattr(config, heads), 2, -1, width).swapaxes(1, 2).reshape(-1, width)
    return tensor.detach().to(torch.float32).contiguous().numpy()
