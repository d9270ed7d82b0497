"""Models of the Hugging Face hub as local folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError

PREFIX = "hf:"
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
EXTRA = "Install it with: pip install 'pivotal[hf]'"


def local_folder(spec: str) -> Path | None:
    """The folder that a spec names: `hf:ORG/NAME`, downloaded once and kept by huggingface_hub, or a path."""
    if spec.startswith(PREFIX):
        return _download(spec.removeprefix(PREFIX))
    return Path(spec) if Path(spec).is_dir() else None


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says; empty if there is none, or none that can be read."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return config if isinstance(config, dict) else {}


def _download(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise PivotalError(
            f"To fetch {repository} from the hub, huggingface_hub is needed, but it is not installed. {EXTRA}, "
            "or give the path of a folder that holds the model."
        ) from None
    try:
        folder = Path(snapshot_download(repository, allow_patterns=list(_FILES)))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(repository, allow_patterns=[*_FILES, "*.bin"]))
    except Exception as error:  # no network, no such repository, no permission, and many more
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise PivotalError(
            f"{PREFIX}ORG/NAME names a repository of the Hugging Face hub, but {repository!r} cannot be reached "
            f"({reason}). Check the name and the network, or give the path of a folder that holds the model."
        ) from None
    return folder
