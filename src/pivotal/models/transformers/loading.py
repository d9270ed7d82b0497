"""Load a folder of transformers, complete or not at all, with messages that say what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from pivotal.errors import PivotalError, in_short
from pivotal.models.base import LanguageModel
from pivotal.models.recurrent.folder import read_json

NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""A repository may come with Python code of its own. If this were not set, transformers would ask on a terminal."""
FATAL = (PivotalError, MemoryError, torch.OutOfMemoryError)
"""Errors that are no fault of the file."""
_WEIGHTS = ("*.safetensors", "*.bin")
_TOKENIZERS = ("tokenizer.*", "vocab*", "*.model", "*.tiktoken", "*.spm", "tekken.json")
_POINTER = b"version https://git-lfs"


def require() -> None:
    """Raise PivotalError if transformers is not installed."""
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise PivotalError(
            "This model needs the package transformers, which is not installed. Install pivotal[hf]."
        ) from None


def load(
    name: str,
    folder: Path,
    fingerprint: str,
    device: torch.device,
    dtype: torch.dtype | None,
    priming: str | None,
    tokenizer: Any = None,
) -> LanguageModel:
    """The model in a folder. `tokenizer` is that of a folder that was converted from a GGUF file."""
    require()
    from pivotal.models.transformers.lm import TransformersLM

    if not any(path for pattern in _TOKENIZERS for path in folder.glob(pattern)):
        raise PivotalError(
            f"A model's folder holds its tokenizer, but {folder} has no tokenizer.json. Put it there with "
            "tokenizer.save_pretrained."
        )
    weights, number = weights_of(folder), dtype or torch.float32
    check_whole(
        weights, "Download it again." if tokenizer is None else f"Remove {folder}: it is created again."
    )
    spread = _too_large(weights, device, number)
    model = _network(name, folder, number, spread=spread)
    tokenizer = tokenizer or _tokenizer(name, folder)
    if not spread:
        model = model.to(device)
    try:
        return TransformersLM(name, model, tokenizer, priming=priming, fingerprint=fingerprint)
    except FATAL:
        raise
    except Exception as error:
        raise PivotalError(
            f"{name} can be loaded but not run ({type(error).__name__}: {in_short(error)}). Its configuration or its "
            "tokenizer may be damaged: download it again."
        ) from error


def weights_of(folder: Path) -> list[Path]:
    """The files of a folder's weights. Raises PivotalError if there are none."""
    for pattern in _WEIGHTS:
        if paths := sorted(folder.glob(pattern)):
            return paths
    raise PivotalError(
        f"A model's folder holds its weights ({' or '.join(_WEIGHTS)}), but {folder} has none."
    )


def check_whole(weights: Iterable[Path], cure: str = "Download it again.") -> None:
    """Raise PivotalError for the first file that is a Git LFS pointer, or a safetensors file that cannot be opened."""
    for path in weights:
        with path.open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise PivotalError(
                    f"{path} must hold weights, but it is only a Git LFS pointer. Download the file with git lfs pull."
                )
        if path.suffix != ".safetensors":
            continue
        try:
            with safe_open(path, framework="pt"):
                pass
        except SafetensorError as error:
            raise PivotalError(
                f"{path} must be a whole safetensors file, but it cannot be read ({error}). {cure}"
            ) from None


def _too_large(weights: list[Path], device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the weights would fill the device. Such a model is spread over all devices."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return sum(path.stat().st_size for path in weights) * max(1.0, dtype.itemsize / 2) > 0.8 * free


def _network(name: str, folder: Path, dtype: torch.dtype, *, spread: bool) -> Any:
    """The model of transformers, complete or not at all. `spread` divides it between the devices."""
    from transformers import AutoConfig, AutoModelForCausalLM

    with _errors(name, f"{name} cannot be loaded as a causal language model"), quietly():
        config = AutoConfig.from_pretrained(folder, **NO_CODE)
        if getattr(config, "is_encoder_decoder", False):
            raise PivotalError(
                f"pivotal edits models that read from left to right and predict the next word, but {name} "
                f"({config.model_type}) is an encoder with a decoder. Use a causal language model."
            )
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            dtype=dtype,
            **({"device_map": "auto"} if spread else {}),
            **NO_CODE,
        )
    model, report = loaded
    # transformers would use random numbers for the weights below
    for weight, stored, wanted in sorted(report["mismatched_keys"]):
        sizes = [" × ".join(map(str, shape)) for shape in (wanted, stored)]
        raise PivotalError(
            f"{folder / 'config.json'} must describe the weights, but it says that {weight} is {sizes[0]}, and the "
            f"weights have {sizes[1]}. Take both from the same model."
        )
    if lacking := sorted(report["missing_keys"]):
        raise PivotalError(
            f"The weights of {name} must be complete, but {len(lacking)} tensors are missing, e.g. {lacking[0]}. "
            "They belong to another kind of model."
        )
    return model


def _tokenizer(name: str, folder: Path) -> Any:
    from transformers import AutoTokenizer

    for path in sorted(folder.glob("*token*.json")):
        read_json(path)
    with _errors(name, f"The tokenizer of {name} cannot be read from {folder}"), quietly():
        return AutoTokenizer.from_pretrained(folder, **NO_CODE)


@contextmanager
def _errors(name: str, failure: str) -> Iterator[None]:
    """What transformers raises within the block, as a PivotalError. A damaged file can raise anything."""
    try:
        yield
    except FATAL:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise PivotalError(
                f"{name} needs Python code that comes with the model, and pivotal never runs such code. Use a model "
                "that transformers itself supports, or load it yourself and wrap it with pivotal.TransformersLM."
            ) from None
        raise PivotalError(f"{failure}: {in_short(error)}.") from error


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
