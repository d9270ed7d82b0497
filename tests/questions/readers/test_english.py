"""The subject of an English verb."""

from __future__ import annotations

import pytest

from pivotal.questions.readers import english


@pytest.mark.parametrize(
    ("prefix", "cue"),
    [
        ("The doctor near the cars", "doctor"),
        ("The old doctor", "doctor"),
        ("The doctors who know the king", "doctors"),
        ("The doctor cannot say that they", "they"),
        ("In the end he", "he"),
    ],
)
def test_the_subject_before_a_verb(prefix: str, cue: str) -> None:
    words = prefix.split()
    assert words[english.subject_before_verb(words)] == cue
