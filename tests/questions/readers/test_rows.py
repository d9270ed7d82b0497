"""The rows of a file, whatever its delimiter, encoding or compression; Parquet and Arrow."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest
from tests.questions.readers.reading import NATIVE, read

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon


def test_the_first_line_tells_the_delimiter(tmp_path: Path) -> None:
    text = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\n"
    commas = read(tmp_path, "a.csv", text, "table")
    assert read(tmp_path, "a.csv", text.replace(",", ";"), "table").pairs == commas.pairs
    assert read(tmp_path, "tabs.csv", text.replace(",", "\t"), "table").pairs == commas.pairs
    assert read(tmp_path, "commas.tsv", text, "table").pairs == commas.pairs
    native = "prefix;cue;word.a;word.b\nThe cat , you see;1;is;are\n"
    assert read(tmp_path, "b.csv", native).pairs == (MinimalPair("The cat , you see", 1, ("is", "are")),)


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        (b"The girl", b"The \xff\xfe\xfd\xfc"),
        ((8).to_bytes(4, "little"), (2**30).to_bytes(4, "little")),
    ],
    ids=["text that is not UTF-8", "lengths that lead outside"],
)
def test_damaged_arrow_tables(tmp_path: Path, sound: bytes, damaged: bytes) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.arrow"
    table = arrow.table({"prefix": ["The girl"], "good": ["has"], "bad": ["have"]})
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    data = path.read_bytes()
    body = data.rindex(b"The girl") - 64  # the offsets of the text come before the text
    path.write_bytes(data[:body] + data[body:].replace(sound, damaged))
    with pytest.raises(PivotalError, match=r"a\.arrow: not a readable \.arrow file"):
        load_phenomenon(f"table:{path}")


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        PivotalError, match=r"needs the library pyarrow.*pivotal\[parquet\], or save .* as \.csv"
    ):
        read(tmp_path, "a.parquet", b"PAR1", "table")


def test_compressed_files(tmp_path: Path) -> None:
    pairs = PairSet("mine", ("a", "b"), (MinimalPair("The café", None, ("is", "are")),))
    for suffix in (".jsonl.gz", ".csv.gz"):
        pairs.save(tmp_path / f"mine{suffix}")
        assert (tmp_path / f"mine{suffix}").read_bytes()[:2] == b"\x1f\x8b"
        assert load_phenomenon(tmp_path / f"mine{suffix}") == pairs
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(NATIVE.encode())[:20])
    with pytest.raises(PivotalError, match="not a readable gzip file"):
        load_phenomenon(tmp_path / "bad.jsonl.gz")
    (tmp_path / "odd.jsonl").write_bytes(codecs.BOM_UTF16_LE + b"abc")
    with pytest.raises(PivotalError, match="begins as UTF-16"):
        load_phenomenon(tmp_path / "odd.jsonl")
