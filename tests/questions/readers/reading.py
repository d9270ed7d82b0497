"""How the tests of readers read a file, and samples that several of them read."""

from __future__ import annotations

import json
from pathlib import Path

from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import ReadOptions


def read(tmp_path: Path, name: str, text: str | bytes, reader: str = "", **how: object) -> PairSet:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_phenomenon(f"{reader}:{path}" if reader else path, ReadOptions(**how))  # type: ignore[arg-type]


TABS = "The cat sleeps .\tThe cat sleep .\nThe cats sleep .\tThe cats sleeps .\n"

ROWS = [("The cat", "is", "are"), ("The cats", "are", "is"), ("The old cat", "was", "were")]

PROMPTS = [
    {
        "clean_prefix": "The girl",
        "patch_prefix": "The girls",
        "clean_answer": " has",
        "patch_answer": " have",
    },
    {
        "clean_prefix": "The old man",
        "patch_prefix": "The old men",
        "clean_answer": " has",
        "patch_answer": " have",
    },
]


def condition(name: str, subject: str, verb: str) -> dict[str, object]:
    texts = ("The", subject, "near the car", verb, "here")
    regions = [{"region_number": i, "content": text} for i, text in enumerate(texts, start=1)]
    return {"condition_name": name, "regions": regions}


SUITE = {
    "meta": {"name": "agreement"},
    "predictions": [
        {"type": "formula", "formula": "(4;%bad_sing%) > (4;%good_sing%) & (4;%good_plur%) < (4;%bad_plur%)"}
    ],
    "items": [
        {
            "item_number": 1,
            "conditions": [
                condition("good_sing", "cat", "sleeps"),
                condition("bad_sing", "cat", "sleep"),
                condition("good_plur", "cats", "sleep"),
                condition("bad_plur", "cats", "sleeps"),
            ],
        }
    ],
}

NATIVE = json.dumps({"prefix": "The café", "cue": 1, "words": {"a": "is", "b": "are"}}) + "\n"
