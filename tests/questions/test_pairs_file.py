"""The format of a pairs file: what spreadsheets write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon

ROWS = "prefix;cue;word.a;word.b\nThe cat , you see;1;is;are\nThe cats , you see;1;are;is\n"


@pytest.mark.parametrize("mark", [";", ",", "\t", "|"])
@pytest.mark.parametrize("first", ["sep={}\n", "SEP={}\r\n", '"sep={}"\n'])
def test_a_first_line_may_state_the_delimiter(tmp_path: Path, mark: str, first: str) -> None:
    """Excel accepts a first line such as `sep=;`."""
    path = tmp_path / "pairs.csv"
    path.write_text(ROWS, encoding="utf-8")
    plain = load_phenomenon(str(path))
    text = first.format(mark) + ROWS.replace(" , ", " ").replace(";", mark)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    stated = load_phenomenon(str(path))
    assert [pair.words for pair in stated] == [pair.words for pair in plain]
    assert stated[0].prefix == "The cat you see"
    path.write_bytes(text.replace(f"cats you see{mark}1", f"cats you see{mark}9").encode())
    with pytest.raises(PivotalError, match=r"pairs\.csv, line 4, column"):
        load_phenomenon(str(path))


def test_a_stated_delimiter_does_not_hide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("sep=;\nprefix;good;bad\nThe cat;is;are\nThe cats;are;is\n", encoding="utf-8")
    assert len(load_phenomenon(f"table:{path}")) == 2
    with pytest.raises(PivotalError, match="This looks like the format of 'table': use table:"):
        load_phenomenon(str(path))
