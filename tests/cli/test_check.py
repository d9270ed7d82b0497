"""`pivotal check`, and the words of a model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pivotal import Question, load_model, load_phenomenon
from pivotal.evidence.check import check, what_is_known


def test_a_question_that_can_be_asked(pivotal):
    done = pivotal("check", "planted", "planted")
    assert done.code == 0
    assert "planted can score 1,512 of 1,512 pairs of planted." in done.out
    assert "prefers the expected word in 100.0% of 1,512 pairs" in done.out
    assert "By label" in done.out and "By group" in done.out and "class 0" in done.out
    assert "Every held-out prefix is new. Of the held-out pairs, all share their cue word" in done.out
    assert "--split words holds out words as well." in done.out and "takes roughly" in done.out
    assert "--values interchange can use 1,512 of 1,512 pairs." in done.out
    assert "The preferred word has a median rank of" in done.out
    assert "Warning" not in done.out
    found = pivotal("check", "planted", "planted", "--json").json
    assert found["asked"] == found["knowledge"]["pairs"] == 1512 and found["rejected"]["total"] == 0
    assert found["overlap"]["prefix"] == 0 and found["seconds"] > 0


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rows = [
        {"sentence_good": f"The noun0{n} verb0{v}s", "sentence_bad": f"The noun0{n} verb0{v}", "UID": "one"}
        for n in "abcd"
        for v in "abc"
    ]
    rows.append({"sentence_good": "The zebra verb0as", "sentence_bad": "The zebra verb0a", "UID": "one"})
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "two.jsonl").write_text(json.dumps({**rows[0], "one_prefix_method": False}))
    return tmp_path


@pytest.mark.parametrize(
    ("forms", "said"),
    [
        ("", "for “singular” or “plural”, so nothing shows whether the model follows the cue"),
        ("plural", "for “singular”, so nothing shows"),
        ("singular plural", None),
    ],
)
def test_pairs_without_counterfactual_prefixes_are_said_before_a_search(pivotal, tmp_path, forms, said):
    """A newcomer's two columns: the cure, with the column that is missing, comes before the search."""
    pairs = load_phenomenon("planted")
    kept = []
    for pair in pairs:
        both = zip(pairs.labels, pair.counterfactuals, strict=True)
        stated = tuple(text if label in forms.split() else "" for label, text in both)
        kept.append(replace(pair, counterfactuals=stated))
    replace(pairs, pairs=tuple(kept)).save(tmp_path / "mine.csv")
    done = pivotal("check", "planted", tmp_path / "mine.csv")
    assert done.code == 0
    if said is None:
        assert "verdict will be" not in done.out
        return
    assert said in done.out and "Add counterfactual.singular" in done.out
    quick = ("--search", "attribution", "-o", "refit=1", "--max-units", "1", "--controls", "0")
    found = pivotal("find", "planted", tmp_path / "mine.csv", *quick, "--out", tmp_path / "run")
    assert said in found.err and said not in found.out
    assert found.err.index("Add counterfactual") < found.err.index("rank 0/1")
    assert "No evidence" in found.out


def test_warnings_and_reasons(pivotal, files):
    done = pivotal("check", "planted", f"blimp:{files / 'one.jsonl'}", "--test", "4")
    assert "planted can score 12 of 13 pairs of one." in done.out
    assert "Left out: outside the vocabulary: zebra (1)." in done.out
    assert "Warning: All pairs expect “good”, and a verdict needs both directions." in done.out
    assert "counterfactual" not in done.out.partition("Warning")[2], "what is amiss first"
    few = "0 can be flipped to “good” and 1 to “bad”; a verdict needs 10 each. The model prefers “good”"
    assert few in done.out
    assert "Warning: The model prefers “good” in 100.0% of the pairs, whatever is right." in done.out
    assert "no cue" in done.out
    assert done.code == 2
    assert "refuses this question: A search needs at least 2 different prefixes" in done.out
    enough = pivotal("check", "planted", f"blimp:{files / 'one.jsonl'}", "--test", "6")
    assert enough.code == 0 and "refuses" not in enough.out


def test_pairs_that_are_too_few_are_searched_by_force_only(pivotal, files, tmp_path):
    short = ("--test", "4", "--updates", "5", "--controls", "0")
    find = ("find", "planted", f"blimp:{files / 'one.jsonl'}", *short)
    refused = pivotal(*find, "--out", tmp_path / "run")
    assert refused.code == 2 and " and 1. Add pairs with other prefixes" in refused.err
    assert not (tmp_path / "run").exists()
    assert pivotal(*find, "--out", tmp_path / "run", "--force", "--evidence", "none").code == 0


def test_the_sample_is_smaller_in_a_larger_model(pivotal, monkeypatch):
    monkeypatch.setattr("pivotal.evidence.check._UNIT_PAIRS", 64 * 300)
    done = pivotal("check", "planted", "planted")
    assert "The figures are of a random sample of 300 pairs; --sample 0 scores all." in done.out
    assert "of 1,512 pairs" in pivotal("check", "planted", "planted", "--sample", "0").out


def test_the_split_is_that_of_a_search(pivotal, tmp_path):
    """A search divides all pairs and then leaves out those that cannot be asked."""
    rows = [
        {"prefix": f"The {noun} {filler}", "cue": 1, "words": {"a": "verb0as", "b": "verb0a"}, "label": label}
        for filler in ("near", "behind", "quite", "often")
        for noun, label in zip(("noun0a", "noun0as", "zebra", "noun0b", "noun0bs"), "abaab", strict=True)
    ]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    checked = pivotal("check", "planted", file, "--test", "8", "--json").json
    quick = ("--updates", "5", "--controls", "0", "--evidence", "none", "--json", "--out", tmp_path / "run")
    pairs = pivotal("find", "planted", file, "--test", "8", *quick).json["pairs"]
    assert (checked["train"], checked["test"]) == (pairs["train"], pairs["test"])
    assert checked["train"] + checked["test"] == checked["asked"] == 16 and checked["test"] < 8


def test_nothing_can_be_asked(pivotal, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prefix": "The zebra", "words": {"a": "runs", "b": "run"}}')
    done = pivotal("check", "planted", tmp_path / "a.jsonl")
    assert done.code == 2, "as in find"
    assert "planted can score 0 of 1 pair of a." in done.out
    assert "outside the vocabulary: zebra (1)" in done.out and "pivotal check MODEL --words" in done.out
    assert pivotal("check", "planted", tmp_path / "a.jsonl", "--json").json["knowledge"] is None


@pytest.fixture
def forty(tmp_path: Path) -> Path:
    """40 prefixes for each label, of which a fifth is held out."""
    pairs = [
        pair for pair in load_phenomenon("planted") if pair.words[0] in ("verb0as", "verb1as", "verb2as")
    ]
    some = [pair for label in ("singular", "plural") for pair in [p for p in pairs if p.label == label][:40]]
    rows = [
        {
            "prefix": p.prefix,
            "words": dict(zip(("singular", "plural"), p.words, strict=True)),
            "counterfactual": dict(zip(("singular", "plural"), p.counterfactuals, strict=True)),
            "label": p.label,
        }
        for p in some
    ]
    (tmp_path / "forty.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path / "forty.jsonl"


def test_a_check_counts_the_held_out_prefixes_that_the_verdict_will_count(pivotal, forty):
    done = pivotal("check", "planted", forty)
    assert "16 held out, with prefixes to flip: 8 to “singular” and 8 to “plural”." in done.out
    assert "8 can be flipped to “singular” and 8 to “plural”; a verdict needs 10 each." in done.out
    assert "Write at least 50 prefixes for each label, or hold out more with --test 0.3." in done.out
    question, model = Question("planted", str(forty)), load_model("planted")
    lacking = what_is_known(question, model).lacking
    assert lacking is not None and "8 to “singular” and 8 to “plural”; at least 10 each" in lacking
    enough = replace(question, test=0.3)
    assert what_is_known(enough, model).lacking is None and not check(enough, model).warnings


def test_a_folder_is_checked_question_by_question(pivotal, files):
    done = pivotal("check", "planted", f"blimp:{files}")
    assert "one direction" in done.out and "it compares whole sentences" in done.out
    first, second = pivotal("check", "planted", f"blimp:{files}", "--json").json
    assert (first["asked"], second["asked"]) == (12, 0) and second["labels"] is None


def test_words(pivotal):
    done = pivotal("check", "planted", "--words", "verb0as,Noun0a, zebra")
    rows = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
    assert "one token" in rows["verb0as"] and "verb0a" in rows["verb0as"]
    assert "not in the vocabulary" in rows["Noun0a"] and "noun0a" in rows["Noun0a"]
    found = pivotal("check", "planted", "--words", "zebra", "--json").json
    assert found == [{"word": "zebra", "known": False, "tokens": [], "near": []}]
    pivotal("check", "planted", "--words", " ,").refused("--words looks up words, but ' ,' has none")
