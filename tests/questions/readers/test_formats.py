"""Tables, sentences, prompts of circuit papers, test suites and datasets: what is read, inferred and refused."""

from __future__ import annotations

import codecs
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import READERS, ReadOptions, english
from pivotal.questions.readers.choice import Choice, between_sentences
from pivotal.questions.readers.labels import labelled

NUMBER = ("singular", "plural")


def read(tmp_path: Path, name: str, text: str | bytes, reader: str = "", **how: object) -> PairSet:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_phenomenon(f"{reader}:{path}" if reader else path, ReadOptions(**how))  # type: ignore[arg-type]


# -- the difference between two sentences --


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("The cats sleep well", "The cats sleeps well", ("The cats", "sleep", "sleeps")),
        ("He saw  himself.", "He saw herself.", ("He saw", "himself", "herself")),
        ("Is it a cat?", "Is it a cats?", ("Is it a", "cat", "cats")),
        ("a .", "a ,", ("a", ".", ",")),
    ],
)
def test_the_difference_of_sentences(good: str, bad: str, found: tuple[str, str, str]) -> None:
    assert between_sentences(good, bad) == found


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("The cat sleeps", "The cat sleeps", "must differ, but both are"),
        ("The cat", "A cat", "differ in their first word"),
        ("The cat sleeps", "The cat", "is the beginning of"),
        ("The cat sleeps here", "The cat sleep there", "may differ in one word only"),
        ("The cat sleeps", "The cat has slept", "may differ in one word only"),
    ],
)
def test_differences_that_are_no_question(good: str, bad: str, message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        between_sentences(good, bad)


# -- labels --


def choices(*rows: tuple[str, str, str]) -> list[Choice]:
    return [Choice("here", *row) for row in rows]


@pytest.mark.parametrize(
    ("rows", "labels", "good"),
    [
        ([("The cat", "sleeps", "sleep"), ("The cats", "sleep", "sleeps")], NUMBER, (0, 1)),
        ([("He", "isn't", "aren't"), ("They", "were", "was")], NUMBER, (0, 1)),
        ([("Read these", "books", "book"), ("Read this", "book", "books")], NUMBER, (1, 0)),
        ([("See these old", "oxen", "ox"), ("See that", "axis", "axes")], NUMBER, (1, 0)),
        ([("Men saw", "themselves", "itself"), ("It saw", "itself", "themselves")], NUMBER, (1, 0)),
        (
            [("Ann saw", "herself", "himself"), ("Al saw", "himself", "herself")],
            ("masculine", "feminine"),
            (1, 0),
        ),
        ([("No one", "ever", "often"), ("Some", "often", "ever")], ("ever", "often"), (0, 1)),
        ([("a", "x", "y"), ("b", "y", "z"), ("c", "z", "x")], ("good", "bad"), (0, 0, 0)),  # no two sides
        ([("a", "really", "ever"), ("b", "often", "ever")], ("good", "bad"), (0, 0)),  # one way
    ],
)
def test_labels_are_found(
    rows: list[tuple[str, str, str]], labels: tuple[str, str], good: tuple[int, ...]
) -> None:
    found = labelled(choices(*rows))
    assert (found.labels, found.good) == (labels, good)


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


# -- sentences --

TABS = "The cat sleeps .\tThe cat sleep .\nThe cats sleep .\tThe cats sleeps .\n"


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


# -- tables --

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


ROWS = [("The cat", "is", "are"), ("The cats", "are", "is"), ("The old cat", "was", "were")]


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


def test_rows_of_another_kind_are_left_out_with_an_example(tmp_path: Path) -> None:
    text = "prefix,good,bad\n" + "".join(f"{','.join(row)}\n" for row in ROWS) + "The dog,often,ever\n"
    notes = read(tmp_path, "a.csv", text, "table").notes
    assert any(
        "Left out 1 pair of 4" in note and "“often” and “ever” (" in note and "line 5" in note
        for note in notes
    )


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


@pytest.mark.parametrize(("cue", "found"), [("cat", True), ("1", True), ("near", False), ("2", False)])
def test_a_row_with_a_cue_has_a_counterfactual_if_a_row_differs_there(
    cue: str, found: bool, tmp_path: Path
) -> None:
    text = f"prefix,cue,good,bad\nThe cat near it,{cue},is,are\nThe cats near it,cats,are,is\n"
    first, second = read(tmp_path, "a.csv", text, "table")
    both = ("The cat near it", "The cats near it")
    assert (first.counterfactuals, second.counterfactuals) == (both if found else ("", ""), both)


def test_the_first_line_tells_the_delimiter(tmp_path: Path) -> None:
    text = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\n"
    commas = read(tmp_path, "a.csv", text, "table")
    assert read(tmp_path, "a.csv", text.replace(",", ";"), "table").pairs == commas.pairs
    assert read(tmp_path, "tabs.csv", text.replace(",", "\t"), "table").pairs == commas.pairs
    assert read(tmp_path, "commas.tsv", text, "table").pairs == commas.pairs
    native = "prefix;cue;word.a;word.b\nThe cat , you see;1;is;are\n"
    assert read(tmp_path, "b.csv", native).pairs == (MinimalPair("The cat , you see", 1, ("is", "are")),)
    with pytest.raises(PivotalError, match="This looks like the format of 'table': use table:"):
        read(tmp_path, "c.csv", text.replace(",", ";"))


def test_a_table_that_is_not_recognised_is_told_how_to_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        PivotalError, match=r"'Satz': unknown column.*: --columns prefix=COLUMN,good=COLUMN,bad=COLUMN"
    ):
        read(tmp_path, "a.csv", "Satz,falsch\nThe cat is,The cat are\n")
    with pytest.raises(PivotalError, match="has no 'dog'") as refused:
        read(tmp_path, "b.csv", "prefix,cue,word.a,word.b\nThe cat,dog,is,are\n")
    assert "table:" not in str(refused.value)


def test_cues_are_inferred_beside_stated_labels(tmp_path: Path) -> None:
    """No two of these rows are alike, so the cue comes from the kind of the labels, which have other names here."""
    rows = "prefix,good,bad,label\nThe cat near us,is,are,{}\nThe kings of old,are,is,{}\nThe poet who sang,is,are,{}\n"
    pairs = read(tmp_path, "a.csv", rows.format("sg", "pl", "sg"), "table")
    assert pairs.labels == ("sg", "pl") and [pair.cue_word for pair in pairs] == ["cat", "kings", "poet"]
    other = read(tmp_path, "b.csv", rows.format("early", "late", "late"), "table")
    assert [pair.cue for pair in other] == [None] * 3, "labels that are not number"


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


def test_the_columns_are_those_of_all_rows(tmp_path: Path) -> None:
    """A JSON row may lack a key. A label that only the first row lacks is missing there, as an empty cell is."""
    rows = [dict(zip(("prefix", "good", "bad"), row, strict=True)) for row in ROWS]
    text = "\n".join(json.dumps(row | ({"label": row["good"]} if i else {})) for i, row in enumerate(rows))
    with pytest.raises(PivotalError, match="line 1, column 'label': the cell is empty"):
        read(tmp_path, "a.jsonl", text, "table")


def test_the_other_prefix_is_another_one(tmp_path: Path) -> None:
    """It was read as its own counterfactual."""
    text = "prefix,good,bad,other\nThe cat,is,are,The cat\nThe cats,are,is,The cat\n"
    with pytest.raises(PivotalError, match=r"line 2: .* must differ from the prefix, but both are “The cat”"):
        read(tmp_path, "a.csv", text, "table")


def test_a_contradicting_row_is_no_counterfactual(tmp_path: Path) -> None:
    """The prefix was its own counterfactual. That the labels contradict each other, `check` says."""
    pairs = read(tmp_path, "a.csv", "prefix,good,bad\nThe cat,is,are\nThe cat,are,is\n", "table")
    assert len(pairs) == 2 and {pair.counterfactuals for pair in pairs} == {("", "")}


def test_a_label_has_two_values(tmp_path: Path) -> None:
    text = "prefix,good,bad,label\na,x,y,1\nb,x,y,2\nc,x,y,3\n"
    with pytest.raises(PivotalError, match=r"a.csv states 3: 1, 2, 3\. Use a column with two values"):
        read(tmp_path, "a.csv", text, "table")


def test_parquet_and_datasets(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(("prefix", "good", "bad"), map(list, zip(*ROWS, strict=True)), strict=True))
    table = arrow.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet")
    pairs = load_phenomenon(f"table:{tmp_path / 'a.parquet'}")
    assert pairs.labels == NUMBER and len(pairs) == 3
    with pytest.raises(PivotalError, match=r"looks like the format of 'table': use table:.*a\.parquet"):
        load_phenomenon(tmp_path / "a.parquet")
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    with (
        arrow.OSFile(str(folder / "data-00000.arrow"), "wb") as sink,
        arrow.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")
    assert load_phenomenon(f"dataset:{tmp_path / 'set'}").pairs == pairs.pairs
    with pytest.raises(PivotalError, match="looks like the format of 'dataset': use dataset:"):
        load_phenomenon(tmp_path / "set")
    (folder / "data-00000.arrow").write_bytes(b"junk")
    with pytest.raises(PivotalError, match=r"not a readable .arrow file"):
        load_phenomenon(f"dataset:{tmp_path / 'set'}")


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        (b"The girl", b"The \xff\xfe\xfd\xfc"),
        ((8).to_bytes(4, "little"), (2**30).to_bytes(4, "little")),
    ],
    ids=["text that is not UTF-8", "lengths that lead outside"],
)
def test_damaged_arrow_tables(tmp_path: Path, sound: bytes, damaged: bytes) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.arrow"
    table = arrow.table({"prefix": ["The girl"], "good": ["has"], "bad": ["have"]})
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    data = path.read_bytes()
    body = data.rindex(b"The girl") - 64  # the offsets of the text come before the text
    path.write_bytes(data[:body] + data[body:].replace(sound, damaged))
    with pytest.raises(PivotalError, match=r"a\.arrow: not a readable \.arrow file"):
        load_phenomenon(f"table:{path}")


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        PivotalError, match=r"needs the library pyarrow.*pivotal\[parquet\], or save .* as \.csv"
    ):
        read(tmp_path, "a.parquet", b"PAR1", "table")


def test_a_dataset_of_plain_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for part, rows in (("a", ROWS[:2]), ("b", ROWS[2:])):
        text = "\n".join(",".join(row) for row in [("prefix", "good", "bad"), *rows])
        (tmp_path / "data" / f"{part}.csv").write_text(text)
    assert len(load_phenomenon(f"dataset:{tmp_path}")) == 3
    for wrong in (tmp_path / "none", tmp_path / "data" / "a.csv"):
        with pytest.raises(PivotalError, match="no such folder"):
            load_phenomenon(f"dataset:{wrong}")


# -- prompts of circuit papers --

PROMPTS = [
    {
        "clean_prefix": "The girl",
        "patch_prefix": "The girls",
        "clean_answer": " has",
        "patch_answer": " have",
    },
    {
        "clean_prefix": "The old man",
        "patch_prefix": "The old men",
        "clean_answer": " is",
        "patch_answer": " are",
    },
]


@pytest.mark.parametrize("lines", [True, False])
def test_prompts_and_answers(lines: bool, tmp_path: Path) -> None:
    text = "\n".join(map(json.dumps, PROMPTS)) if lines else json.dumps(PROMPTS)
    pairs = read(tmp_path, "a.json", text, "circuits")
    assert pairs.labels == NUMBER and len(pairs) == 4
    first, second = pairs[:2]
    assert (first.prefix, first.words, first.cue) == ("The girl", ("has", "have"), 1)
    assert first.counterfactuals == second.counterfactuals == ("The girl", "The girls")
    assert (second.prefix, second.label) == ("The girls", "plural")
    assert "the word that differs from the other prefix" in " ".join(pairs.notes)


def test_prompts_with_sets_of_answers(tmp_path: Path) -> None:
    prompts = {
        "prompts": [
            {"clean": "The war lasted from 1732 to 17", "corrupt": "The war lasted from 1701 to 17",
             "answers": ["33", "34"], "wrong_answers": ["02", "03"]},
        ]
    }  # fmt: skip
    first, second = read(tmp_path, "a.json", json.dumps(prompts), "circuits")
    assert set(first.words) == {"33|34", "02|03"} and (first.cue_word, second.cue_word) == ("1732", "1701")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean_prefix": 3}, "entry 1, column 'clean_prefix': must be a text, not 3"),
        ({"clean_answer": [3]}, "entry 1, column 'clean_answer': must be a text or a list"),
        ({"clean_answer": ""}, "entry 1: an entry has clean_prefix"),
        ({"clean_answer": " have"}, "two different words"),
    ],
)
def test_bad_prompts(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.json", json.dumps([{**PROMPTS[0], **change}, PROMPTS[1]]), "circuits")


# -- SyntaxGym --


def condition(name: str, subject: str, verb: str) -> dict[str, object]:
    texts = ("The", subject, "near the car", verb, "here")
    regions = [{"region_number": i, "content": text} for i, text in enumerate(texts, start=1)]
    return {"condition_name": name, "regions": regions}


SUITE = {
    "meta": {"name": "agreement"},
    "predictions": [
        {"type": "formula", "formula": "(4;%bad_sing%) > (4;%good_sing%) & (4;%good_plur%) < (4;%bad_plur%)"}
    ],
    "items": [
        {
            "item_number": 1,
            "conditions": [
                condition("good_sing", "cat", "sleeps"),
                condition("bad_sing", "cat", "sleep"),
                condition("good_plur", "cats", "sleep"),
                condition("bad_plur", "cats", "sleeps"),
            ],
        }
    ],
}


def test_a_suite_of_syntaxgym(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a.json", json.dumps(SUITE), "syntaxgym")
    assert (pairs.name, pairs.labels) == ("agreement", NUMBER)
    first, second = pairs
    assert (first.prefix, first.cue_word, first.words) == ("The cat near the car", "cat", ("sleeps", "sleep"))
    assert first.counterfactuals == ("The cat near the car", "The cats near the car")
    assert second.label == "plural"


def test_suites_that_cannot_be_asked(tmp_path: Path) -> None:
    two = {**SUITE, "predictions": [{"formula": "(4;%good_sing%) < (4;%good_plur%)"}]}
    with pytest.raises(PivotalError, match="one word after two prefixes"):
        read(tmp_path, "a.json", json.dumps(two), "syntaxgym")
    both = {**SUITE, "predictions": [*SUITE["predictions"], *two["predictions"]]}
    assert "Left out 1 of 3 comparisons" in read(tmp_path, "a.json", json.dumps(both), "syntaxgym").notes[0]
    for change, message in (
        ({"predictions": []}, "a list of predictions"),
        ({"items": 3}, "a list of items"),
        ({"predictions": [{"formula": "(*;%a%) < (*;%b%)"}]}, "none"),
        ({"predictions": [{"formula": "(9;%a%) < (9;%b%)"}]}, "has every condition once, but 'a' 0 times"),
        ({"items": [{}]}, "an item has a list of conditions"),
    ):
        with pytest.raises(PivotalError, match=message):
            read(tmp_path, "a.json", json.dumps({**SUITE, **change}), "syntaxgym")


# -- recognition --


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [
        ("a.json", json.dumps(SUITE), "SyntaxGym: use syntaxgym:"),
        ("a.json", json.dumps(PROMPTS), "the format of 'circuits': use circuits:"),
        ("a.jsonl", json.dumps(PROMPTS[0]), "the format of 'circuits': use circuits:"),
        ("a.csv", "id,sentence_good,sentence_bad\n1,a b,a c\n", "the format of 'table': use table:"),
        ("a.txt", TABS, "the format of 'sentences': use sentences:"),
        ("a.tsv", TABS, "the format of 'sentences': use sentences:"),
    ],
)
def test_files_of_others_are_recognised(name: str, text: str, reader: str, tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match=f"This looks like {reader}"):
        read(tmp_path, name, text)
    for known, cls in READERS.items():
        assert cls.summary and "\n" not in cls.summary and f"{known}:" in cls.summary


def test_an_unknown_file_is_not_recognised(tmp_path: Path) -> None:
    with pytest.raises(PivotalError, match="ends in one of") as refused:
        read(tmp_path, "a.txt", "Once upon a time.\n")
    assert "looks like" not in str(refused.value)


# -- encodings --

NATIVE = json.dumps({"prefix": "The café", "cue": 1, "words": {"a": "is", "b": "are"}}) + "\n"


@pytest.mark.parametrize(
    "data",
    [
        NATIVE.encode(),
        NATIVE.replace("\n", "\r\n").encode(),
        codecs.BOM_UTF8 + NATIVE.encode(),
        NATIVE.encode("utf-16"),
        codecs.BOM_UTF16_BE + NATIVE.encode("utf-16-be"),
        gzip.compress(NATIVE.encode()),
    ],
    ids=["utf-8", "crlf", "bom", "utf-16", "utf-16-be", "gz"],
)
def test_encodings(data: bytes, tmp_path: Path) -> None:
    (pair,) = read(tmp_path, "a.jsonl", data)
    assert pair == MinimalPair("The café", 1, ("is", "are"))
    tabs = TABS.encode() if data.startswith(NATIVE[:3].encode()) else None
    if tabs is not None:
        windows = read(tmp_path, "b.txt", tabs.replace(b"\n", b"\r\n"), "sentences")
        assert windows.pairs == read(tmp_path, "c.txt", tabs, "sentences").pairs


def test_compressed_files(tmp_path: Path) -> None:
    pairs = PairSet("mine", ("a", "b"), (MinimalPair("The café", None, ("is", "are")),))
    for suffix in (".jsonl.gz", ".csv.gz"):
        pairs.save(tmp_path / f"mine{suffix}")
        assert (tmp_path / f"mine{suffix}").read_bytes()[:2] == b"\x1f\x8b"
        assert load_phenomenon(tmp_path / f"mine{suffix}") == pairs
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(NATIVE.encode())[:20])
    with pytest.raises(PivotalError, match="not a readable gzip file"):
        load_phenomenon(tmp_path / "bad.jsonl.gz")
    (tmp_path / "odd.jsonl").write_bytes(codecs.BOM_UTF16_LE + b"abc")
    with pytest.raises(PivotalError, match="begins as UTF-16"):
        load_phenomenon(tmp_path / "odd.jsonl")


def test_bad_rows_of_a_pairs_file_are_listed(tmp_path: Path) -> None:
    text = NATIVE + "{}\n" + NATIVE.replace("The", "A") + "oops\n"
    with pytest.raises(PivotalError, match="line 2, column 'prefix'"):
        read(tmp_path, "a.jsonl", text)
    pairs = read(tmp_path, "a.jsonl", text, skip_bad=True)
    assert len(pairs) == 2
    (note,) = pairs.notes
    assert note.startswith("Left out 2 bad rows:") and "line 2" in note and "line 4" in note
    with pytest.raises(PivotalError, match=r"holds none. The bad row: .*line 1"):
        read(tmp_path, "a.jsonl", "{}", skip_bad=True)


# -- anything at all --

text = st.text(max_size=12)
value = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_subnormal=False)
    | text
    | st.lists(text, max_size=3)
)
value |= st.dictionaries(text, text, max_size=2)
KEYS = {
    "table": ["prefix", "good", "bad", "cue", "label", "group", "other"],
    "circuits": ["clean_prefix", "patch_prefix", "clean_answer", "patch_answer", "case"],
    "blimp": ["sentence_good", "sentence_bad", "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad",
              "one_prefix_method", "two_prefix_method", "UID"],
}  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """The reader, the name and the content of a file with any value in any field."""
    reader = draw(st.sampled_from([*KEYS, "syntaxgym", "sentences", "table.csv", "lakretz"]))
    if reader in KEYS:
        rows = draw(st.lists(st.dictionaries(st.sampled_from(KEYS[reader]), value, min_size=1), max_size=3))
        good = {key: "a b" if "prefix" in key else "c" if "good" in key else "d" for key in KEYS[reader]}
        rows = [{**good, **row} for row in rows]
        suffix = draw(st.sampled_from([".jsonl", ".json"])) if reader != "blimp" else ".jsonl"
        dumped = "\n".join(map(json.dumps, rows)) if suffix == ".jsonl" else json.dumps(rows)
        return reader, f"a{suffix}", dumped.encode("utf-8", "surrogatepass")
    if reader == "syntaxgym":
        suite = {**SUITE, **draw(st.dictionaries(st.sampled_from(["meta", "predictions", "items"]), value))}
        return reader, "a.json", json.dumps(suite).encode("utf-8", "surrogatepass")
    kind, _, suffix = reader.partition(".")
    lines = draw(st.text(alphabet='ab \t,\n"\r', max_size=60))
    head = "prefix,good,bad\n" if suffix else ""
    return kind, f"a.{suffix or 'txt'}", (head + lines).encode()


@given(document=documents(), skip=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_read_or_refused_with_a_sentence(
    document: tuple[str, str, bytes], skip: bool, tmp_path: Path
) -> None:
    reader, name, data = document
    try:
        pairs = read(tmp_path, name, data, reader, skip_bad=skip)
    except PivotalError as error:
        assert str(error).strip().endswith((".", "?", ")")) and "Traceback" not in str(error)
    else:
        assert len(pairs) > 0 and len(set(pairs)) == len(pairs)


def test_an_empty_prefix_has_no_cue_to_infer(tmp_path: Path) -> None:
    rows = "prefix,good,bad\n,himself,herself\nThe boy hurt,himself,herself\nThe girl hurt,herself,himself\n"
    with pytest.raises(PivotalError, match=r"line 2, column 'prefix': the cell is empty"):
        read(tmp_path, "a.csv", rows, "table")
    assert len(read(tmp_path, "a.csv", rows, "table", skip_bad=True)) == 2
