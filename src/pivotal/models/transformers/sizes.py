"""Checks that a configuration describes the weights beside it, before memory is taken for what it claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from pivotal.errors import PivotalError
from pivotal.models.recurrent.folder import read_json

_LAYERS = re.compile(r"(n|num|encoder|decoder)(_hidden)?_layers?")
"""The names that configurations give to the number of layers."""
_BYTES_OF_A_TENSOR = 100
"""A tensor in a pickled file takes more bytes than this, its name and shape included."""


def check_layers(config: Path, weights: Sequence[Path]) -> None:
    """Raise PivotalError if config.json claims more layers than there are tensors. Building them would take hours."""
    most = sum(_most_tensors(path) for path in weights)
    for key, value in _numbers(read_json(config)):
        if _LAYERS.fullmatch(key) and value > most:
            raise PivotalError(
                f"{config} must describe the weights, but it says {key} {value}, and the weights have room for {most} "
                "tensors. Take both from the same model."
            )


def check_shapes(folder: Path, config: Any, weights: Sequence[Path]) -> None:
    """Raise PivotalError if a tensor of the model that a configuration describes has another size than in the weights,
    or if the model has more numbers than their files can hold. It is built without memory for its weights. Sizes are
    compared and not shapes, because transformers transposes some tensors when it loads them."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if getattr(config, "quantization_config", None) is None:  # packed weights have shapes of their own
        for name, stored in _shapes(weights):
            if name in wanted and prod(wanted[name]) != prod(stored):
                raise misfit(folder, name, wanted[name], stored)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    held = 8 * sum(path.stat().st_size for path in weights)  # a weight takes at least one bit
    if numbers > held:
        raise PivotalError(
            f"{folder / 'config.json'} must describe the weights, but it describes a model of {numbers:,} weights, and "
            f"the files can hold {held:,} at most. Take both from the same model."
        )


def misfit(folder: Path, weight: str, wanted: Iterable[int], stored: Iterable[int]) -> PivotalError:
    """The error about a weight whose shape is not the one that config.json states."""
    return PivotalError(
        f"{folder / 'config.json'} must describe the weights, but it says that {weight} is {_by(wanted)}, and the "
        f"weights have {_by(stored)}. Take both from the same model."
    )


def _by(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))


def _numbers(content: Any) -> Iterator[tuple[str, int]]:
    """The whole numbers of a configuration and of the configurations inside it, with their names."""
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if isinstance(value, int):
            yield key, value
        yield from _numbers(value)


def _most_tensors(path: Path) -> int:
    """The number of tensors in a file, or the most that it has room for."""
    if path.suffix != ".safetensors":
        return path.stat().st_size // _BYTES_OF_A_TENSOR
    return sum(1 for _ in _shapes([path]))


def _shapes(weights: Iterable[Path]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors that the headers of safetensors files list. A file that cannot be opened lists none: it is refused,
    with the reason, when it is loaded."""
    for path in weights:
        if path.suffix != ".safetensors":
            continue
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - it is no dictionary
                    yield name, tuple(file.get_slice(name).get_shape())
        except (SafetensorError, OSError):
            continue
