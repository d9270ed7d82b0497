"""Template files: what a good file makes, that every slip is told with its place, and the file to begin with."""

import gzip
import re
from collections import Counter

import pytest

from pivotal import PivotalError, load_phenomenon
from pivotal.files import asset
from pivotal.questions import PairSet
from pivotal.questions.templates.template_file import parse_template, write_new
from pivotal.questions.words import read_words

GOOD = """\
labels: [singular, plural]
test: 10
lexicon:
  det: [{singular: this, plural: these}, {singular: that, plural: those}]
  adj: [big, old]
  noun:
    singular: [book, car]
    plural: [books, cars]
    kind: [paper, metal]
words: noun
templates:
  - {group: plain, prefix: "She saw {det}"}
  - {group: adjective, prefix: "She saw {det} {adj}", sample: 12}
"""


def made(text: str) -> PairSet:
    return parse_template(text, "toy.yaml", "toy").pairs()


def one(templates: str, lexicon: str = "noun: [{a: man, b: woman}, {a: king, b: queen}]") -> PairSet:
    """The pairs of a file with the labels a and b."""
    return made(f"labels: [a, b]\nlexicon:\n  {lexicon}\ntemplates:\n  - {templates}\n")


# -- good files -------------------------------------------------------------------------------------------------------


def test_a_file_makes_every_sentence_for_both_labels():
    pairs = made(GOOD)
    assert (pairs.name, pairs.labels, pairs.held_out) == ("toy", ("singular", "plural"), 10)
    first, second = pairs[:2]
    assert (first.prefix, first.cue_word, first.words) == ("She saw this", "this", ("book", "books"))
    assert first.label == "singular"
    assert second.prefix == "She saw these" and second.label == "plural" and second.group == "plain"
    assert first.counterfactuals == second.counterfactuals == ("She saw this", "She saw these")
    assert first.lexemes == (("det", "this"), ("noun", "book"))
    assert pairs.groups == {"plain": 8, "adjective": 12}


def test_line_ends_marks_encodings_and_compression_do_not_matter(tmp_path):
    windows = "\ufeff" + GOOD.replace("\n", "\r\n")
    contents = (windows.encode(), GOOD.encode("utf-16"), gzip.compress(GOOD.encode()))
    for suffix, content in zip((".yml", ".yaml", ".yaml.gz"), contents, strict=True):
        (tmp_path / f"toy{suffix}").write_bytes(content)
        assert load_phenomenon(tmp_path / f"toy{suffix}") == made(GOOD)
    (tmp_path / "toy.yml").write_bytes(windows.replace("det: [", "Det: [").encode())
    with pytest.raises(PivotalError, match=r"toy\.yml, line 4, column 3: the name of a list is lower-case"):
        load_phenomenon(tmp_path / "toy.yml")


def test_all_values_are_words():
    pairs = one(
        "{prefix: '{no} man', words: [null, true]}",
        "no: [{a: no, b: yes}, {a: 1912, b: 2001-01-01}, {a: ~, b: .}]",
    )
    assert {pair.cue_word for pair in pairs} == {"no", "yes", "1912", "2001-01-01", "~", "."}
    assert pairs[0].words == ("null", "true")


def test_slots_of_every_kind():
    lexicon = "noun: [{a: man, b: woman}, {a: king, b: queen}, {a: son, b: daughter}]"
    pairs = one('{prefix: "{Noun} x {noun2.b} {noun3.any}", words: [he, she], cue: noun}', lexicon)
    assert len(set(pairs)) == len(pairs) == 6 * 2 * 2
    chosen = [pair for pair in pairs if pair.prefix.startswith(("Man x queen", "Woman x queen"))]
    assert {pair.prefix for pair in chosen} == {
        f"{noun} x queen {child}" for noun in ("Man", "Woman") for child in ("son", "daughter")
    }
    # The counterfactual prefix changes the slots that take the form of the label, and nothing else.
    assert chosen[0].counterfactuals[1] == "Woman" + chosen[0].prefix.removeprefix("Man")


def test_several_slots_agree_and_the_cue_is_named():
    pairs = one('{prefix: "The {noun} , {who} sang ,", cue: noun, words: [he, she]}', """noun: [{a: man, b: woman}]
  who: [{a: his wife, b: her husband}]""")  # fmt: skip
    assert pairs[0].counterfactuals == ("The man , his wife sang ,", "The woman , her husband sang ,")
    assert [pair.cue for pair in pairs] == [1, 1]


def test_the_cue_of_several_words_is_its_last_word():
    pairs = one("{prefix: 'The {noun} said', words: [he, she]}", "noun: [{a: old man, b: old woman}]")
    assert [pair.cue_word for pair in pairs] == ["man", "woman"]


def test_a_prefix_for_each_label():
    pairs = one("""words: {a: "{name1}", b: "{name2}"}
    prefix:
      a: "{name1} met {name2} , and {name2} thanked"
      b: "{name1} met {name2} , and {name1} thanked"
""", "name: [Ann, Bob, Cleo]")  # fmt: skip
    assert len(pairs) == 12 and pairs[0].words == ("Ann", "Bob") and pairs[0].label == "a"
    assert pairs[0].prefix == "Ann met Bob , and Bob thanked" and pairs[0].cue == 5
    assert pairs[0].counterfactuals[1] == pairs[1].prefix == "Ann met Bob , and Ann thanked"


def test_words_are_a_list_two_words_or_sets():
    prefix = 'prefix: "The {noun} and"'
    assert one(f"{{{prefix}, words: [he, she]}}")[0].words == ("he", "she")
    assert one(f"{{{prefix}, words: {{b: she, a: he}}}}")[0].words == ("he", "she")
    assert one(f"{{{prefix}, words: [[he, his], she]}}")[0].word_sets == (("he", "his"), ("she",))
    assert one(f'{{{prefix}, words: "{{noun}}"}}')[0].words == ("man", "woman")
    assert one(f"{{{prefix}, words: noun2}}")[0].words == ("king", "queen")
    sets = "noun: [{a: man, b: woman}]\n  be: [{a: is|was, b: are|were}]"
    assert one(f"{{{prefix}, words: be}}", sets)[0].word_sets == (("is", "was"), ("are", "were"))


def test_without_a_label_neither_word_is_right():
    common = 'words: [he, she], label: none, cue: job, prefix: "The {job} said"'
    lexicon = "job: [nurse, doctor]"
    plain = one(f"{{{common}}}", lexicon)
    assert [pair.label for pair in plain] == ["", ""] and plain[0].counterfactuals == ("", "")
    both = ("The man said", "The woman said")
    for given in ("{job: [man, woman]}", "{job: {b: woman, a: man}}"):
        pairs = one(f"{{{common}, counterfactual: {given}}}", lexicon)
        assert pairs[0].counterfactuals == both and pairs[0].prefix == "The nurse said"


def test_conditions_choose_among_the_words():
    lexicon = """noun: [{a: man, b: men, kind: x}, {a: car, b: cars, kind: y}, {a: cat, b: cats, kind: x}]
  verb: [{word: sang, kind: x}, {word: broke, kind: y}]"""
    template = 'words: [he, she], counterfactual: none, prefix: "The {noun} that {verb.word} and"'
    pairs = one(f"{{{template}, where: verb.kind = noun.kind}}", lexicon)
    said = {pair.prefix for pair in pairs if pair.label == "a"}
    assert said == {"The man that sang and", "The car that broke and", "The cat that sang and"}
    assert {pair.counterfactuals for pair in pairs} == {("", "")}


def test_lexemes_are_the_cue_and_the_words_unless_named():
    text = GOOD.replace("words: noun", "words: noun\nlexemes: {thing: noun, property: adj}")
    assert {pair.lexemes for pair in made(text)[:8]} == {(("thing", "book"),), (("thing", "car"),)}
    assert dict(made(text)[8].lexemes).keys() == {"thing", "property"}
    assert made(GOOD.replace("words: noun", "words: noun\nlexemes: none"))[0].lexemes == ()


# -- slips ------------------------------------------------------------------------------------------------------------

SLIPS = [
    ("labels:", "label:", "toy.yaml: a template file needs the key 'labels'. It has 'label': did you mean 'labels'"),
    ("{singular: this, plural", "{singular: this, plurl", "same forms. In line .* plural, here singular and plurl"),
    ("labels:", "lables:", "line 1, column 1: there is no key 'lables' in a template file. Did you mean 'labels'?"),
    ("[singular, plural]", "[one, one]", "line 1, column 1: 'labels' are two different names"),
    ("[singular, plural]", "[singular, plurl]", "line 12, column 20: .* none for plurl. .* Did you mean 'plural'?"),
    ("adj: [big, old]", "adj:", "line 5, column 3: 'adj' is a list, but it is empty"),
    ("adj: [big, old]", "adj: [big, big]", "line 5, column 14: 'big' is in the list 'adj' twice; the first is in line"),
    ("kind: [paper, metal]", "kind: [paper]", "line 9, column 5: the forms of 'noun' are lists of equal length"),
    ("words: noun\n", "", "line 11, column 5: item 1 of 'templates' needs the key 'words'"),
    ("words: noun", "words: nuon", "line 10, column 1: 'words' is a list of the lexicon .* Did you mean 'noun'?"),
    ("{group: plain, prefix: \"She saw {det}\"}", "{det}", "column 6: .* with braces or colons in quotes"),
    ("saw {det}\"", "saw {dat}\"", "line 12, column 20: the slot '{dat}' is not in .* Did you mean 'det'?"),
    ("saw {det}\"", "saw {det.plurl}\"", "line 12, column 20: the slot takes a form of 'det', not 'plurl'"),
    ("saw {det}\"", "saw {adj}\"", "line 12, column 5: no slot of the prefix has a form for each label"),
    ("saw {det}\"", "saw {det} {det}\"", "line 12, column 5: item 1 of 'templates' needs the key 'cue'"),
    ("saw {det}\"", "saw {det} {det}\", cue: det", "the slot {det} is in the prefix twice. Give its index from 0"),
    ("saw {det}\"", "saw {det}\", cue: seen", "line 12, column 45: 'cue' is a slot or a word of the prefix"),
    ("saw {det}\"", "saw {det}\", label: none", "line 12, column 5: without a label, no slot can take its form"),
    ("saw {det}\"", "saw {det}\", where: noun.knd = noun.kind", "a condition names a feature of 'noun'"),
    ("saw {det}\"", "saw {det}\", where: noun2.kind = noun.kind", "column 5: 'where' names slots .* not noun2"),
    ("sample: 12", "sample: 1", "line 13, column 5: 'sample' is at least 2 here"),
    ("saw {det} {adj}", "saw {det}", "line 13, column 5: a pair is made once .* from the template in line 12"),
    ("{singular: that, plural: those}", "{singular: these, plural: those}", "singular here and plural"),
    (GOOD, "- a", "toy.yaml: a template file is a mapping .* but this is not one"),
    ("adj: [big, old]", "adj: [big, old", "line 6, column 7: .* put texts with braces or colons in quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), SLIPS, ids=[f"{bad[:50]!r}" for _, bad, _ in SLIPS])
def test_slips_are_told_with_their_place(good, bad, said):
    assert good in GOOD
    text = GOOD.replace(good, bad, 1)
    pattern = re.escape(said).replace(r"\.\*", ".*")
    with pytest.raises(PivotalError, match=pattern) as caught:
        made(text)
    assert str(caught.value).startswith("toy.yaml") and "\n" not in str(caught.value)


def test_words_that_no_sentence_has_are_noted():
    assert not made(GOOD).notes
    lexicon = "noun: [{a: man, b: woman, k: x}, {a: king, b: queen, k: y}]\n  verb: [{w: died, k: x}, {w: fell, k: z}]"
    pairs = one(
        '{prefix: "The {noun} {verb.w}", words: [he, she], where: verb.k = noun.k}',
        f"{lexicon}\n  spare: [a]",
    )
    assert {pair.prefix for pair in pairs} == {"The man died", "The woman died"}
    said = "No sentence has king (line 3), fell (line 4), a (line 5): no template has a slot for them, or 'where'"
    assert len(pairs.notes) == 1 and pairs.notes[0].startswith(said)


def test_too_many_pairs_ask_for_a_sample():
    words = "[" + ", ".join(f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)) + "]"
    text = f"""labels: [a, b]
words: [he, she]
lexicon:
  noun: [{{a: man, b: woman}}, {{a: king, b: queen}}]
  x: {words}
  y: {words}
  z: {words}
templates:
  - prefix: "The {{noun}} {{x}} {{y}} {{z}}"
"""
    with pytest.raises(PivotalError, match=r"line 9, column 5: this template makes 108,000,000 pairs"):
        made(text)
    pairs = made(text + "    sample: 1200\n")
    assert len(pairs) == 1200
    for place in (2, 3, 4):  # every filler is equally frequent
        counts = Counter(pair.prefix.split()[place] for pair in pairs)
        assert len(counts) == 300 and max(counts.values()) - min(counts.values()) <= 2
    with pytest.raises(PivotalError, match=r"ways to fill the slots x1, x2, x3 together"):
        made(text.replace("{x} {y} {z}", "{x1} {x2} {x3}"))


def test_the_new_file_works_and_has_a_known_vocabulary(tmp_path):
    path = write_new(tmp_path / "mine")
    assert path == tmp_path / "mine.yaml"
    pairs = load_phenomenon(path)
    assert pairs.name == "mine" and len(pairs) > 100 and len(pairs.groups) == 2
    known = set(read_words(asset("models", "wiki-lstm", "vocab.txt")))
    assert {word for pair in pairs for word in (*pair.prefix.split(), *pair.words)} <= known


def test_a_copy_of_a_bundled_one_makes_the_same_pairs(tmp_path):
    path = write_new(tmp_path / "folder" / "mine.yml", like="reflexive-gender")
    assert path.name == "mine.yml" and load_phenomenon(path).name == "mine"
    assert load_phenomenon(path).pairs == load_phenomenon("reflexive-gender").pairs


@pytest.mark.parametrize(
    ("name", "like", "said"),
    [
        ("reflexive-gender", None, "not that of a bundled phenomenon, but it is 'reflexive-gender'"),
        ("two words", None, "letters, digits, .*'two words'"),
        ("mine", "reflexive-gendr", "not 'reflexive-gendr'. Did you mean 'reflexive-gender'?"),
        ("taken", None, "exists already, and nothing was written"),
    ],
)
def test_what_cannot_be_written_is_explained(tmp_path, name, like, said):
    (tmp_path / "taken.yaml").write_text("mine")
    with pytest.raises(PivotalError, match=said.replace("?", r"\?")):
        write_new(tmp_path / name, like)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.yaml"]
    assert (tmp_path / "taken.yaml").read_text() == "mine"
