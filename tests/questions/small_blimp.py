"""Small files of BLiMP as Hugging Face has them, without the fields of the one-prefix method."""

import json
from pathlib import Path

ROWS = [
    {"sentence_good": "The Cats sleep.", "sentence_bad": "The Cats sleeps."},
    {"sentence_good": "The Cat sleeps.", "sentence_bad": "The Cat sleep."},
]


def written(folder: Path, *names: str) -> Path:
    """A folder with a paradigm of each name. One named `whole` can only be asked by whole sentences."""
    folder.mkdir(exist_ok=True)
    for name in names:
        more = {"UID": name} | ({"one_prefix_method": False} if name == "whole" else {})
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps({**row, **more}) for row in ROWS))
    return folder
