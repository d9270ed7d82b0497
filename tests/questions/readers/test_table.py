"""Tables: which column holds what, what cells must hold, stated labels, and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import ROWS, read

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon

CSV = "id,right sentence,wrong sentence,kind\n1,The cat sleeps.,The cat sleep.,x\n"
CSV += "2,The cats sleep.,The cats sleeps.,y\n"
KEYED = [dict(zip(("prefix", "good", "bad"), row, strict=True)) for row in ROWS]


def test_a_table_with_a_map_of_columns(tmp_path: Path) -> None:
    columns = "good=right sentence, bad=wrong sentence, group=kind"
    pairs = read(tmp_path, "a.csv", CSV, "table", columns=columns)
    assert pairs.labels == ("sleeps", "sleep") and pairs.groups == {"x": 1, "y": 1}
    assert pairs.notes[0] == "Columns: good=right sentence, bad=wrong sentence, group=kind."
    assert read(tmp_path, "a.csv", CSV, columns=columns) == pairs, "a map makes any table one"
    assert read(tmp_path, "a.tsv", CSV.replace(",", "\t"), "table", columns=columns).pairs == pairs.pairs


def test_usual_names_need_no_map(tmp_path: Path) -> None:
    text = "Prefix,Good,Bad,cue,label\nThe cat,is,are,cat,sg\nThe cats,are,is,1,pl\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert pairs.labels == ("sg", "pl") and [pair.cue for pair in pairs] == [1, 1]
    assert "Columns: prefix=Prefix, good=Good, bad=Bad, cue=cue, label=label." in pairs.notes
    lines = read(tmp_path, "b.jsonl", "\n".join(map(json.dumps, KEYED)), "table")
    assert len(lines) == 3
    for name, content in (("c.json", json.dumps(KEYED)), ("d.json", json.dumps({"data": KEYED}, indent=1))):
        assert read(tmp_path, name, content, "table").pairs == lines.pairs
    assert read(tmp_path, "e.json", "\n".join(map(json.dumps, KEYED)), "table").pairs == lines.pairs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("", r"no column is known for good and bad among id, right sentence.*--columns prefix=COLUMN,good="),
        (
            "good=rihgt sentence,bad=kind",
            "no column 'rihgt sentence' for good. Did you mean 'right sentence'",
        ),
        ("good=id,bad=kind,good=kind", "each of prefix, good, .* once, but 'good=kind' is not"),
        ("goood=kind", r"'goood=kind' is not of this form. Did you mean 'good'\?"),
        ("good", "'good' is not of this form"),
        ("good=kind", "no column is known for bad"),
    ],
)
def test_bad_maps(columns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.csv", CSV, "table", columns=columns)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",is,are,sg", "line 4, column 'Satz': The cell is empty.*--skip-bad"),
        ("The dog,,are,sg", "line 4, column 'right': The cell is empty"),
        ("The dogs,are old,is young,pl", "line 4: .*differ in one word, but they are “The dogs are old”"),
        ("The fox,is,are,", "line 4, column 'n': Every row has one of two labels, here sg and pl, but"),
        ("The fox,is,are,third", "line 4, column 'n': .* but this one has 'third'. Correct it. --skip-bad"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_bad_row_is_told_or_left_out(row: str, message: str, suffix: str, tmp_path: Path) -> None:
    lines = ["The cat,is old.,are old.,sg", "The cats,are old,is old,pl", row]
    table = [line.split(",") for line in ("Satz,right,wrong,n", *lines)]
    text = "\n".join(map(",".join, table))
    if suffix == "jsonl":
        text = "\n" + "\n".join(json.dumps(dict(zip(table[0], cells, strict=True))) for cells in table[1:])
    columns = "prefix=Satz,good=right,bad=wrong,label=n"
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, f"a.{suffix}", text, "table", columns=columns)
    pairs = read(tmp_path, f"a.{suffix}", text, "table", columns=columns, skip_bad=True)
    assert len(pairs) == 2 and pairs.labels == ("sg", "pl") and pairs[0].words == ("is", "are")
    assert pairs.notes[-1].startswith("Left out 1 bad row: ") and "--skip-bad" not in pairs.notes[-1]


def test_a_prefix_may_be_empty_beside_whole_sentences(tmp_path: Path) -> None:
    text = "context,good,bad\nSo,the cat is,the cat are\n,The cats are,The cats is\n"
    assert [pair.prefix for pair in read(tmp_path, "a.csv", text, "table")] == ["So the cat", "The cats"]


def test_the_other_prefix_is_another_one(tmp_path: Path) -> None:
    """A prefix is not its own counterfactual."""
    text = "prefix,good,bad,other\nThe cat,is,are,The cat\nThe cats,are,is,The cat\n"
    with pytest.raises(PivotalError, match=r"line 2: .* must differ from the prefix, but both are “The cat”"):
        read(tmp_path, "a.csv", text, "table")


def test_parquet_and_folders(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({key: [row[key] for row in KEYED] for key in KEYED[0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    pairs = load_phenomenon(f"table:{tmp_path / 'a.parquet'}")
    assert len(pairs) == 3
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    file = folder / "data-00000.arrow"
    with arrow.OSFile(str(file), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    assert load_phenomenon(f"table:{tmp_path / 'set'}").pairs == pairs.pairs
    file.write_bytes(b"junk")
    with pytest.raises(PivotalError, match=r"not a readable .arrow file"):
        load_phenomenon(f"table:{tmp_path / 'set'}")
    file.unlink()
    with pytest.raises(PivotalError, match=r"a table must have at least one row"):
        load_phenomenon(f"table:{tmp_path / 'set'}")
