"""Contractions and marks, divided as corpora divide them."""

from __future__ import annotations

import pytest

from pivotal.questions.words import divided

TEXT = "ca n't does Dawn 's patients ' , . “ ” cannot it ma'am car"
KNOWN = set(TEXT.split())


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("can't", ("ca", "n't")),
        ("doesn’t", ("does", "n't")),
        ("Dawn's", ("Dawn", "'s")),
        ("patients'", ("patients", "'")),
        ("cannot", ("cannot",)),
        ("ma'am", ("ma'am",)),
        ("car,", ("car", ",")),
        ("“car”", ("“", "car", "”")),
        ("Dawn's.", ("Dawn", "'s", ".")),
        ("zebra", None),
        ("zebra's", None),
        ("zebra,", None),
        ("car!", None),  # the mark is not known
        (",", (",",)),
        ("", None),
    ],
)
def test_parts(word: str, parts: tuple[str, ...] | None) -> None:
    assert divided(word, KNOWN.__contains__) == parts
