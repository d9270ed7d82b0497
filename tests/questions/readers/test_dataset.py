"""Folders of datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.questions.readers.reading import NUMBER, ROWS

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon


def test_parquet_and_datasets(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(("prefix", "good", "bad"), map(list, zip(*ROWS, strict=True)), strict=True))
    table = arrow.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet")
    pairs = load_phenomenon(f"table:{tmp_path / 'a.parquet'}")
    assert pairs.labels == NUMBER and len(pairs) == 3
    with pytest.raises(PivotalError, match=r"looks like the format of 'table': use table:.*a\.parquet"):
        load_phenomenon(tmp_path / "a.parquet")
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    with (
        arrow.OSFile(str(folder / "data-00000.arrow"), "wb") as sink,
        arrow.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")
    assert load_phenomenon(f"dataset:{tmp_path / 'set'}").pairs == pairs.pairs
    with pytest.raises(PivotalError, match="looks like the format of 'dataset': use dataset:"):
        load_phenomenon(tmp_path / "set")
    (folder / "data-00000.arrow").write_bytes(b"junk")
    with pytest.raises(PivotalError, match=r"not a readable .arrow file"):
        load_phenomenon(f"dataset:{tmp_path / 'set'}")


def test_a_dataset_of_plain_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for part, rows in (("a", ROWS[:2]), ("b", ROWS[2:])):
        text = "\n".join(",".join(row) for row in [("prefix", "good", "bad"), *rows])
        (tmp_path / "data" / f"{part}.csv").write_text(text)
    assert len(load_phenomenon(f"dataset:{tmp_path}")) == 3
    for wrong in (tmp_path / "none", tmp_path / "data" / "a.csv"):
        with pytest.raises(PivotalError, match="no such folder"):
            load_phenomenon(f"dataset:{wrong}")
