"""Labels that a table states."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.questions.readers.reading import read

from pivotal.errors import PivotalError

AGREE = [f"The {noun}{s} there,{good},{bad},{label}" for noun in ("cat", "dog", "king", "poet", "ship", "car", "boy")
         for s, good, bad, label in (("", "is", "are", "sg"), ("s", "are", "is", "pl"))]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "The fox there,is,are,",
            "the cell is empty, but other rows have the label sg or pl. Fill it. --skip",
        ),
        (
            "The fox there,is,are,sgg",
            "a table has two labels, here sg and pl, but .* 'sgg'. Did you mean 'sg'",
        ),
        (
            "The fox there,is,are,pl",
            ".* 'pl' for “is”, but in 14 other rows .* such as line 2, “is” is 'sg'. Corr",
        ),
        (
            "The fox there,are,is,sg",
            ".* 'sg' for “are”, but in 14 other rows .* such as line 2, “are” is 'pl'",
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_label_that_does_not_fit_is_told_or_left_out(
    row: str, message: str, suffix: str, tmp_path: Path
) -> None:
    table = [("prefix", "good", "bad", "n"), *(line.split(",") for line in [*AGREE, row])]
    text = "\n".join(map(",".join, table))
    if suffix == "jsonl":
        text = "\n" + "\n".join(json.dumps(dict(zip(table[0], cells, strict=True))) for cells in table[1:])
    columns = "prefix=prefix,good=good,bad=bad,label=n"
    with pytest.raises(PivotalError, match=f"line 16, column 'n': {message}"):
        read(tmp_path, f"a.{suffix}", text, "table", columns=columns)
    pairs = read(tmp_path, f"a.{suffix}", text, "table", columns=columns, skip_bad=True)
    assert len(pairs) == 14 and pairs.labels == ("sg", "pl")
    assert pairs.notes[-1].startswith("Left out 1 bad row: ") and "line 16" in pairs.notes[-1]
    assert "--skip-bad" not in pairs.notes[-1], "it was used"


def test_words_may_have_either_label(tmp_path: Path) -> None:
    """As names have, whose label is their place in the sentence."""
    names = [("Ann", "Bob"), ("Bob", "Ann"), ("Ann", "Eve"), ("Bob", "Eve"), ("Bob", "Eve"), ("Eve", "Bob")]
    rows = [f"So {a} and {b} met {i} times,{a},{b},first" for i, (a, b) in enumerate(names * 3)]
    rows += [f"So {a} and {b} left {i} times,{b},{a},second" for i, (a, b) in enumerate(names * 3)]
    assert len(read(tmp_path, "a.csv", "\n".join(["prefix,good,bad,label", *rows]), "table")) == 36


def test_a_label_has_two_values(tmp_path: Path) -> None:
    text = "prefix,good,bad,label\na,x,y,1\nb,x,y,2\nc,x,y,3\n"
    with pytest.raises(PivotalError, match=r"a.csv states 3: 1, 2, 3\. Use a column with two values"):
        read(tmp_path, "a.csv", text, "table")
