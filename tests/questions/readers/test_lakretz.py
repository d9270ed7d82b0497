from __future__ import annotations

import pytest
from tests.paths import SHARED

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import ReadOptions

DATA = SHARED / "data" / "number-agreement"

ROWS = [
    "The athletes near the bike greet\tplural_singular\tcorrect\tid1",
    "The athletes near the bike greets\tplural_singular\twrong\tid1",
    "The ant near the leaves eat\tsingular_plural\twrong\tid2",
    "The ant near the leaves eats\tsingular_plural\tcorrect\tid2",
]


def test_rows_become_pairs(tmp_path):
    (tmp_path / "nounpp.txt").write_text("\n".join(ROWS) + "\n")
    (tmp_path / "notes.txt").write_text("not a task")
    first, second = load_phenomenon(f"lakretz:{tmp_path}")
    assert first.prefix == "The athletes near the bike" and first.cue == 1 and first.group == "nounpp"
    assert first.words == ("greets", "greet") and first.label == "plural"
    assert dict(first.lexemes) == {"subject": "athlete", "verb": "greet", "attractor": "bike"}
    # Words that we do not know stand for themselves.
    assert second.words == ("eats", "eat") and second.label == "singular"
    assert dict(second.lexemes) == {"subject": "ant", "verb": "eat", "attractor": "leaves"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "it is empty"),
        (["The boy greets\tsingular\tcorrect"], "line 1: a row has 4 cells .* not 3"),
        (["boy greets\tsingular\tcorrect\tid1"], "line 1, column 1: a sentence is"),
        (["The boy greets\tsingle\tcorrect\tid1"], "line 1, column 2: .* not 'single'"),
        (["The boy greets\tsingular\tright\tid1"], "line 1, column 3: must be correct or wrong, not 'right'"),
        (ROWS[:3], "line 3, column 4: .* 'id2' is on 0 correct and 1 wrong"),
        ([ROWS[0], ROWS[1].replace("near", "by")], "line 2, column 1: the two rows of 'id1' may differ"),
        ([ROWS[0], ROWS[0].replace("correct", "wrong")], "line 2, column 1: A pair has two different words"),
    ],
)
def test_errors_name_the_line(tmp_path, rows, message):
    path = tmp_path / "nounpp.txt"
    path.write_text("\n".join(rows))
    with pytest.raises(PivotalError, match=message) as caught:
        load_phenomenon(f"lakretz:{path}")
    assert str(caught.value).startswith(str(path))


def test_bad_rows_can_be_left_out_but_not_all(tmp_path):
    path = tmp_path / "nounpp.txt"
    path.write_text("\n".join([*ROWS[:3], "a\tb"]))
    pairs = load_phenomenon(f"lakretz:{path}", ReadOptions(skip_bad=True))
    assert len(pairs) == 1 and "line 3" in pairs.notes[0] and "line 4" in pairs.notes[0]
    path.write_text("\n".join(ROWS[:1]))
    with pytest.raises(PivotalError, match=r"there is none\. The first bad row: .*line 1, column 4"):
        load_phenomenon(f"lakretz:{path}", ReadOptions(skip_bad=True))


def test_errors_about_the_path(tmp_path):
    with pytest.raises(PivotalError, match=r"at least one of simple\.txt, adv\.txt"):
        load_phenomenon(f"lakretz:{tmp_path}")
    with pytest.raises(PivotalError, match="no such file"):
        load_phenomenon(f"lakretz:{tmp_path / 'absent.txt'}")


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_published_files():
    pairs = load_phenomenon(f"lakretz:{DATA}")
    assert len(set(pairs)) == 12_000
    assert list(pairs.groups.values()) == [600, 1800, 1800, 1200, 1800, 2400, 2400]
    slots = {
        slot: {dict(p.lexemes).get(slot) for p in pairs} - {None} for slot in ("subject", "verb", "name")
    }
    assert {slot: len(lemmas) for slot, lemmas in slots.items()} == {"subject": 20, "verb": 15, "name": 10}
    assert len(load_phenomenon(f"lakretz:{DATA / 'simple.txt'}")) == 600
