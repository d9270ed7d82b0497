"""Download a Hugging Face repository: `hf:ORG/NAME`, or `ORG/NAME` if there is no such folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from pivotal.errors import PivotalError, in_short

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


def fetch(spec: str, patterns: Sequence[str]) -> Path | None:
    """Download the files of a repository that match, and return their folder; None if the spec names no repository.

    Without `hf:`, a spec that starts with an existing folder is a path: a typing error in a path must not cause a
    download.
    """
    named = _REPOSITORY.fullmatch(spec)
    if named is None or Path(spec).exists() or (spec[:3] != "hf:" and Path(spec).parent.is_dir()):
        return None
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        if spec.startswith("hf:"):
            raise PivotalError(
                f"Downloading {spec} needs huggingface_hub. Install pivotal[hf], or give a local folder."
            ) from None
        return None
    allowed = _DOWNLOADS.get()
    try:
        folder = Path(
            snapshot_download(named[1], allow_patterns=list(patterns), local_files_only=not allowed)
        )
        if not (folder / "config.json").is_file():
            raise FileNotFoundError("it has no config.json")
        return folder
    except Exception as error:  # the network, the file system, the name of the repository
        if not allowed:
            raise PivotalError(
                f"The folder names the Hugging Face repository {named[1]}, which is not on this machine. A folder "
                f"cannot start a download. If you trust the repository, name it yourself: --model hf:{named[1]}."
            ) from None
        here = "" if spec.startswith("hf:") else f"There is no folder {spec}. "
        raise PivotalError(
            f"{here}Cannot download {named[1]} from the Hugging Face hub ({in_short(error)}). Give a local folder."
        ) from None
