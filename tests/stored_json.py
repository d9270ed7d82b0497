"""JSON files of a folder: changes that another version or a stranger would make, and content without times."""

import json
from pathlib import Path
from typing import Any

TIMES = ("seconds", "started", "versions", "machine", "command", "folder")
"""How the keys end whose values may differ between two runs of the same job."""


def changed(path: Path, **content: Any) -> Path:
    """Give a file other contents under these keys. None takes a key away."""
    old = json.loads(path.read_text(encoding="utf-8"))
    new = {key: value for key, value in {**old, **content}.items() if value is not None}
    path.write_text(json.dumps(new), encoding="utf-8")
    return path


def with_settings(run: Path, **settings: Any) -> Path:
    """Give the folder of a run other settings."""
    there = json.loads((run / "run.json").read_text(encoding="utf-8"))["settings"]
    changed(run / "run.json", settings={**there, **settings})
    return run


def timeless(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if not key.endswith(TIMES)}
    return [timeless(value) for value in content] if isinstance(content, list) else content
