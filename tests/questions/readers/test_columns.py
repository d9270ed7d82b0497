"""The columns of a table: which holds what, and what their cells must hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import NUMBER, ROWS, read

from pivotal.errors import PivotalError

CSV = "id,right sentence,wrong sentence,kind\n1,The cat sleeps.,The cat sleep.,x\n"

CSV += "2,The cats sleep.,The cats sleeps.,y\n"


def test_a_table_with_a_map_of_columns(tmp_path: Path) -> None:
    columns = "good=right sentence, bad=wrong sentence, group=kind"
    pairs = read(tmp_path, "a.csv", CSV, "table", columns=columns)
    assert pairs.labels == NUMBER and pairs.groups == {"x": 1, "y": 1}
    assert pairs.notes[0] == "Columns: good=right sentence, bad=wrong sentence, group=kind."
    assert read(tmp_path, "a.csv", CSV, columns=columns) == pairs, "a map makes any table one"
    assert read(tmp_path, "a.tsv", CSV.replace(",", "\t"), "table", columns=columns).pairs == pairs.pairs


def test_usual_names_need_no_map(tmp_path: Path) -> None:
    text = "Prefix,Good,Bad,cue,label\nThe cat,is,are,cat,sg\nThe cats,are,is,1,pl\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert pairs.labels == ("sg", "pl") and [pair.cue for pair in pairs] == [1, 1]
    assert "Columns: prefix=Prefix, good=Good, bad=Bad, cue=cue, label=label." in pairs.notes
    lines = "\n".join(json.dumps(dict(zip(("prefix", "good", "bad"), row, strict=True))) for row in ROWS)
    assert read(tmp_path, "b.jsonl", lines, "table").labels == NUMBER
    whole = json.dumps([dict(zip(("prefix", "good", "bad"), row, strict=True)) for row in ROWS])
    assert read(tmp_path, "c.json", whole, "table").pairs == read(tmp_path, "b.jsonl", lines, "table").pairs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("", r"no column is known for good and bad among id, right sentence.*--columns prefix=COLUMN,good="),
        (
            "good=rihgt sentence,bad=kind",
            r"no column 'rihgt sentence' for good. Did you mean 'right sentence'",
        ),
        (
            "good=right sentence,bad=wrng sentence",
            r"a\.csv: There is no column 'wrng sentence' for bad. Did you mean 'wrong sentence'\?",
        ),
        (
            "bad=right sentences,good=right sentence",
            r"no column 'right sentences' for bad. Did you mean 'wrong sentence'\? Available: id, kind, wrong",
        ),
        ("good=id,bad=kind,good=kind", "one column for each role, but good has two"),
        ("goood=kind", r"not 'goood'. Did you mean 'good'\?"),
        ("good", "'good' is not of this form"),
        ("good=kind", "no column is known for bad"),
    ],
)
def test_bad_maps(columns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.csv", CSV, "table", columns=columns)


def test_the_words_of_a_table_differ_in_one_word(tmp_path: Path) -> None:
    """With a prefix as without one. The rest of the continuations was not read, so a second difference was not seen."""
    text = "prefix,good,bad\nThe cat,is old.,are old.\nThe cats,are old,is old\n"
    assert [pair.words for pair in read(tmp_path, "a.csv", text, "table")] == [("is", "are")] * 2
    text += "The dogs,are old,is young\n"
    said = r"line 4: .*one word only, but after “The dogs” .* “are old” and “is young”. End both after the word that"
    with pytest.raises(PivotalError, match=said):
        read(tmp_path, "a.csv", text, "table")
    pairs = read(tmp_path, "a.csv", text, "table", skip_bad=True)
    assert len(pairs) == 2 and "Left out 1 bad row: " in pairs.notes[-1]


@pytest.mark.parametrize("row", [",is,are", "The dog,,are", "The dog,is, "])
def test_an_empty_cell_is_named(row: str, tmp_path: Path) -> None:
    text = f"Satz,right,wrong\nThe cat,is,are\nThe cats,are,is\n{row}\n"
    column = ("Satz", "right", "wrong")[[not cell.strip() for cell in row.split(",")].index(True)]
    columns = "prefix=Satz,good=right,bad=wrong"
    with pytest.raises(
        PivotalError, match=f"a.csv, line 4, column '{column}': the cell is empty.*--skip-bad"
    ):
        read(tmp_path, "a.csv", text, "table", columns=columns)
    assert len(read(tmp_path, "a.csv", text, "table", columns=columns, skip_bad=True)) == 2


def test_a_prefix_may_be_empty_beside_whole_sentences(tmp_path: Path) -> None:
    text = "context,good,bad\nSo,the cat is,the cat are\n,The cats are,The cats is\n"
    assert [pair.prefix for pair in read(tmp_path, "a.csv", text, "table")] == ["So the cat", "The cats"]


def test_the_columns_are_those_of_all_rows(tmp_path: Path) -> None:
    """A JSON row may lack a key. A label that only the first row lacks is missing there, as an empty cell is."""
    rows = [dict(zip(("prefix", "good", "bad"), row, strict=True)) for row in ROWS]
    text = "\n".join(json.dumps(row | ({"label": row["good"]} if i else {})) for i, row in enumerate(rows))
    with pytest.raises(PivotalError, match="line 1, column 'label': the cell is empty"):
        read(tmp_path, "a.jsonl", text, "table")


def test_the_other_prefix_is_another_one(tmp_path: Path) -> None:
    """A prefix is not its own counterfactual."""
    text = "prefix,good,bad,other\nThe cat,is,are,The cat\nThe cats,are,is,The cat\n"
    with pytest.raises(PivotalError, match=r"line 2: .* must differ from the prefix, but both are “The cat”"):
        read(tmp_path, "a.csv", text, "table")


def test_an_empty_prefix_has_no_cue_to_infer(tmp_path: Path) -> None:
    rows = "prefix,good,bad\n,himself,herself\nThe boy hurt,himself,herself\nThe girl hurt,herself,himself\n"
    with pytest.raises(PivotalError, match=r"line 2, column 'prefix': the cell is empty"):
        read(tmp_path, "a.csv", rows, "table")
    assert len(read(tmp_path, "a.csv", rows, "table", skip_bad=True)) == 2
