"""Tables, plain sentences, prompts of circuit papers and suites of SyntaxGym: what is read, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from pivotal import PivotalError, load_phenomenon
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.readers import ReadOptions
from pivotal.questions.readers.choices import Choice, assemble, between_sentences
from pivotal.questions.rows import BadRows


def read(tmp_path: Path, name: str, text: str | bytes, reader: str = "", **how: object) -> PairSet:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_phenomenon(f"{reader}:{path}" if reader else path, ReadOptions(**how))


TABS = "The cat sleeps .\tThe cat sleep .\nThe cats sleep .\tThe cats sleeps .\n"

ROWS = [("The cat", "is", "are"), ("The cats", "are", "is"), ("The old cat", "was", "were")]

ANSWERS = {"clean_answer": " has", "patch_answer": " have"}
PROMPTS = [
    {"clean_prefix": f"The {one}", "patch_prefix": f"The {many}", **ANSWERS}
    for one, many in (("girl", "girls"), ("old man", "old men"))
]


def condition(name: str, subject: str, verb: str) -> dict[str, object]:
    texts = ("The", subject, "near the car", verb, "here")
    regions = [{"region_number": i, "content": text} for i, text in enumerate(texts, start=1)]
    return {"condition_name": name, "regions": regions}


CONDITIONS = (
    *(("good_sing", "cat", "sleeps"), ("bad_sing", "cat", "sleep")),
    *(("good_plur", "cats", "sleep"), ("bad_plur", "cats", "sleeps")),
)
SUITE = {
    "meta": {"name": "agreement"},
    "predictions": [
        {"type": "formula", "formula": "(4;%bad_sing%) > (4;%good_sing%) & (4;%good_plur%) < (4;%bad_plur%)"}
    ],
    "items": [{"item_number": 1, "conditions": [condition(*one) for one in CONDITIONS]}],
}
NATIVE = json.dumps({"prefix": "The café", "cue": 1, "words": {"a": "is", "b": "are"}}) + "\n"


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("The cats sleep well", "The cats sleeps well", ("The cats", "sleep", "sleeps")),
        ("He saw  himself.", "He saw herself.", ("He saw", "himself", "herself")),
        ("Is it a cat?", "Is it a cats?", ("Is it a", "cat", "cats")),
        ("a .", "a ,", ("a", ".", ",")),
    ],
)
def test_the_difference_of_sentences(good, bad, found):
    assert between_sentences(good, bad) == found


@pytest.mark.parametrize("bad", ["The cat sleeps here", "The cat sleep there", "The cat has slept here"])
def test_differences_that_are_no_question(bad):
    with pytest.raises(PivotalError, match="begin alike and differ in one word, but these are"):
        between_sentences("The cat sleeps here", bad)


@pytest.mark.parametrize(
    ("rows", "labels", "good"),
    [
        ([("No one", "ever", "often"), ("Some", "often", "ever")], ("ever", "often"), ("ever", "often")),
        ([("He", "is", "are"), ("We", "were", "is")], ("is", "were"), ("is", "were")),
        ([("a", "x", "y"), ("b", "y", "z"), ("c", "z", "x")], ("good", "bad"), ("good",) * 3),  # no two sides
        ([("a", "really", "ever"), ("b", "often", "ever")], ("good", "bad"), ("good",) * 2),  # one way
        ([("The cat", "runs", "run"), ("Cats", "eat", "eats")], ("good", "bad"), ("good",) * 2),  # not connected
    ],
)  # fmt: skip
def test_labels_are_the_words_or_good_and_bad(rows, labels, good):
    pairs = assemble("some", [Choice("here", *row) for row in rows], BadRows(skip=False))
    assert pairs.labels == labels and tuple(pair.label for pair in pairs) == good
    assert ("a column label can state" in pairs.notes[0]) == (labels == ("good", "bad"))


@pytest.mark.parametrize(("cue", "found"), [("cat", True), ("1", True), ("near", False), ("2", False)])
def test_a_row_that_differs_at_the_cue_is_the_counterfactual(cue, found, tmp_path):
    ways = (("good,bad", "", "are,is"), ("word.is,word.are,label,lexeme.noun", ",is,cat", "is,are,are,cat"))
    for head, end, row in ways:  # of a table, and of a pairs file where lexemes tell which row is the twin
        text = f"prefix,cue,{head}\nThe cat near it,{cue},is,are{end}\nThe cats near it,cats,{row}\n"
        text += "The dogs near it,dogs,is,are,are,dog\n" if end else ""
        both = ("The cat near it", "The cats near it")
        made = [pair.counterfactuals for pair in read(tmp_path, "a.csv", text, "table")[:2]]
        assert made == [both if found else ("", ""), both]


def test_the_cue_is_where_the_prefixes_of_two_rows_differ(tmp_path):
    text = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\nThe old king near us,is,are\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert [pair.cue for pair in pairs] == [1, 1, None]
    assert any(note.startswith("The cue of 2 pairs is the word that differs") for note in pairs.notes)
    assert any(note.startswith("No cue is known for 1 of 3 pairs: use --steps") for note in pairs.notes)


def test_a_contradicting_row_is_no_counterfactual(tmp_path):
    """A prefix is not its own counterfactual. `check` reports that the labels contradict each other."""
    pairs = read(tmp_path, "a.csv", "prefix,good,bad\nThe cat,is,are\nThe cat,are,is\n", "table")
    assert len(pairs) == 2 and {pair.counterfactuals for pair in pairs} == {("", "")}


def test_the_first_line_tells_the_delimiter(tmp_path):
    text = "prefix,good,bad\nThe cat,is,are\nThe cats,are,is\n"
    commas = read(tmp_path, "a.csv", text, "table")
    assert read(tmp_path, "a.csv", text.replace(",", ";"), "table").pairs == commas.pairs
    assert read(tmp_path, "tabs.csv", text.replace(",", "\t"), "table").pairs == commas.pairs
    assert read(tmp_path, "commas.tsv", text, "table").pairs == commas.pairs
    native = "prefix;cue;word.a;word.b\nThe cat , you see;1;is;are\n"
    assert read(tmp_path, "b.csv", native).pairs == (MinimalPair("The cat , you see", 1, ("is", "are")),)


def test_parquet_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(PivotalError, match=r"needs pyarrow.*pivotal\[parquet\]"):
        read(tmp_path, "a.parquet", b"PAR1", "table")


CSV = "id,right sentence,wrong sentence,kind\n1,The cat sleeps.,The cat sleep.,x\n"
CSV += "2,The cats sleep.,The cats sleeps.,y\n"
KEYED = [dict(zip(("prefix", "good", "bad"), row, strict=True)) for row in ROWS]


def test_a_table_with_a_map_of_columns(tmp_path):
    columns = "good=right sentence, bad=wrong sentence, group=kind"
    pairs = read(tmp_path, "a.csv", CSV, "table", columns=columns)
    assert pairs.labels == ("sleeps", "sleep") and pairs.groups == {"x": 1, "y": 1}
    assert pairs.notes[0] == "Columns: good=right sentence, bad=wrong sentence, group=kind."
    assert read(tmp_path, "a.csv", CSV, columns=columns) == pairs, "a map makes any table one"
    assert read(tmp_path, "a.tsv", CSV.replace(",", "\t"), "table", columns=columns).pairs == pairs.pairs


def test_usual_names_need_no_map(tmp_path):
    text = "Prefix,Good,Bad,cue,label\nThe cat,is,are,cat,sg\nThe cats,are,is,1,pl\n"
    pairs = read(tmp_path, "a.csv", text, "table")
    assert pairs.labels == ("sg", "pl") and [pair.cue for pair in pairs] == [1, 1]
    assert "Columns: prefix=Prefix, good=Good, bad=Bad, cue=cue, label=label." in pairs.notes
    lines = read(tmp_path, "b.jsonl", "\n".join(map(json.dumps, KEYED)), "table")
    assert len(lines) == 3
    for name, content in (("c.json", json.dumps(KEYED)), ("d.json", json.dumps({"data": KEYED}, indent=1))):
        assert read(tmp_path, name, content, "table").pairs == lines.pairs
    assert read(tmp_path, "e.json", "\n".join(map(json.dumps, KEYED)), "table").pairs == lines.pairs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "",
            r"the good and one with the bad word or sentence, .* are id, right sentence.*--columns prefix=COLUMN,good=",
        ),
        ("good=rihgt sentence,bad=kind", "no column 'rihgt sentence' .* Did you mean 'right sentence'"),
        ("goood=kind", r"not as 'goood=kind'. Did you mean 'good'\?"),
    ],
)
def test_bad_maps(columns, message, tmp_path):
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.csv", CSV, "table", columns=columns)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",is,are,sg", "line 4, column 'Satz': The cell is empty.*--skip-bad"),
        ("The fox,is,are,", "line 4, column 'label': The labels are sg and pl, but this row has"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_bad_row_is_told_or_left_out(row, message, suffix, tmp_path):
    lines = ["The cat,is old.,are old.,sg", "The cats,are old,is old,pl", row]
    table = [line.split(",") for line in ("Satz,right,wrong,n", *lines)]
    text = "\n".join(map(",".join, table))
    if suffix == "jsonl":
        text = "\n" + "\n".join(json.dumps(dict(zip(table[0], cells, strict=True))) for cells in table[1:])
    columns = "prefix=Satz,good=right,bad=wrong,label=n"
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, f"a.{suffix}", text, "table", columns=columns)
    pairs = read(tmp_path, f"a.{suffix}", text, "table", columns=columns, skip_bad=True)
    assert len(pairs) == 2 and pairs.labels == ("sg", "pl") and pairs[0].words == ("is", "are")
    assert pairs.notes[-1].startswith("Left out 1 bad row: ") and "--skip-bad" not in pairs.notes[-1]


def test_the_other_prefix_is_another_one(tmp_path):
    """A prefix is not its own counterfactual."""
    text = "prefix,good,bad,other\nThe cat,is,are,The cat\nThe cats,are,is,The cat\n"
    with pytest.raises(PivotalError, match=r"line 2: .* must differ from the prefix, but both are “The cat”"):
        read(tmp_path, "a.csv", text, "table")


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({key: [row[key] for row in KEYED] for key in KEYED[0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert len(load_phenomenon(f"table:{tmp_path / 'a.parquet'}")) == 3
    (tmp_path / "a.parquet").write_bytes(b"junk")
    with pytest.raises(PivotalError, match=r"not a readable .parquet file"):
        load_phenomenon(f"table:{tmp_path / 'a.parquet'}")


def test_sentences(tmp_path):
    pairs = read(tmp_path, "a.txt", TABS, "sentences")
    assert pairs.labels == ("sleeps", "sleep") and pairs.name == "a"
    first, second = pairs
    assert (first.prefix, first.words, first.label) == ("The cat", ("sleeps", "sleep"), "sleeps")
    assert (first.cue, first.counterfactuals) == (1, ("The cat", "The cats"))
    assert (second.prefix, second.label) == ("The cats", "sleep")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("The cat sleeps  The cat sleep", "line 2: .* has 0 tabs or an empty side"),
        ("The cat sleeps\t", "line 2: .* an empty side"),
        ("The cat sleeps here\tThe cat sleep there", "line 2: .*differ in one word"),
    ],
)
def test_bad_lines_are_told_or_left_out(line, message, tmp_path):
    text = TABS.replace("\n", f"\n{line}\n", 1)
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.txt", text, "sentences")
    pairs = read(tmp_path, "a.txt", text, "sentences", skip_bad=True)
    assert len(pairs) == 2 and re.match("Left out 1 bad row:.*line 2", pairs.notes[-1])


@pytest.mark.parametrize("lines", [True, False])
def test_prompts_and_answers(lines, tmp_path):
    text = "\n".join(map(json.dumps, PROMPTS)) if lines else json.dumps(PROMPTS)
    pairs = read(tmp_path, "a.json", text, "circuits")
    assert pairs.labels == ("has", "have") and len(pairs) == 4
    first, second = pairs[:2]
    assert (first.prefix, first.words, first.cue) == ("The girl", ("has", "have"), 1)
    assert first.counterfactuals == second.counterfactuals == ("The girl", "The girls")
    assert (second.prefix, second.label) == ("The girls", "have")
    assert "the word that differs from the other prefix" in " ".join(pairs.notes)


def test_prompts_with_sets_of_answers(tmp_path):
    texts = {"clean": "The war lasted from 1732 to 17", "corrupt": "The war lasted from 1701 to 17"}
    answers = {"answers": ["33", "34"], "wrong_answers": ["02", "03"]}
    content = json.dumps({"prompts": [texts | answers]})
    first, second = read(tmp_path, "a.json", content, "circuits")
    assert set(first.words) == {"33|34", "02|03"} and (first.cue_word, second.cue_word) == ("1732", "1701")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean_prefix": 3}, "entry 1: clean_prefix and patch_prefix must be texts, not 3"),
        ({"clean_answer": [3]}, "entry 1, column 'clean_answer': Must be a text or a list"),
        ({"clean_answer": " have"}, "two different words"),
    ],
)
def test_bad_prompts(change, message, tmp_path):
    with pytest.raises(PivotalError, match=message):
        read(tmp_path, "a.json", json.dumps([{**PROMPTS[0], **change}, PROMPTS[1]]), "circuits")


def test_a_suite_of_syntaxgym_has_the_labels_of_its_conditions(tmp_path):
    pairs = read(tmp_path, "a.json", json.dumps(SUITE), "syntaxgym")
    assert (pairs.name, pairs.labels) == ("agreement", ("good_sing", "good_plur"))
    first, second = pairs
    assert (first.prefix, first.cue_word, first.words) == ("The cat near the car", "cat", ("sleeps", "sleep"))
    assert first.counterfactuals == ("The cat near the car", "The cats near the car")
    assert second.label == "good_plur" and second.words == first.words


def test_suites_that_cannot_be_asked(tmp_path):
    two = {**SUITE, "predictions": [{"formula": "(4;%good_sing%) < (4;%good_plur%)"}]}
    with pytest.raises(PivotalError, match="one word after two prefixes"):
        read(tmp_path, "a.json", json.dumps(two), "syntaxgym")
    both = {**SUITE, "predictions": [*SUITE["predictions"], *two["predictions"]]}
    assert "Left out 1 of 3 comparisons" in read(tmp_path, "a.json", json.dumps(both), "syntaxgym").notes[0]
    for change, message in (
        ({"predictions": []}, "no prediction compares"),
        ({"predictions": [f"({'9' * 5000};%a%) < ({'9' * 5000};%b%)"]}, "no prediction compares"),
        ({"items": 3}, r"items must be a list, but it is a whole number. A test suite is"),
        ({"predictions": [{"formula": "(9;%a%) < (9;%b%)"}]}, "has every condition once, but 'a' 0 times"),
    ):
        with pytest.raises(PivotalError, match=message):
            read(tmp_path, "a.json", json.dumps({**SUITE, **change}), "syntaxgym")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(SUITE)),
        ("a.jsonl", json.dumps(PROMPTS[0])),
        ("a.csv", "Satz,falsch\nThe cat is,The cat are\n"),
        ("a.txt", TABS),
    ],
)
def test_a_file_that_is_named_without_its_reader(name, text, tmp_path):
    with pytest.raises(PivotalError, match="write its reader before the path, such as blimp:PATH"):
        read(tmp_path, name, text)
    with pytest.raises(PivotalError, match="'dog' is not a word of the prefix") as refused:
        read(tmp_path, "b.csv", "prefix,cue,word.a,word.b\nThe cat,dog,is,are\n")
    assert "table:" not in str(refused.value)
