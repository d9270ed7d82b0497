"""Files of sentences: two in a line, or one with a judgement."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.questions.readers.reading import NUMBER, TABS, read

from pivotal.errors import PivotalError


def test_sentences(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.txt", TABS, "sentences")
    assert pairs.labels == NUMBER and pairs.name == "a"
    first, second = pairs
    assert (first.prefix, first.words, first.label) == ("The cat", ("sleeps", "sleep"), "singular")
    assert (first.cue, first.counterfactuals) == (1, ("The cat", "The cats"))
    assert (second.prefix, second.label) == ("The cats", "plural")
    assert any("“The [cat]”" in note for note in pairs.notes), "what was inferred is told"


def test_judged_sentences(tmp_path: Path) -> None:
    text = "sentence\tlabel\nThe cat sleeps\tcorrect\nThe cat sleep\twrong\n"
    text += "The cats sleeps\twrong\nThe cats sleep\tcorrect"
    assert (
        read(tmp_path, "a.txt", text, "sentences").pairs
        == read(tmp_path, "b.txt", TABS.replace(" .", ""), "sentences").pairs
    )


JUDGED = [f"The {noun}{s} sleep{v}\t{said}" for noun in ("cat", "dog") for s in ("", "s")
          for v, said in (("" if s else "s", "correct"), ("s" if s else "", "wrong"))]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: "The cat sleep\twrng"}, "line 2: .* and correct or wrong, but it is “The cat sleep wrng”"),
        ({1: "The cat sleep"}, "line 2: .* and correct or wrong, but it is “The cat sleep”"),
        ({3: ""}, "line 3: .* but the line after “The cats sleep” has no wrong sentence"),
        ({7: ""}, "line 7: .* but the line after “The dogs sleep” has no wrong sentence"),
    ],
)
def test_a_judged_sentence_is_not_paired_with_a_strange_one(
    change: dict[int, str], message: str, tmp_path: Path
) -> None:
    """A missing line shifted the pairs, so that with skip_bad “The dog sleep” was the wrong “The dogs sleep”."""
    text = "\n".join(change.get(i, line) for i, line in enumerate(JUDGED))
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.txt", text, "sentences")
    whole = read(tmp_path, "b.txt", "\n".join(JUDGED), "sentences")
    kept = read(tmp_path, "a.txt", text, "sentences", skip_bad=True)
    assert len(kept) == 3 and {(p.prefix, p.words, p.label) for p in kept} < {
        (p.prefix, p.words, p.label) for p in whole
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("The cat sleeps  The cat sleep", "line 2: .* but “The cat sleeps The cat sleep” has no tab.*spaces"),
        ("a b\ta c\td", "line 2: .* has 2 tabs. Remove"),
        ("The cat sleeps\t", "line 2: .* but “The cat sleeps” has nothing after its tab. Add the sentence"),
        ("\tThe cat sleep", "line 2: .* but “The cat sleep” has nothing before its tab"),
        ("The cat sleeps here\tThe cat sleep there", "line 2: .*one word only"),
        ("The cat\tA cat", "line 2: .*first word"),
    ],
)
def test_bad_lines_are_told_or_left_out(line: str, message: str, tmp_path: Path) -> None:
    text = TABS.replace("\n", f"\n{line}\n", 1)
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.txt", text, "sentences")
    pairs = read(tmp_path, "a.txt", text, "sentences", skip_bad=True)
    assert (
        len(pairs) == 2 and pairs.notes[-1].startswith("Left out 1 bad row:") and "line 2" in pairs.notes[-1]
    )
