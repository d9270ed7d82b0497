"""Recurrent models in a Hugging Face repository: `hf:ORG/NAME`, or `ORG/NAME` if there is no such folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.recurrent.folder import FILES, FORMAT, load_folder

_REPOSITORY = re.compile(r"(?:hf:)?(\w[\w.-]*/\w[\w.-]*)")
_DOWNLOADS: ContextVar[bool] = ContextVar("downloads", default=True)


@contextmanager
def downloads(allowed: bool) -> Iterator[None]:
    """Whether models may be downloaded within the block. If not, a model must be in the cache already."""
    before = _DOWNLOADS.set(allowed)
    try:
        yield
    finally:
        _DOWNLOADS.reset(before)


class HubSource(ModelSource):
    """Downloads config.json first. If its format is different, another source may know the model."""

    name: ClassVar[str] = "hub"
    summary: ClassVar[str] = "recurrent models in a Hugging Face repository: hf:ORG/NAME"

    def listed(self) -> list[tuple[str, str]]:
        return []

    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        named = _repository(spec)
        if named is None or Path(spec).exists() or spec.endswith(".gguf"):
            return None
        hub = _hub()
        if hub is None:
            if spec.startswith("hf:"):
                raise PivotalError(
                    f"Downloading {spec} needs the package huggingface_hub. Install pivotal[hf], or give the path of "
                    "a local folder."
                )
            return None
        config = _fetch(hub, spec, named[1], "config.json")
        if not _is_ours(config):
            return None
        for name in FILES:
            _fetch(hub, spec, named[1], name)
        return load_folder(config.parent, device=device, dtype=dtype, priming=priming, name=named[1])


def _repository(spec: str) -> re.Match[str] | None:
    """The repository that a spec names. Without `hf:`, a spec that starts with an existing folder is a path: a typing
    error in a path must not cause a download."""
    if not spec.startswith("hf:") and Path(spec).parent.is_dir():
        return None
    return _REPOSITORY.fullmatch(spec)


def fetch_all(spec: str, patterns: Sequence[str]) -> Path | None:
    """Download the files of a repository that match, and return their folder; None if the spec names no repository."""
    named = _repository(spec)
    if named is None or Path(spec).exists() or (hub := _hub()) is None:
        return None
    try:
        return Path(
            hub.snapshot_download(
                named[1], allow_patterns=list(patterns), local_files_only=not _DOWNLOADS.get()
            )
        )
    except Exception as error:
        raise _unreachable(error, spec, "all", named[1]) from None


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        return None
    return huggingface_hub


def _fetch(hub: Any, spec: str, repository: str, name: str) -> Path:
    """The path of a file in the cache of huggingface_hub, downloaded if necessary."""
    try:
        return Path(hub.hf_hub_download(repository, name, local_files_only=not _DOWNLOADS.get()))
    except Exception as error:  # the network, the file system, the name of the repository
        raise _unreachable(error, spec, name, repository) from None


def _unreachable(error: Exception, spec: str, what: str, repository: str) -> PivotalError:
    if not _DOWNLOADS.get():
        return PivotalError(
            f"A folder may name any model, so nothing is downloaded because of it: this one names the Hugging Face "
            f"repository {repository}, and {what} of it is not on this machine. If you trust it, name it yourself: "
            f"--model hf:{repository}."
        )
    here = "" if spec.startswith("hf:") else f"There is no folder {spec}. "
    return PivotalError(
        f"{here}Cannot download {what} of the Hugging Face repository {repository} ({in_short(error)}). "
        "Without a network, give the path of a local folder."
    )


def _is_ours(config: Path) -> bool:
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT
