"""Pairs files: what is read, what spreadsheets write, and that every mistake has a place."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal import PivotalError, read_pairs
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.rows import BadRows

LABELS = ("singular", "plural")
SETS = PairSet("sets", LABELS, (MinimalPair("The doctor", 1, ("is|was", "are"), "singular"),))
ROW = {
    "prefix": "The athlete behind the bike", "cue": "athlete",
    "words": {"singular": "approves", "plural": "approve"}, "label": "singular", "group": "nounpp",
    "lexemes": {"subject": "athlete"},
}  # fmt: skip


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=8)
tricky = st.sampled_from(['"', "'", ",", "a,b", '"q"', "\\", "{}", "#", "=1", "ünï", "\ufeffx", "7", "0"])


word = st.one_of(words, tricky)
two_words = st.lists(word, min_size=2, max_size=2, unique=True).map(tuple)
whole = word.filter(lambda text: "|" not in text)
two_sets = st.lists(whole, min_size=2, max_size=6, unique=True).map(
    lambda many: ("|".join(many[: len(many) // 2]), "|".join(many[len(many) // 2 :]))
)
raw_pairs = st.tuples(
    st.lists(word, min_size=1, max_size=5),
    st.integers(0, 4),
    two_sets,
    st.integers(0, 2),
    st.just("") | word,
    st.dictionaries(word, word, max_size=3),
    st.none() | word,
)


@given(
    two_words,
    st.lists(raw_pairs, min_size=1, max_size=4),
    st.sampled_from([".jsonl", ".csv", ".tsv", ".CSV", ".jsonl.gz", ".csv.gz"]),
)
@settings(max_examples=100, deadline=None)
def test_saving_and_reading_give_the_same_set(labels, raw, suffix):
    pairs = PairSet(
        "set",
        labels,
        tuple(
            MinimalPair(
                " ".join(prefix),
                cue % len(prefix),
                two,
                ("", *labels)[label],
                group,
                tuple(slots.items()),
                (" ".join(prefix), " ".join([other, *prefix[1:]])) if other else ("", ""),
            )
            for prefix, cue, two, label, group, slots, other in raw
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"set{suffix}"
        pairs.save(path)
        found = read_pairs(path)
        assert found.labels == pairs.labels and found.pairs == tuple(dict.fromkeys(pairs))
        assert found.merged == len(pairs) - len(found)
        assert [p.name for p in Path(folder).iterdir()] == [path.name]


def test_a_line_thirty_times_is_one_pair(tmp_path):
    path = tmp_path / "copies.jsonl"
    path.write_text((json.dumps(ROW) + "\n") * 30)
    pairs = read_pairs(path)
    assert (len(pairs), pairs.merged) == (1, 29)
    with pytest.raises(PivotalError, match=r"needs two different pairs, but 'copies' has 1"):
        pairs.split(test=6)


def test_reading_jsonl_with_and_without_the_optional_keys(tmp_path):
    bare = {key: ROW[key] for key in ("prefix", "words")} | {"cue": 4}
    bare |= {"label": None, "group": None, "lexemes": None}
    swapped = {**ROW, "words": {"plural": "admire", "singular": "admires"}}
    text = "\ufeff" + "\n".join(json.dumps(row) for row in (ROW, bare, swapped)) + "\n\n"
    pairs = read_pairs(write(tmp_path, "some.jsonl", text))
    assert (pairs.name, pairs.labels) == ("some", LABELS)
    assert [pair.cue for pair in pairs] == [1, 4, 1]
    assert pairs[1].label == pairs[1].group == "" and pairs[1].lexemes == ()
    assert pairs[2].words == ("admires", "admire")
    assert pairs.notes == (
        "1 of 3 rows state no label, the first in line 2. They do not count towards accuracy.",
    )
    assert not read_pairs(write(tmp_path, "none.jsonl", json.dumps(bare))).notes, "no row states one"


LISTED = (("is", "was"), ("number", "person"))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_sets_of_words_and_features_are_lists_in_json(suffix, tmp_path):
    pairs = replace(SETS, features=("number", "person"))
    pairs.save(tmp_path / f"sets{suffix}")
    text = (tmp_path / f"sets{suffix}").read_text()
    assert all((f'["{a}", "{b}"]' if suffix == ".jsonl" else f"{a}|{b}") in text for a, b in LISTED)
    assert read_pairs(tmp_path / f"sets{suffix}") == pairs


def changed(**changes: object) -> str:
    """A good line, and under it a line with the changes; None takes a key away."""
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    return json.dumps(ROW) + "\n" + json.dumps(row)


HEAD = "prefix,cue,word.singular,word.plural,label\n"


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("jsonl", "", "must hold at least one row; it is empty"),
        ("jsonl", b"abc\n\xff\xfe", "line 2, column 1: byte 0xff is not UTF-8 text"),
        ("jsonl", b"abc\0", r"line 1, column 4: .*zero byte is not UTF-8 text\. Save it as UTF-8\.$"),
        ("jsonl", '{"prefix": }', "line 1: The line must be JSON, .* invalid character in column 12"),
        ("jsonl", "[1]", "line 1: .* must be an object, but it is a list. Every line holds one JSON"),
        ("jsonl", changed(prefix=None), "line 2, column 'prefix': This is missing"),
        (
            "jsonl",
            changed(prefxi="x"),
            r"line 2, column 'prefxi': A pairs file has no such key\. Did you mean 'prefix'\?.*This row has .*prefxi",
        ),
        (
            "jsonl",
            changed(words={"singular": "a"}),
            "column 'words': This row has words for singular, .* Cor",
        ),
        ("jsonl", changed(label="dual"), "line 2, column 'label': 'dual' is not one of the labels"),
        ("csv", HEAD, "holds at least one pair; this one holds none"),
        ("csv", "prefix,cue,cue\n", "line 1, column 'cue': The column occurs twice"),
        ("csv", HEAD.replace("label", "lable") + "a,0,b,c,", r"line 2, column 'lable': .* mean 'label'\?"),
        ("csv", HEAD + "\nThe cat,1,runs,run\n", "line 3: The row has 4 cells"),
        ("csv", HEAD + '"The\ncat",9,runs,run,\n', "line 2, column 'cue': The cue is an index from 0 to 1"),
        ("csv", HEAD + '"The cat,1,runs,run,\n', "line 2, column 1: not a readable table"),
    ],
)
def test_errors_name_file_line_and_column(tmp_path, suffix, content, message):
    path = write(tmp_path, f"bad.{suffix}", content)
    with pytest.raises(PivotalError, match=message) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(str(path))


def test_errors_about_the_file_itself(tmp_path):
    with pytest.raises(PivotalError, match="no such file"):
        read_pairs(tmp_path / "absent.jsonl")
    with pytest.raises(PivotalError, match=r"ends in \.csv, .*not '\.txt'"):
        read_pairs(write(tmp_path, "some.txt", "{}"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(PivotalError, match="cannot be read"):
        read_pairs(tmp_path / "folder.csv")
    with pytest.raises(PivotalError, match="Cannot write"):
        SETS.save(tmp_path / "some.txt" / "x.csv")
    with pytest.raises(PivotalError, match="none to save"):
        PairSet("x", LABELS, ()).save(tmp_path / "x.csv")


@pytest.mark.parametrize("rows", [[ROW, "The cat"], [ROW, 3], ROW])
def test_rows_in_memory_are_dictionaries(rows):
    with pytest.raises(PivotalError, match=r"^pair \d: A pair is a dictionary with keys such as prefix"):
        read_pairs(rows)


def test_bad_rows_are_listed_by_line():
    bad = BadRows(skip=True)
    for line in (4, 8, 12):
        with bad.row(f"a.tsv, line {line}"):
            raise PivotalError("wrong.")
    (note,) = bad.notes()
    assert note == "Left out 3 bad rows: a.tsv, line 4: wrong; a.tsv, line 8: wrong; a.tsv, line 12: wrong."
