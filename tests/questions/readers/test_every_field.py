"""Every field of every format, wrong in every way: the file is read, or one sentence says what is wrong."""

import codecs
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attack.foreign import SAMPLES, written
from tests.questions.spoiling import places, spoilt

from pivotal import PivotalError, load_phenomenon
from pivotal.questions import PairSet
from pivotal.questions.readers import READERS, ReadOptions

PAIR = {
    "prefix": "The cat near", "cue": 1, "words": {"singular": "is", "plural": "are"}, "label": "singular",
    "group": "near", "lexemes": {"subject": "cat"},
    "counterfactual": {"singular": "The cat near", "plural": "The cats near"},
}  # fmt: skip
SETS = {"cue": "cats", "words": {"singular": ["is", "was"], "plural": "are"}, "label": "plural"}
FILES = SAMPLES | {
    "pairs": {"pairs.jsonl": f"{json.dumps(PAIR)}\n{json.dumps({**PAIR, 'prefix': 'The cats near', **SETS})}\n"},
    "pairs, table": {
        "pairs.csv": "prefix,cue,word.singular,word.plural,label,group,lexeme.subject,counterfactual.plural\n"
        "The cat near,cat,is,are,singular,near,cat,The cats near\n"
        "The cats near,1,is|was,are,plural,near,cat,\n"
    },
    "table, JSON": {
        "table.json": json.dumps(
            {"data": [{"prefix": "The cat", "other": "The cats", "good": "is", "bad": "are", "cue": 1, "label": "one",
                       "group": "g"},
                      {"prefix": "The cats", "good": "are", "bad": "is", "label": "many"}]}
        )
    },
    "prompts": {"past.txt": "She walked\nThey sang\n", "present.txt": "She walks\nThey sing\n"},
    "circuits, sets": {
        "prompts.json": json.dumps(
            {"prompts": [{"clean": "It is", "corrupt": "He is", "answers": [" a", " the"], "wrong_answers": [" his"]}]}
        )
    },
}  # fmt: skip
"""The files of every format, whole."""

WRONG: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**400, float("nan"), "", " ", "x", "a b", "a|b", "|", "a|", "1", "-1", "99", "9" * 30),
    *("{}", "{", "(2;%", "(9;%match%) < (9;%mismatch%)", "\t", "\n", "\u2028", "\u00e9", "e\u0301", "\x07", "\ud800"),
    *("The", "the cat is", "word " * 200, [], {}, [[]], [None], [1], ["a"], ["a", "a"], ["a", "b"], [["a"]], {"a": 1}),
    *({"a": "b"}, {"": ""}, {"singular": "is"}, {"one": "is", "two": "are", "three": "was"}),
]  # fmt: skip


def spec_of(name: str, folder: Path) -> tuple[str, list[Path]]:
    """Write the files of a format, and return how the command names them."""
    if name in SAMPLES:
        return written(name, folder)
    paths = [folder / file for file in FILES[name]]
    for path, text in zip(paths, FILES[name].values(), strict=True):
        path.write_text(text)
    reader = name.partition(",")[0]
    return (f"{reader}:" if reader in READERS else "") + ",".join(map(str, paths)), paths


def outcome(spec: str, skip_bad: bool) -> PairSet | str:
    """The pairs, or the sentence that says what is wrong. Anything else fails the test."""
    try:
        pairs = load_phenomenon(spec, ReadOptions(skip_bad=skip_bad))
    except PivotalError as error:
        said = str(error)
        assert said.strip().endswith((".", "?", ")")) and "Traceback" not in said, said
        return said
    assert len(pairs) and len(set(pairs)) == len(pairs)
    return pairs


def versions(path: Path, step: int) -> Iterator[str]:
    """The text of a file with every field wrong in every way, missing, and under another name. With a step above 1 only
    a part of the wrong values, another one in each place."""
    text = path.read_text()
    if path.suffix not in (".json", ".jsonl"):
        yield from table_versions(text, "," if path.suffix == ".csv" else "\t", step)
        return
    lines = path.suffix == ".jsonl"
    content = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)

    def dumped(new: Any) -> str:
        return "\n".join(map(json.dumps, new)) if lines else json.dumps(new)

    for i, place in enumerate(places(content)):
        yield from (dumped(spoilt(content, place, wrong)) for wrong in WRONG[i % step :: step])
        yield dumped(spoilt(content, place))
        if isinstance(place[-1], str):
            yield from (dumped(spoilt(content, place, name=name)) for name in ("x", "", place[-1].upper()))


def table_versions(text: str, delimiter: str, step: int) -> Iterator[str]:
    rows = [line.split(delimiter) for line in text.splitlines()]
    cells = [wrong for wrong in WRONG if isinstance(wrong, str)]
    cells += ['"', '"a"b', f"a{delimiter}b", '{"a": "b"}', rows[0][0]]
    for r, row in enumerate(rows):
        for c in range(len(row)):
            for wrong in cells[(r + c) % step :: step]:
                changed = [[*row[:c], wrong, *row[c + 1 :]] if i == r else one for i, one in enumerate(rows)]
                yield "\n".join(delimiter.join(one) for one in changed)
            shorter = [[*row[:c], *row[c + 1 :]] if i == r else one for i, one in enumerate(rows)]
            yield "\n".join(delimiter.join(one) for one in shorter)


def test_every_reader_has_a_whole_file():
    assert set(READERS.names()) <= set(FILES)


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_every_field_wrong_in_every_way_is_told_or_works(name, step, tmp_path):
    spec, paths = spec_of(name, tmp_path)
    assert isinstance(outcome(spec, skip_bad=False), PairSet)
    told = Counter[bool]()
    for path in paths:
        whole = path.read_bytes()
        for number, text in enumerate(versions(path, step)):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            told[isinstance(outcome(spec, skip_bad=number % 3 == 0), str)] += 1
        path.write_bytes(whole)
    refused = -1 if name == "prompts" else 3  # any line is a prompt
    assert told[True] > refused and told[False], "the test reaches both"


@pytest.mark.parametrize("name", FILES)
def test_every_format_in_every_encoding(name, tmp_path):
    spec, paths = spec_of(name, tmp_path)
    pairs = outcome(spec, skip_bad=False)
    assert isinstance(pairs, PairSet)
    for path in paths:
        text = path.read_text().rstrip("\n") + "\n"
        for data in (
            text.replace("\n", "\r\n").encode(),
            codecs.BOM_UTF8 + text.encode(),
            text.replace("\n", "\r\n").encode("utf-16"),
            codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
            gzip.compress(codecs.BOM_UTF8 + text.encode()),
        ):
            path.write_bytes(data)
            assert outcome(spec, skip_bad=False) == pairs
        path.write_text(text)
