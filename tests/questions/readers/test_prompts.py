"""Two lists of prompts as a question: which prompts are partners, and what is refused."""

from pathlib import Path

import pytest

from pivotal import PivotalError, load_phenomenon, read_pairs
from pivotal.questions import PairSet, prompt_pairs

PAST = ["She walked home and", "The cat slept when", "We met him because", "They sang a song until"]
PRESENT = ["She walks home and", "The cat sleeps when", "We meet him because", "They sing a song until"]


def lists(tmp_path: Path, past: str, present: str, more: str = "") -> PairSet:
    (tmp_path / "past.txt").write_text(past)
    (tmp_path / "present.txt").write_text(present)
    return load_phenomenon(f"prompts:{tmp_path}/past.txt,{tmp_path}/present.txt{more}")


def partners(pairs: PairSet) -> list[tuple[str, str]]:
    return [pair.counterfactuals for pair in pairs if pair.label == pairs.labels[0]]


def test_lines_are_partners_and_each_is_the_counterfactual_of_the_other(tmp_path):
    pairs = lists(tmp_path, "\n".join(PAST) + "\n\n", "\n".join(PRESENT))
    assert (pairs.name, pairs.labels, pairs.asks_words) == ("past-or-present", ("past", "present"), False)
    assert partners(pairs) == list(zip(PAST, PRESENT, strict=True))
    assert [pair.prefix for pair in pairs if pair.label == "present"] == PRESENT
    assert {pair.words for pair in pairs} == {("", "")}
    assert [pair.cue for pair in pairs][::2] == [1, 2, 1, 1]
    assert pairs.notes[0].startswith("Prompts are paired line by line, such as “She walked home and”")


@pytest.mark.parametrize("present", [PRESENT[::-1], [*PRESENT[::-1], "Nobody knows why"]])
def test_otherwise_partners_are_the_prompts_with_most_words_in_common(present):
    """In another order, and if one list is longer."""
    pairs = prompt_pairs({"past": PAST, "present": present})
    assert partners(pairs) == list(zip(PAST, PRESENT, strict=True))
    assert "by the words that they share" in pairs.notes[0]
    assert ("1 of the longer list have no partner" in pairs.notes[0]) == (len(present) > len(PAST))
    turned = prompt_pairs({"present": present, "past": PAST})
    assert sorted(partners(turned)) == sorted(zip(PRESENT, PAST, strict=True))


def test_what_is_paired_by_the_user_stays_paired():
    pairs = prompt_pairs({"past": PAST, "present": PRESENT[::-1]}, paired=True)
    assert partners(pairs) == list(zip(PAST, PRESENT[::-1], strict=True))


def test_a_prompt_and_its_partner_are_in_the_same_part_of_a_split():
    pairs = prompt_pairs(
        {"past": [f"She {i} walked" for i in range(20)], "present": [f"She {i} walks" for i in range(20)]}
    )
    for seed in range(5):
        train, test = pairs.split(0.3, seed=seed)
        assert len(test) == 12
        assert not {pair.counterfactuals for pair in train} & {pair.counterfactuals for pair in test}


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv"])
def test_pairs_without_words_are_written_and_read(tmp_path, name):
    pairs = prompt_pairs({"past": PAST, "present": PRESENT})
    pairs.save(tmp_path / name)
    again = read_pairs(tmp_path / name)
    assert (again.labels, again.pairs) == (pairs.labels, pairs.pairs)


def test_a_row_needs_no_words_if_it_has_a_counterfactual_prefix():
    rows = [
        {"prefix": "She walked", "label": "past", "counterfactual": {"present": "She walks"}},
        {"prefix": "They sing now", "label": "present", "counterfactual": {"past": "They sang"}},
    ]
    pairs = read_pairs(rows)
    assert (pairs.labels, pairs.asks_words) == (("past", "present"), False)
    assert pairs[1].counterfactuals == ("They sang", "They sing now")


@pytest.mark.parametrize(
    ("past", "present", "more", "said"),
    [
        ("a b\nc d\n", "e f\n", ",paired", r"equally many prompts, but “past” has 2 and “present” 1. Make them"),
        ("\n\n", "e f\n", "", "Each list holds at least one prompt, but that of “past” is empty."),
        ("e f\n", "", "", "Each list holds at least one prompt, but that of “present” is empty."),
        ("a b\nc d\n", "a b\nc d\n", "", "which say what is to differ, but they are equal."),
        ("a b\nc d\n", "g h\na b\n", "", "which say what is to differ, but both have “a b”."),
        ("a b\n", "a c\n", ",together", "prompts:FILE,FILE or prompts:FILE,FILE,paired, not"),
    ],
)  # fmt: skip
def test_lists_that_cannot_be_asked(tmp_path, past, present, more, said):
    with pytest.raises(PivotalError, match=said):
        lists(tmp_path, past, present, more)


def test_a_list_that_does_not_exist(tmp_path):
    (tmp_path / "past.txt").write_text("a b\n")
    with pytest.raises(PivotalError, match=r"present\.txt"):
        load_phenomenon(f"prompts:{tmp_path}/past.txt,{tmp_path}/present.txt")
    for names in ("past.txt", f"past.txt,{tmp_path}/past.txt"):
        with pytest.raises(PivotalError, match="Two lists of prompts are two text files"):
            load_phenomenon(f"prompts:{tmp_path}/{names}")


def test_in_python_prompts_are_two_lists_or_two_texts():
    texts = {"past": "\n".join(PAST), "present": PRESENT}
    assert prompt_pairs(texts) == prompt_pairs({"past": PAST, "present": PRESENT})
    with pytest.raises(PivotalError, match="words for two labels"):
        prompt_pairs({"past": PAST})


@pytest.mark.parametrize(
    "rows",
    [
        [{"prefix": "She walked", "counterfactual": {"past": "She walked", "present": "She walks"}}],
        [
            {"prefix": "She walked", "label": "past", "counterfactual": {"present": "She walks"}},
            {"prefix": "She", "label": "past", "words": {"past": "walked", "present": "walks"}},
        ],
    ],
)
def test_pairs_without_words_need_a_label_and_a_partner_all_of_them(rows):
    with pytest.raises(PivotalError, match=r"only one asks two words|has no words, so it needs a label"):
        read_pairs(rows)
