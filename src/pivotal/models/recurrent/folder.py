"""Recurrent models in folders of config.json, model.safetensors and vocab.txt. The bundled models are such folders."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import asset, check_plain, disk, models_home, replaced, write_atomically
from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.recurrent.weights import quantised, stored
from pivotal.questions.words import EOS, UNK, read_words
from pivotal.records import serial

FILES = ("config.json", "model.safetensors", "vocab.txt")
WRITTEN = (*FILES, "card.json")


class FolderConfig(
    serial.Record,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=False,
    tag_field="format",
    tag="pivotal-recurrent-1",
):
    """config.json: the cell, and how the model reads words. Further keys, such as sizes, are for people."""

    cell: str
    unk: str
    priming: str


class FolderSource(ModelSource):
    """Opens bundled and local models by name, and any folder in this format by its path."""

    name = "folder"
    summary = (
        "bundled and local recurrent models, or a folder with config.json, model.safetensors and vocab.txt"
    )

    def listed(self) -> list[tuple[str, str]]:
        """The bundled models, then those in `models_home`, where several seeds of one model may share a folder."""
        home = models_home()
        local = [path for depth in ("*", "*/*") for path in home.glob(f"{depth}/config.json")]
        bundled = sorted(asset("models").glob("*/config.json"))
        return [(path.parent.name, _summary(path.parent)) for path in bundled] + [
            (name, _summary(path.parent))
            for path in sorted(local)
            # A folder that begins with a dot is still being written.
            if "/." not in f"/{(name := path.parent.relative_to(home).as_posix())}"
        ]

    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        bundled = asset("models") / spec
        if "/" not in spec and (bundled / "config.json").is_file():
            return load_folder(bundled, device=device, dtype=dtype, priming=priming)
        folder, name = local_folder(spec)
        if folder is None or is_of_transformers(folder):
            return None
        return load_folder(folder, device=device, dtype=dtype, priming=priming, name=name)


def local_folder(spec: str) -> tuple[Path | None, str]:
    """The folder with that path, or of the local model with that name, and the model's name; None if there is none."""
    if Path(spec).is_dir():
        return Path(spec), Path(spec).resolve().name
    at_home = models_home() / spec
    return (at_home if (at_home / "config.json").is_file() else None), spec


def is_of_transformers(folder: Path) -> bool:
    """Whether a folder's config.json belongs to Hugging Face transformers, which names the type of model."""
    try:
        config = read_json(folder / "config.json")
    except OSError:
        return False
    return isinstance(config, dict) and "format" not in config and "model_type" in config


def _summary(folder: Path) -> str:
    """The summary on a model's card. A bad card must not hide the other models."""
    try:
        return str(json.loads((folder / "card.json").read_text(encoding="utf-8"))["summary"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "has no card"


def load_folder(
    folder: Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    priming: str | None = None,
    name: str | None = None,
) -> RecurrentLM:
    """Load the model of a folder. Its name is `name`, or that of the folder."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise PivotalError(f"A model folder holds {', '.join(FILES)}; {folder} lacks {', '.join(missing)}.")
    config = serial.read(folder / "config.json", FolderConfig)
    words = read_words(folder / "vocab.txt")
    path = folder / "model.safetensors"
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise PivotalError(f"{path} must be a whole safetensors file, but cannot be read: {error}.") from None
    digest = hashlib.sha256()
    for file in ("vocab.txt", "model.safetensors"):
        digest.update((folder / file).read_bytes())
    return RecurrentLM(
        name or folder.resolve().name,
        cell=config.cell,
        words=words,
        weights=weights,
        priming=config.priming if priming is None else priming,
        unk=config.unk,
        device=device,
        dtype=dtype or torch.float32,
        fingerprint=digest.hexdigest()[:16],
    )


def save_folder(
    folder: Path,
    *,
    cell: str,
    words: Sequence[str],
    weights: Mapping[str, Tensor],
    card: Mapping[str, Any],
    priming: str = EOS,
    unk: str = UNK,
    replace: bool = False,
    int8: bool = False,
) -> Path:
    """Write a model folder that `load_folder` reads. It is written beside its place and then renamed, so that it is
    complete or absent.

    `weights` have the names that `RecurrentLM` takes, and `card` needs a `summary`. A tied decoder is omitted. `int8`
    stores the matrices in a quarter of the space. `replace` is as in `check_free`.
    """
    check_free(folder, replace)
    tensors = quantised(stored(weights)) if int8 else stored(weights)
    with disk(folder), replaced(folder) as partial:
        write_atomically(partial / "model.safetensors", lambda path: save_file(tensors, path))
        (partial / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        serial.write(partial / "config.json", FolderConfig(cell=cell, unk=unk, priming=priming))
        serial.write(partial / "card.json", dict(card))
        for file in partial.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
    return folder


def check_free(folder: Path, replace: bool) -> None:
    """Raise PivotalError if a folder is not empty. With `replace`, it may hold another model, and nothing else."""
    check_name(folder)
    if is_empty(folder):
        return
    if not replace:
        raise PivotalError(f"{folder} exists already. Give another --out, or --overwrite.")
    if not is_only_a_model(folder):
        raise PivotalError(f"{folder} holds other files than a model. Give another --out.")


def check_name(folder: Path) -> None:
    """Refuse a folder without a name, which has no place beside it to write to first."""
    if folder.name in ("", ".."):
        raise PivotalError(f"{folder} has no name of its own. Name another folder with --out.")


def is_empty(folder: Path) -> bool:
    """Whether the path does not exist, or is an empty folder."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def is_only_a_model(folder: Path) -> bool:
    """Whether a folder holds a model in our format and no other file. Only such a folder may be replaced or removed."""
    if not holds_a_model(folder):
        return False
    return all(path.name in WRITTEN and not path.is_dir() for path in folder.iterdir())


def holds_a_model(folder: Path) -> bool:
    """Whether a folder's config.json is that of a model in our format."""
    try:
        serial.read(folder / "config.json", FolderConfig)
    except PivotalError:
        return False
    return True


def read_json(path: Path) -> Any:
    check_plain(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise PivotalError(
            f"{path} must be JSON, but it cannot be read: {error}. Restore the original file."
        ) from None
