"""Load a Transformers folder, complete or not at all, with messages that say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.models.base import LanguageModel

NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""A repository may come with Python code of its own. If this were not set, transformers would ask on a terminal."""
_WEIGHTS = ("*.safetensors", "*.bin")
_MOST_LAYERS = 10_000
"""More layers than a model has. Each would be made before the weights show that it is not there."""


def require() -> None:
    """Raise PivotalError if transformers is not installed."""
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise PivotalError("This model needs the package transformers. Install pivotal[hf].") from None


def load(
    name: str,
    folder: Path,
    fingerprint: str,
    device: torch.device,
    dtype: torch.dtype | None,
    priming: str | None,
) -> LanguageModel:
    """The model in a folder."""
    require()
    from transformers import AutoTokenizer

    from pivotal.models.transformers.lm import TransformersLM

    number = dtype or torch.float32
    spread = _too_large(weights_of(folder), device, number)
    model = _network(name, folder, number, spread=spread)
    model = model if spread else model.to(device)
    with loading_errors(name, f"The tokenizer of {name} cannot be read from {folder}"), quietly():
        tokenizer = AutoTokenizer.from_pretrained(folder, **NO_CODE)
    with loading_errors(name, f"{name} can be loaded but not run"):
        return TransformersLM(name, model, tokenizer, priming=priming, fingerprint=fingerprint)


def weights_of(folder: Path) -> list[Path]:
    """The files of a folder's weights. Raises PivotalError if there are none."""
    for pattern in _WEIGHTS:
        if paths := sorted(folder.glob(pattern)):
            return paths
    raise PivotalError(f"A model folder holds its weights ({' or '.join(_WEIGHTS)}), but {folder} has none.")


def _too_large(weights: list[Path], device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the weights would fill the device. Such a model is spread over all devices."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return sum(path.stat().st_size for path in weights) * max(1.0, dtype.itemsize / 2) > 0.8 * free


def _network(name: str, folder: Path, dtype: torch.dtype, *, spread: bool) -> Any:
    """The Transformers model, complete or not at all. `spread` divides it between the devices."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with loading_errors(name, f"{name} cannot be loaded as a causal language model"), quietly():
        config = AutoConfig.from_pretrained(folder, **NO_CODE)
        if getattr(config, "is_encoder_decoder", False):
            raise PivotalError(
                f"{name} ({config.model_type}) is an encoder with a decoder. Use a causal language model."
            )
        if (layers := getattr(config.get_text_config(), "num_hidden_layers", 0)) > _MOST_LAYERS:
            raise PivotalError(f"{name} states {layers:,} layers. Its config.json is damaged.")
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            dtype=dtype,
            **({"device_map": "auto"} if spread else {}),
            **NO_CODE,
        )
    model, report = loaded
    # Transformers would use random numbers for missing weights.
    if lacking := sorted(report["missing_keys"]):
        raise PivotalError(
            f"{name} lacks {len(lacking)} tensors, e.g. {lacking[0]}: its files are those of another kind of model."
        )
    return model


@contextmanager
def loading_errors(name: str, failure: str) -> Iterator[None]:
    """Turn what Transformers raises within the block into a PivotalError. A damaged file can raise anything."""
    try:
        yield
    except (PivotalError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise PivotalError(
                f"{name} needs Python code that comes with the model, and pivotal never runs such code. Use a model "
                "that transformers itself supports, or load it yourself and call pivotal.find(model, tokenizer, …)."
            ) from None
        raise PivotalError(
            f"{failure} ({type(error).__name__}: {in_short(error)}). Download missing or damaged files again."
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the progress bars and messages of transformers."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
