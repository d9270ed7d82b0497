"""Rows that cannot be read are listed by line, however the reader came to them."""

from __future__ import annotations

import pytest

from pivotal.errors import PivotalError
from pivotal.questions.bad_rows import BadRows


def test_bad_rows_are_listed_by_line() -> None:
    bad = BadRows(skip=True)
    for line in (12, 4, 8):
        with bad.row():
            raise PivotalError(f"a.tsv, line {line}: wrong.")
    assert bad.notes() == (
        "Left out 3 bad rows: a.tsv, line 4: wrong; a.tsv, line 8: wrong; a.tsv, line 12: wrong.",
    )


def test_the_first_bad_row_is_refused_without_skip() -> None:
    bad = BadRows(skip=False)
    with pytest.raises(PivotalError, match="line 3"), bad.row():
        raise PivotalError("a.tsv, line 3: wrong.")
