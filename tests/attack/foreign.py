"""Small sound files in the formats of others, one for each reader of `pivotal.questions.readers`."""

import json
from pathlib import Path

NOUNS = (("cat", "is", "are"), ("cats", "are", "is"), ("dog", "is", "are"))

BLIMP = [
    {"sentence_good": f"The {noun} {good} .", "sentence_bad": f"The {noun} {bad} .", "UID": "agreement"}
    | {"one_prefix_prefix": f"The {noun}", "one_prefix_word_good": good, "one_prefix_word_bad": bad}
    for noun, good, bad in NOUNS
]


def _regions(name: str, *contents: str) -> dict[str, object]:
    regions = [{"region_number": i, "content": text} for i, text in enumerate(contents, start=1)]
    return {"condition_name": name, "regions": regions}


SUITE = {
    "meta": {"name": "number", "metric": "sum"},
    "region_meta": {"1": "subject", "2": "verb"},
    "predictions": [{"type": "formula", "formula": "(2;%match%) < (2;%mismatch%)"}],
    "items": [
        {
            "item_number": i,
            "conditions": [_regions("match", f"The {noun}", good), _regions("mismatch", f"The {noun}", bad)],
        }
        for i, (noun, good, bad) in enumerate(NOUNS, start=1)
    ],
}
CIRCUIT = [
    {"clean_prefix": "The cat", "patch_prefix": "The cats", "clean_answer": "is", "patch_answer": "are"},
    {"clean_prefix": "The dogs", "patch_prefix": "The dog", "clean_answer": "are", "patch_answer": "is"},
]
TABLE = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\nThe old cat,was,were\n"
SAMPLES: dict[str, dict[str, str]] = {
    "blimp": {"blimp.jsonl": "".join(json.dumps(row) + "\n" for row in BLIMP)},
    "syntaxgym": {"suite.json": json.dumps(SUITE)},
    "circuits": {"prompts.json": json.dumps(CIRCUIT)},
    "table": {"table.csv": TABLE},
    "prompts": {"past.txt": "The cat was\nThe dog was\n", "present.txt": "The cat is\nThe dog is\n"},
    "sentences": {"sentences.tsv": "The cat is\tThe cat are\nThe cats are\tThe cats is\n"},
}
"""The files of each reader."""


def parquet(path: Path) -> Path:
    """A small sound table; only its first bytes if pyarrow is not installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        path.write_bytes(b"PAR1" + bytes(40))
        return path
    nouns, verbs = ["The noun0a", "The noun0as"] * 8, [["verb0as", "verb0a"], ["verb0a", "verb0as"]] * 8
    prefixes = [f"{noun} {'near ' * (i // 2)}".strip() for i, noun in enumerate(nouns)]
    columns = {"prefix": prefixes, "good": [good for good, _ in verbs], "bad": [bad for _, bad in verbs]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def written(reader: str, folder: Path) -> tuple[str, list[Path]]:
    """Write the files of a reader, and return how the command names them."""
    paths = []
    for name, text in SAMPLES[reader].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        paths.append(folder / name)
    given = paths[0].parent if "/" in next(iter(SAMPLES[reader])) else ",".join(map(str, paths))
    return f"{reader}:{given}", paths
