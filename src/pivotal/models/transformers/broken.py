"""Checks for missing and damaged model files, with messages that say what to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from pivotal.errors import PivotalError
from pivotal.models.recurrent.folder import read_json

_TOKENIZERS = ("tokenizer.*", "vocab*", "*.model", "*.tiktoken", "*.spm", "tekken.json")
_POINTER = b"version https://git-lfs"


def check_has_tokenizer(folder: Path) -> None:
    """Raise PivotalError if a folder has no tokenizer."""
    if not any(path for pattern in _TOKENIZERS for path in folder.glob(pattern)):
        raise PivotalError(
            f"A model's folder holds its tokenizer, but {folder} has no tokenizer.json. Put it there with "
            "tokenizer.save_pretrained."
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


def check_json(files: Iterable[Path]) -> None:
    """Raise PivotalError for the first file that is not JSON."""
    for path in sorted(files):
        read_json(path)
