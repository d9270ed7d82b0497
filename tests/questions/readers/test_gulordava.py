"""The reader of Gulordava's test set."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.paths import SHARED

from pivotal.errors import PivotalError
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import ReadOptions
from pivotal.testing import check_phenomenon

DATA = SHARED / "data" / "gulordava" / "generated.tab"
HEADER = "pattern\tconstr_id\tsent_id\tcorrect_number\tform\tclass\ttype\tprefix\tlen_context\tsent"
ROWS = (
    "N_V\t0\t0\tsing\tis\tcorrect\toriginal\tThe thing to keep\t3\tThe thing to keep is this",
    "N_V\t0\t0\tsing\tare\twrong\toriginal\tThe thing to keep\t3\tThe thing to keep is this",
    'N_V\t0\t1\tplur\tgoes\twrong\tgenerated\tThe "" odd "" ideas near\t2\t"a ""quoted"" one"',
    'N_V\t0\t1\tplur\tgo\tcorrect\tgenerated\tThe "" odd "" ideas near\t2\t"a ""quoted"" one"',
)


def write(path: Path, *rows: str, header: str = HEADER) -> str:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return f"gulordava:{path}"


def test_rows_become_pairs(tmp_path: Path) -> None:
    pairs = load_phenomenon(write(tmp_path / "a.tab", *ROWS))
    first, second = pairs
    assert (first.prefix, first.cue, first.words) == ("The thing to keep", 1, ("is", "are"))
    assert (first.label, first.group, second.label, second.group) == (
        "singular",
        "original",
        "plural",
        "nonce",
    )
    assert (second.words, second.prefix.split()[second.cue]) == (("goes", "go"), "ideas")
    # A nonce sentence is of the same family as its original: neither may be learned on if the other is held out.
    assert first.lexemes == second.lexemes
    check_phenomenon(pairs)


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, HEADER.replace("len_context", "context"), "line 1: .* there is no len_context"),
        ((), "", "line 1: .* there is no pattern"),
        (ROWS[:1], HEADER, "line 2: .* a correct and a wrong form; here is only one"),
        ((*ROWS, ROWS[0]), HEADER, "line 6: a sentence has one correct form, but here is a second"),
        (
            (ROWS[0].replace("sing", "dual"),),
            HEADER,
            "line 2: correct_number must be sing or plur, not 'dual'",
        ),
        (
            (ROWS[0].replace("original", "copied"),),
            HEADER,
            "type must be original or generated, not 'copied'",
        ),
        ((ROWS[0].replace("correct\t", "right\t"),), HEADER, "class must be correct or wrong, not 'right'"),
        ((ROWS[0].replace("\t3\t", "\t5\t"),), HEADER, "of which there are 4; it is '5'"),
        ((ROWS[0].replace("\t3\t", "\t-1\t"),), HEADER, "it is '-1'"),
        (("N_V\t0",), HEADER, "line 2: the row has fewer cells than the header"),
        ((ROWS[0], ROWS[1].replace("keep", "hold")), HEADER, "line 3: .* the same prefix and number"),
        ((ROWS[0], ROWS[1].replace("\tare\t", "\tis\t")), HEADER, "line 2: "),
    ],
)
def test_bad_rows_are_refused_with_their_place(
    tmp_path: Path, rows: tuple[str, ...], header: str, message: str
) -> None:
    with pytest.raises(PivotalError, match=message):
        load_phenomenon(write(tmp_path / "a.tab", *rows, header=header))


def test_bad_rows_can_be_left_out_but_not_all(tmp_path: Path) -> None:
    pairs = load_phenomenon(write(tmp_path / "a.tab", *ROWS[:3]), ReadOptions(skip_bad=True))
    assert len(pairs) == 1 and "line 4" in pairs.notes[0]
    for rows, said in ((ROWS[:1], r" The first bad row: .*line 2: .*only one"), ((), "")):
        with pytest.raises(PivotalError, match=rf"at least one pair, but there is none\.{said}"):
            load_phenomenon(write(tmp_path / "b.tab", *rows), ReadOptions(skip_bad=True))


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_published_file() -> None:
    pairs = load_phenomenon(f"gulordava:{DATA}")
    check_phenomenon(pairs)
    assert len(pairs) == 410
    assert sum(pair.group == "original" for pair in pairs) == 41
    first = next(pair for pair in pairs if pair.prefix == "The thing to keep in mind")
    assert (first.prefix.split()[first.cue], first.words, first.label) == ("thing", ("is", "are"), "singular")
    train, test = pairs.split(test=0.2, by="words", seed=0)
    assert not {pair.lexemes for pair in train} & {pair.lexemes for pair in test}
