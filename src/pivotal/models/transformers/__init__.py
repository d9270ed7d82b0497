"""Models on the Hugging Face hub, and causal language models of Transformers in a folder or a GGUF file.

The package `transformers` is an extra (`pip install 'pivotal[hf]'`) and is imported when a model is opened.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar

import torch

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.hub import fetch
from pivotal.models.recurrent.folder import holds_a_model, is_of_transformers, load_folder, local_folder
from pivotal.models.transformers.gguf import PACKAGED, converted, digest, joined, local_files, packaged
from pivotal.models.transformers.loading import load, require, weights_of

_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


class TransformersSource(ModelSource):
    """Opens `hf:ORG/NAME`, a folder that `save_pretrained` wrote, a `.gguf` file, or a model from a package. A
    repository may also hold a recurrent model in our own format."""

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
        name, gguf = _gguf_file(spec)
        if gguf is not None:
            require()
            return load(name, converted(gguf), digest(gguf), device, dtype, priming)
        folder, name = local_folder(spec)
        if folder is None:
            folder, name = fetch(spec, _FILES), spec.removeprefix("hf:")
            if folder is not None and holds_a_model(folder):
                return load_folder(folder, device=device, dtype=dtype, priming=priming, name=name)
        if folder is None or not is_of_transformers(folder):
            return None
        if not any(folder.glob("*.safetensors")):
            folder = fetch(spec, [*_FILES, "*.bin"]) or folder
        files = "".join(digest(path) for path in weights_of(folder))
        return load(name, folder, hashlib.sha256(files.encode()).hexdigest(), device, dtype, priming)


def _gguf_file(spec: str) -> tuple[str, Path | None]:
    """The name of a model and its GGUF file; None if the spec names no such file."""
    if spec in PACKAGED and not Path(spec).exists():
        parts = packaged(spec)
        if parts is None:
            raise PivotalError(f"{spec} is not installed: {PACKAGED[spec][0]}.")
        return spec, joined(spec, parts)
    if spec.endswith(".gguf"):
        if not Path(spec).is_file():
            raise PivotalError(f"A .gguf file holds a model, but there is no file {spec}.")
        return Path(spec).stem, Path(spec)
    return spec, local_files().get(spec) if local_folder(spec)[0] is None else None
