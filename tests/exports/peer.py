"""Computes logits with an exported intervention in its own library.

    PYTHON peer.py CASES.json OUT.npz

It imports nothing of pivotal: the interpreter belongs to an environment with that library. A case names the target, the
exported folder, the model's folder, the direction, the positions (one per row, or null) and rows of token ids. The
logits after each row are an array per case, arr_0, arr_1 …
"""

import importlib
import json
import sys
from collections.abc import Callable

import numpy as np
import torch


def pyvene(folder: str, model: str) -> Callable[..., torch.Tensor]:
    from transformers import AutoModelForCausalLM

    code = importlib.import_module("pyvene_intervention")
    network = AutoModelForCausalLM.from_pretrained(model, dtype="float32").eval()

    def run(direction: str, position: int | None, ids: torch.Tensor) -> torch.Tensor:
        edited = code.intervenable(network, direction)
        where = code.locations(direction, ids, position)
        before, after = edited({"input_ids": ids}, unit_locations=where, output_original_output=True)
        assert not torch.equal(before.logits, after.logits)
        return after.logits

    return run


def nnsight(folder: str, model: str) -> Callable[..., torch.Tensor]:
    from nnsight import TransformersModel

    code = importlib.import_module("nnsight_intervention")
    network = TransformersModel(model, task="text-generation", dtype="float32")

    def run(direction: str, position: int | None, ids: torch.Tensor) -> torch.Tensor:
        with network.trace(ids):
            code.edit(network, direction, position)
            logits = network.output.logits.save()
        return logits

    return run


def transformer_lens(folder: str, model: str) -> Callable[..., torch.Tensor]:
    from transformer_lens.model_bridge import TransformerBridge

    code = importlib.import_module("transformer_lens_intervention")
    network = TransformerBridge.boot_transformers(model, device="cpu")

    def run(direction: str, position: int | None, ids: torch.Tensor) -> torch.Tensor:
        return network.run_with_hooks(ids, fwd_hooks=code.hooks(direction, position))

    return run


def in_batches(
    run: Callable[..., torch.Tensor], direction: str, rows: list[list[int]], positions: list[int] | None
) -> np.ndarray:
    """The logits after each row. Rows of one length and position are run together."""
    alike: dict[tuple[int, int | None], list[int]] = {}
    for n, row in enumerate(rows):
        alike.setdefault((len(row), None if positions is None else positions[n]), []).append(n)
    found: dict[int, np.ndarray] = {}
    for (_, position), chosen in alike.items():
        for start in range(0, len(chosen), 25):
            some = chosen[start : start + 25]
            logits = run(direction, position, torch.tensor([rows[n] for n in some]))[:, -1]
            found.update(zip(some, logits.float().numpy(), strict=True))
    return np.stack([found[n] for n in range(len(rows))])


def main() -> None:
    libraries = {"pyvene": pyvene, "nnsight": nnsight, "transformer-lens": transformer_lens}
    found = []
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases:
        sys.path.insert(0, case["folder"])
        for name in [name for name in sys.modules if name.endswith("_intervention")]:
            del sys.modules[name]
        with torch.no_grad():
            run = libraries[case["target"]](case["folder"], case["model"])
            found.append(in_batches(run, case["direction"], case["rows"], case["positions"]))
        sys.path.pop(0)
    np.savez(sys.argv[2], *found)


if __name__ == "__main__":
    main()
