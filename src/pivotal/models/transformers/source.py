"""Causal language models of Hugging Face transformers: from the hub, from a folder, or from a GGUF file.

The package `transformers` is an extra (`pip install 'pivotal[hf]'`) and is imported when a model is opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.files import library_errors, models_home
from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.hub import fetch_all
from pivotal.models.recurrent.folder import is_of_transformers, local_folder
from pivotal.models.transformers.broken import check_has_tokenizer, check_json, check_whole
from pivotal.models.transformers.files import (
    ELSEWHERE,
    PACKAGED,
    converted,
    digest,
    joined,
    local_files,
    packaged,
    remembered,
)
from pivotal.models.transformers.gguf_header import read_header, wants_bos
from pivotal.models.transformers.sizes import check_layers, check_shapes, misfit
from pivotal.models.transformers.tokens import digest_of_words, share_of_whole_words

_WEIGHTS = ("*.safetensors", "*.bin")
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
_NOT_A_FAULT_OF_THE_FILE = (PivotalError, MemoryError, torch.OutOfMemoryError)
_NO_CODE: dict[str, Any] = {"trust_remote_code": False}
"""A repository may come with Python code of its own. If this were not set, transformers would ask on a terminal."""


class TransformersSource(ModelSource):
    """Opens `hf:ORG/NAME`, a folder that `save_pretrained` wrote, a `.gguf` file, or a model from a package."""

    name: ClassVar[str] = "transformers"
    summary: ClassVar[str] = (
        "causal language models of Hugging Face transformers: hf:ORG/NAME, a folder, a .gguf file"
    )

    def listed(self) -> list[tuple[str, str]]:
        installed = [(name, about) for name, (about, _) in PACKAGED.items() if packaged(name) is not None]
        return installed + [(name, f"a GGUF file, {path}") for name, path in local_files().items()]

    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        if spec in PACKAGED and not Path(spec).exists():
            parts = packaged(spec)
            if parts is None:
                raise PivotalError(f"{spec} is not installed: {PACKAGED[spec][0]}.")
            return _load_gguf(spec, joined(spec, parts), device, dtype, priming)
        if spec.endswith(".gguf"):
            if not Path(spec).is_file():
                raise PivotalError(f"A .gguf file holds a model, but there is no file {spec}.")
            return _load_gguf(Path(spec).stem, Path(spec), device, dtype, priming)
        folder, name = local_folder(spec)
        if folder is None and (file := local_files().get(spec)) is not None:
            return _load_gguf(spec, file, device, dtype, priming)
        if folder is None and spec in ELSEWHERE:
            raise PivotalError(
                f"{spec} is not on this machine. {ELSEWHERE[spec]}, as {models_home() / spec}.gguf."
            )
        if folder is None:
            folder, name = fetch_all(spec, _FILES), spec.removeprefix("hf:")
        if folder is None or not is_of_transformers(folder):
            return None
        if not any(folder.glob("*.safetensors")):
            folder = fetch_all(spec, [*_FILES, "*.bin"]) or folder
        files = "".join(digest(path) for path in _weights(folder))
        return _load(name, folder, hashlib.sha256(files.encode()).hexdigest(), device, dtype, priming)


def _require() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise PivotalError(
            "This model needs the package transformers, which is not installed. Install pivotal[hf]."
        ) from None


def _weights(folder: Path) -> list[Path]:
    for pattern in _WEIGHTS:
        if found := sorted(folder.glob(pattern)):
            return found
    raise PivotalError(
        f"A model's folder holds its weights ({' or '.join(_WEIGHTS)}), but {folder} has none."
    )


def _load_gguf(
    name: str, gguf: Path, device: torch.device, dtype: torch.dtype | None, priming: str | None
) -> LanguageModel:
    _require()
    return _load(name, converted(gguf, _convert), digest(gguf), device, dtype, priming, ours=True)


def _load(
    name: str,
    folder: Path,
    fingerprint: str,
    device: torch.device,
    dtype: torch.dtype | None,
    priming: str | None,
    *,
    ours: bool = False,
) -> LanguageModel:
    """Load a folder. `ours` marks a folder that `_convert` wrote."""
    _require()
    from pivotal.models.transformers.lm import TransformersLM

    check_has_tokenizer(folder)
    if not ours:
        check_whole(_weights(folder))
        check_layers(folder / "config.json", _weights(folder))
    number = dtype or torch.float32
    spread = _too_large(_weights(folder), device, number)
    model = _network(name, folder, number, spread=spread, ours=ours)
    tokenizer = _tokenizer(name, folder, ours=ours)
    if not spread:
        model = model.to(device)
    words = None
    if ours:
        words = remembered(folder / "tokenizer.json", "words", lambda: digest_of_words(tokenizer))
    try:
        return TransformersLM(name, model, tokenizer, priming=priming, fingerprint=fingerprint, words=words)
    except _NOT_A_FAULT_OF_THE_FILE:
        raise
    except Exception as error:
        raise PivotalError(
            f"{name} can be loaded but not run ({type(error).__name__}: {in_short(error)}). Its configuration or its "
            "tokenizer may be damaged: download it again."
        ) from error


def _network(name: str, folder: Path, dtype: torch.dtype, *, spread: bool, ours: bool) -> Any:
    """The model of transformers, complete or not at all. `spread` divides it between the devices."""
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        with _quietly():
            config = AutoConfig.from_pretrained(folder, **_NO_CODE)
            _check_kind(name, config)
            if not ours:
                check_shapes(folder, config, _weights(folder))
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                dtype=dtype,
                **({"device_map": "auto"} if spread else {}),
                **_NO_CODE,
            )
    except _NOT_A_FAULT_OF_THE_FILE:
        raise
    except Exception as error:  # a damaged configuration can raise anything
        _check_no_code(name, error)
        check_whole(
            _weights(folder), f"Remove {folder}: it is created again." if ours else "Download it again."
        )
        raise PivotalError(
            f"{name} cannot be loaded as a causal language model: {in_short(error)}."
        ) from error
    model, loading = loaded
    if others := sorted(loading["mismatched_keys"]):
        weight, stored, wanted = others[0]
        raise misfit(folder, weight, wanted, stored)
    if lacking := sorted(loading["missing_keys"]):
        # transformers would use random numbers instead
        raise PivotalError(
            f"The weights of {name} must be complete, but {len(lacking)} tensors are missing, e.g. {lacking[0]}. "
            "They belong to another kind of model."
        )
    return model


def _check_no_code(name: str, error: Exception) -> None:
    """Raise PivotalError if transformers refused a model because it needs code from its repository."""
    if "trust_remote_code" in str(error):
        raise PivotalError(
            f"{name} needs Python code that comes with the model, and pivotal never runs such code. Use a model that "
            "transformers itself supports, or load it yourself and wrap it with pivotal.TransformersLM."
        ) from None


def _tokenizer(name: str, folder: Path, *, ours: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        with _quietly():
            return _converted_tokenizer(folder) if ours else AutoTokenizer.from_pretrained(folder, **_NO_CODE)
    except Exception as error:  # tokenizers raises nothing narrower
        _check_no_code(name, error)
        check_json(folder.glob("*token*.json"))
        raise PivotalError(
            f"The tokenizer of {name} cannot be read from {folder}: {in_short(error)}. Save it there again."
        ) from error


def _converted_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder that `_convert` wrote. AutoTokenizer builds the same tokenizer, but reads the file
    several times, which takes seconds for a vocabulary of a quarter of a million."""
    from transformers import PreTrainedTokenizerFast

    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    special = {
        name: token["content"] if isinstance(token, dict) else token
        for name, token in settings.items()
        if name.endswith("_token") and not isinstance(token, bool)
    }
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)


def _check_kind(name: str, config: Any) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise PivotalError(
            f"pivotal edits models that read from left to right and predict the next word, but {name} "
            f"({config.model_type}) is an encoder with a decoder. Use a causal language model."
        )


def _too_large(weights: list[Path], device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the weights would fill the device. Such a model is spread over all devices."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return sum(path.stat().st_size for path in weights) * max(1.0, dtype.itemsize / 2) > 0.8 * free


def _convert(gguf: Path, folder: Path) -> None:
    """Convert a GGUF file to a folder in float32, which loads much faster."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    try:
        header = read_header(gguf)
        with _quietly():
            tokenizer: Any = AutoTokenizer.from_pretrained(**where, **_NO_CODE)
            model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, **_NO_CODE)
    except _NOT_A_FAULT_OF_THE_FILE:
        raise
    except Exception as error:
        check_whole([gguf])
        raise PivotalError(f"{gguf} cannot be read as a causal language model: {in_short(error)}.") from error
    tokenizer.add_bos_token = wants_bos(header, bool(tokenizer.add_bos_token))
    tokenizer.save_pretrained(folder)
    _check_tokenizer(gguf, _converted_tokenizer(folder))
    with library_errors(folder / "model.safetensors"):
        save_file(untied(model.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config
    config.architectures = [type(model).__name__]
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(folder)


def untied(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each weight under its first name, as transformers saves them. If a shared embedding were saved under the name of
    the head, every load would first fill the embedding with random numbers."""
    first: dict[tuple[int, torch.Size], tuple[str, torch.Tensor]] = {}
    for name, weight in state.items():
        first.setdefault((weight.data_ptr(), weight.shape), (name, weight.contiguous()))
    return dict(first.values())


def _check_tokenizer(gguf: Path, tokenizer: Any) -> None:
    """Check the converted tokenizer, because some releases of transformers lose its merges."""
    from transformers import __version__

    if (whole := share_of_whole_words(tokenizer)) < 0.5:
        raise PivotalError(
            f"A word with a token of its own must be encoded as that token, but the tokenizer that transformers "
            f"{__version__} makes from {gguf} does so for only {whole:.0%} of them. Use another release; 5.22 works."
        )


@contextmanager
def _quietly() -> Iterator[None]:
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
