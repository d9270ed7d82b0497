from __future__ import annotations

import json
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.minimal_pair import MinimalPair, find_cue
from pivotal.questions.pairs import PairSet, read_pairs

LABELS = ("singular", "plural")
ROW = {
    "prefix": "The athlete behind the bike",
    "cue": "athlete",
    "words": {"singular": "approves", "plural": "approve"},
    "label": "singular",
    "group": "nounpp",
    "lexemes": {"subject": "athlete"},
}


def grid(subjects: int = 12, verbs: int = 10) -> PairSet:
    """Every subject with every verb, in two groups and both labels."""
    pairs = [
        MinimalPair(
            f"The noun{s}{'s' * (label == 'plural')} {group}",
            1,
            (f"verb{v}s", f"verb{v}"),
            label,
            group,
            (("subject", f"noun{s}"), ("verb", f"verb{v}")),
        )
        for group in ("now", "often")
        for label in LABELS
        for s in range(subjects)
        for v in range(verbs)
    ]
    return PairSet("grid", LABELS, tuple(pairs))


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# -- the pair and the set --


def test_a_pair_is_normalised():
    pair = MinimalPair("  The\tathlete \n now ", 1, ("runs ", " run"), lexemes=(("verb", "run"), ("a", "b")))
    assert (pair.prefix, pair.words, pair.cue_word) == ("The athlete now", ("runs", "run"), "athlete")
    assert pair.lexemes == (("a", "b"), ("verb", "run"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": " \n "}, "prefix is empty"),
        ({"cue": 3}, "from 0 to 2 into the words of 'The athlete now', not 3"),
        ({"cue": -1}, "from 0 to 2"),
        ({"words": ("run", "run ")}, "two different words"),
        ({"words": ("run", "")}, "needs a word, but one is empty"),
        ({"words": ("run", "run fast")}, "one word without spaces, not 'run fast'"),
        ({"group": "a\x00b"}, r"U\+0000"),
        ({"prefix": "The athlete \ud800"}, r"U\+D800"),
        ({"lexemes": (("a", "b"), ("a", "c"))}, "different slots"),
        ({"lexemes": (("a", ""),)}, "a lemma each"),
        ({"counterfactuals": ("The athletes now", "The athletes")}, r"as many words as the prefix \(3\)"),
        ({"counterfactuals": ("The athletes now",)}, "for each of its two labels"),
    ],
)
def test_a_bad_pair_is_refused(changes, message):
    good = {"prefix": "The athlete now", "cue": 1, "words": ("runs", "run")}
    with pytest.raises(PivotalError, match=message):
        MinimalPair(**{**good, **changes})


def test_find_cue():
    assert find_cue("The cat saw the dog", "cat") == 1
    with pytest.raises(PivotalError, match=r"occurs 2 times in 'a b a'. Give its index instead: 0, 2"):
        find_cue("a b a", "a")
    with pytest.raises(PivotalError, match=r"no 'cats'. Did you mean 'cat'\?"):
        find_cue("The cat saw", "cats")


def test_a_set_is_a_sequence():
    pairs = grid()
    assert len(pairs) == 480 and pairs.groups == {"now": 240, "often": 240}
    assert pairs[0] is next(iter(pairs)) and pairs[:3].pairs == pairs.pairs[:3]
    assert pairs.fingerprint() == PairSet("other", LABELS, pairs.pairs).fingerprint()
    assert pairs.fingerprint() != pairs[1:].fingerprint()
    assert pairs.fingerprint() != PairSet("grid", LABELS, pairs.pairs[::-1]).fingerprint()
    assert len(pairs.fingerprint()) == 16


def test_labels_are_checked():
    with pytest.raises(PivotalError, match="two different labels"):
        PairSet("x", ("a", "a"), ())
    with pytest.raises(PivotalError, match=r"not 'dual'.*Available: plural, singular"):
        PairSet("x", LABELS, (MinimalPair("The cat", 1, ("runs", "run"), "dual"),))


# -- splits --


@given(st.integers(1, 479), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_split_by_pairs_is_a_partition_and_stratified(test, seed):
    pairs = grid()
    train, held = pairs.split(test=test, seed=seed, by="pairs")
    assert len(held) == test and train.dropped == 0
    assert not set(train) & set(held) and set(train) | set(held) == set(pairs)
    counts = [sum((p.group, p.label) == (g, c) for p in held) for g in pairs.groups for c in LABELS]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 479), st.integers(0, 1000), st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_a_split_by_prefixes_shares_no_prefix_and_is_stratified(test, seed, most):
    """`most` limits the pairs of a prefix, so that prefixes of many sizes occur."""
    pairs = grid()
    of_prefix = {}
    for pair in pairs:
        of_prefix.setdefault(pair.prefix, []).append(pair)
    uneven = tuple(pair for i, own in enumerate(of_prefix.values()) for pair in own[: 1 + i % most])
    pairs = PairSet("uneven", LABELS, uneven)
    test = min(test, len(pairs) - 1)
    train, held = pairs.split(test=test, seed=seed)
    assert not {p.prefix for p in train} & {p.prefix for p in held}
    assert train.dropped == 0 and set(train) | set(held) == set(pairs) and len(train) and len(held)
    assert (train, held) == pairs.split(test=test, seed=seed, by="prefixes")
    assert abs(len(held) - test) <= most
    for group in pairs.groups:
        for label in LABELS:
            everywhere, here = (
                sum((p.group, p.label) == (group, label) for p in part) for part in (pairs, held)
            )
            assert abs(here - test * everywhere / len(pairs)) <= most


def test_a_split_by_prefixes_needs_two_of_them():
    same = tuple(MinimalPair("The cat", 1, words) for words in (("runs", "run"), ("eats", "eat")))
    with pytest.raises(PivotalError, match=r"needs two prefixes or more, but the 2 pairs have 1"):
        PairSet("one", LABELS, same).split(test=1)
    train, held = PairSet("two", LABELS, (*same, MinimalPair("The dog", 1, ("runs", "run")))).split(test=2)
    assert {len(train), len(held)} == {1, 2}


@given(st.integers(1, 250), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_split_by_words_shares_no_lemma(test, seed):
    pairs = grid()
    train, held = pairs.split(test=test, seed=seed, by="words")
    assert len(held) == test and train and train.dropped == len(pairs) - len(train) - test
    for slot in ("subject", "verb"):
        seen, unseen = ({dict(p.lexemes)[slot] for p in part} for part in (train, held))
        assert not seen & unseen


def test_a_split_by_words_without_lexemes_uses_the_words():
    plain = tuple(MinimalPair(p.prefix, 1, p.words, p.label, p.group) for p in grid())
    train, held = PairSet("plain", LABELS, plain).split(test=40, by="words")
    assert not {p.cue_word for p in train} & {p.cue_word for p in held}
    assert not {p.words for p in train} & {p.words for p in held}
    # One pair of words cannot be held out, so only the cue counts and nothing but the surplus is dropped.
    same = tuple(MinimalPair(p.prefix, 1, ("is", "are"), p.label, p.group) for p in grid())
    train, held = PairSet("same", LABELS, same).split(test=40, by="words")
    assert train.dropped == 0 and len(train) == 440
    assert not {p.cue_word for p in train} & {p.cue_word for p in held}


def test_a_fraction_and_a_sample():
    pairs = grid()
    assert len(pairs.split(test=0.25)[1]) == pytest.approx(120, abs=10)
    assert len(pairs.sample(7, seed=3)) == 7 and pairs.sample(480) == pairs
    assert pairs.sample(50, seed=1) == pairs.sample(50, seed=1) != pairs.sample(50, seed=2)


@pytest.mark.parametrize("test", [0, -3, 480, 1000, 0.0001, 1.5, float("nan"), float("inf")])
def test_a_bad_test_size_is_refused(test):
    with pytest.raises(PivotalError, match="The test part"):
        grid().split(test=test)


def test_other_bad_requests_are_refused():
    with pytest.raises(PivotalError, match=r"Did you mean 'prefixes'\?"):
        grid().split(test=10, by="prefix")
    with pytest.raises(PivotalError, match=r"subject: 12, verb: 10.*450 test pairs"):
        grid().split(test=450, by="words")
    with pytest.raises(
        PivotalError, match=r"at least two lemmas in some slot; this set has subject: 1, verb: 1"
    ):
        grid(1, 1).split(test=1, by="words")
    with pytest.raises(PivotalError, match="between 1 and 480"):
        grid().sample(481)


# -- files --

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
    st.sampled_from([".jsonl", ".json-lines", ".csv", ".tsv", ".CSV"]),
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
    with pytest.raises(PivotalError, match=r"two pairs or more .* but 'copies' has 1 different one"):
        pairs.split(test=6)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_subnormal=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ROW, "singular", "plural", "x"]), inner, max_size=6)
    ),
    max_leaves=8,
)
damaged = st.dictionaries(st.sampled_from([*ROW, "extra"]), json_like, max_size=3).map(
    lambda changes: json.dumps({**ROW, **changes}).encode()
)
header = b"prefix,cue,word.a,word.b,label\n"
junk = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    damaged,
    st.text(string.ascii_letters + '", \n\t\r01', max_size=40).map(lambda text: header + text.encode()),
)


@given(junk, st.sampled_from([".jsonl", ".csv", ".tsv"]))
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_junk_gives_a_clear_error_or_a_valid_set(content, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), f"junk{suffix}", content)
        try:
            pairs = read_pairs(path)
        except PivotalError as error:
            assert str(path) in str(error)
        else:
            assert len(pairs) >= 1


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
    assert pairs.notes == ("1 of 3 rows state no label, the first in line 2. They count in no accuracy.",)
    assert not read_pairs(write(tmp_path, "none.jsonl", json.dumps(bare))).notes, "no row states one"


def test_the_counterfactual_of_the_own_label_is_the_prefix(tmp_path):
    path = tmp_path / "pairs.jsonl"
    row = {"prefix": "The boy", "cue": 1, "words": {"one": "runs", "many": "run"}, "label": "one"}
    path.write_text(json.dumps({**row, "counterfactual": {"many": "The boys"}}))
    assert read_pairs(path)[0].counterfactuals == ("The boy", "The boys")
    path.write_text(json.dumps({**row, "counterfactual": {"all": "The boys"}}))
    with pytest.raises(PivotalError, match=r"column 'counterfactual': .*not to 'all'"):
        read_pairs(path)


def test_reading_csv_with_words_in_a_cell(tmp_path):
    text = 'prefix,cue,words\r\n"The ""big"", cat",cat,"{""he"": ""his"", ""she"": ""her""}"\r\n'
    pairs = read_pairs(write(tmp_path, "some.csv", text))
    assert pairs[0].prefix == 'The "big", cat' and pairs[0].cue == 2 and pairs.labels == ("he", "she")


def changed(**changes: object) -> str:
    """A good line, and under it a line with the changes; None takes a key away."""
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    return json.dumps(ROW) + "\n" + json.dumps(row)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds at least one pair; this one is empty"),
        (b"abc\n\xff\xfe", r"line 2, column 1: the file must be UTF-8 text; byte 0xff is not"),
        (b"abc\0", r"line 1, column 4: .*zero byte is not\. Save it as UTF-8\.$"),
        (
            "The café".encode("utf-16-le"),
            r"It looks like UTF-16 without a byte order mark\. Save it as UTF-8",
        ),
        (
            "The café".encode("utf-16-be"),
            r"It looks like UTF-16 without a byte order mark\. Save it as UTF-8",
        ),
        ("The café".encode("utf-32"), r"It looks like UTF-32\. Save it as UTF-8"),
        ("The café".encode("latin-1"), r"column 8: .*byte 0xe9 is not\. Save it as UTF-8"),
        ('{"prefix": }', r"line 1, column 12: not JSON"),
        ("[1]", r"line 1, column 1: every line holds one JSON object, not a list"),
        ("[" * 100_000, r"line 1, column 1: .*nesting is too large"),
        (changed(prefix=None), r"line 2, column 'prefix': the key is missing"),
        (changed(prefxi="x"), r"line 2, column 'prefxi': unknown key. Did you mean 'prefix'\?"),
        (changed(prefix=3), r"line 2, column 'prefix': must be a string, not a number: 3"),
        (changed(cue=True), r"line 2, column 'cue': must be an index from 0 or a word, not a truth value"),
        (changed(cue=5), r"line 2, column 'cue': The cue is an index from 0 to 4"),
        (changed(cue="bikes"), r"line 2, column 'cue': .*no 'bikes'. Did you mean 'bike'\?"),
        (
            changed(prefix=""),
            r"line 2, column 'prefix': The prefix is empty, but it must hold at least one word",
        ),
        (changed(prefix="", cue=0), r"line 2, column 'prefix': The prefix is empty"),
        (
            changed(words={"singular": "a", "plural": "a"}),
            r"line 2, column 'words': A pair has two different",
        ),
        (
            changed(words={"singular": "a", "plural": " "}),
            r"line 2, column 'words': Each label needs a word, but plural has none. Fill it",
        ),
        (changed(words={"singular": "a", "plural": 1}), r"line 2, column 'words.plural': must be a string"),
        (changed(words={"singular": "a"}), r"line 2, column 'words': .*labels of the first one"),
        (json.dumps({**ROW, "words": {"a": "b"}}), r"line 1, column 'words': .*not 1 \['a'\]"),
        (changed(label="dual"), r"line 2, column 'label': .*not 'dual'"),
        (changed(lexemes=[1]), r"line 2, column 'lexemes': must be an object of strings, not a list"),
    ],
)
def test_errors_in_jsonl_name_file_line_and_column(tmp_path, content, message):
    path = write(tmp_path, "bad.jsonl", content)
    with pytest.raises(PivotalError, match=message) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(str(path))


HEAD = "prefix,cue,word.singular,word.plural,label\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n", "this one is empty"),
        (HEAD, "holds at least one pair; this one holds none"),
        ("cue,word.a,word.b\n", "line 1, column 'prefix': the column is missing"),
        ("prefix,cue,cue\n", "line 1, column 'cue': the column occurs twice"),
        (
            "prefix,cue,word.a,word.b,lable\n",
            r"line 1, column 'lable': unknown column. Did you mean 'label'\?",
        ),
        ("prefix,cue,word.a\n", "line 1, column 'word.a': the two words must be in two columns"),
        ("prefix,cue\n", "line 1, column 'words': the two words must be in two columns"),
        (HEAD + "\nThe cat,1,runs,run\n", "line 3, column 'label': the row has 4 cells"),
        (HEAD + "The cat,1,runs,run,,x\n", "line 2, column '6': the row has 6 cells"),
        (HEAD + '"The\ncat",9,runs,run,\n', "line 2, column 'cue': The cue is an index from 0 to 1"),
        (HEAD + "The cat,1,runs,run,\nThe cat,dog,runs,run,\n", "line 3, column 'cue': .*no 'dog'"),
        (HEAD + '"The cat,1,runs,run,\n', "line 2, column 1: not a readable table"),
        ("prefix,cue,words\nThe cat,1,oops\n", "line 2, column 'words': not JSON"),
    ],
)
def test_errors_in_csv_name_file_line_and_column(tmp_path, content, message):
    path = write(tmp_path, "bad.csv", content)
    with pytest.raises(PivotalError, match=message) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(str(path))


def test_errors_about_the_file_itself(tmp_path):
    with pytest.raises(PivotalError, match="no such file"):
        read_pairs(tmp_path / "absent.jsonl")
    with pytest.raises(PivotalError, match=r"ends in one of \.jsonl, .*not '\.json'"):
        read_pairs(write(tmp_path, "some.json", "{}"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(PivotalError, match="cannot read it"):
        read_pairs(tmp_path / "folder.csv")
    with pytest.raises(PivotalError, match="cannot write it"):
        grid().save(tmp_path / "absent" / "x.csv")
    with pytest.raises(PivotalError, match="none to save"):
        grid()[:0].save(tmp_path / "x.csv")


def test_did_you_mean():
    assert (
        did_you_mean("gredy", ["learned", "greedy"]) == " Did you mean 'greedy'? Available: greedy, learned."
    )
    assert did_you_mean("BASE", ["Base"]) == " Did you mean 'Base'? Available: Base."
    assert did_you_mean("zzz", ["a"]) == " Available: a."
    assert did_you_mean("zzz", []) == " None is available."
