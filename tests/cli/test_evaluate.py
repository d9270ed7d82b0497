"""`pivotal evaluate`: the same numbers again, other pairs, other models."""

import json
import shutil
from pathlib import Path

import pytest
from tests.stored_json import changed, with_settings

from pivotal import PivotalError, load_phenomenon
from pivotal.cli.evaluate import EvaluateOptions, check_options

FEW = ("--updates", "5", "-o", "refit=0", "--controls", "0", "--evidence", "none", "-q")
"""For runs whose pairs matter, and not what they find."""


def test_the_runs_own_held_out_pairs_give_its_own_scores(pivotal, run_folder):
    summary = json.loads((run_folder / "summary.json").read_text())
    best = summary["runs"][summary["best"]]
    scores = pivotal("evaluate", run_folder, "--json").json
    assert {key: scores[key] for key in scores if key in best} == {
        key: best[key] for key in scores if key in best
    }
    assert scores["pairs"] == {"which": "test", "asked": 303}


def test_another_pairs_file(pivotal, run_folder, tmp_path):
    rows = [
        {"prefix": f"The noun0{n}", "cue": 1, "words": {"singular": f"verb0{v}s", "plural": f"verb0{v}"}}
        for n in "ab"
        for v in ("a", "b", "zz")
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    done = pivotal("evaluate", run_folder, path)
    assert "of 4 preferences of mine" in done.out
    assert "2 pairs could not be used with this model: outside the vocabulary: verb0zzs (2)" in done.out


def test_pairs_with_other_labels(pivotal, run_folder, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prefix": "The noun0a", "cue": 1, "words": {"he": "verb0as", "she": "verb0a"}}')
    done = pivotal("evaluate", run_folder, path)
    assert "With other labels, accuracy is shown" in done.out and "--labels X=singular" in done.out
    mapped = pivotal("evaluate", run_folder, path, "--labels", "he=singular,she=plural")
    assert "100% of 1 preferences of mine flipped" in mapped.out
    pivotal("evaluate", run_folder, path, "--labels", "it=plural").refused(
        "labels of mine are he and she", "'it'"
    )
    pivotal("evaluate", run_folder, path, "--labels", "he").refused("as in he=male,she=female")


def test_pairs_with_prefixes_of_the_training_pairs_are_not_called_new(pivotal, run_folder):
    """The run held out 303 of 1,512 pairs by their prefixes."""
    scores = pivotal("evaluate", run_folder, "planted", "--json").json
    assert scores["pairs"] == {"which": "all", "asked": 1512, "prefix_in_training": 1209}
    said = "Prefixes of the run's training pairs occur in 1,209 of these 1,512 pairs"
    assert said in pivotal("evaluate", run_folder, "planted").out


def test_training_pairs_that_are_not_known_are_mentioned(pivotal, alone, strange):
    done = pivotal("evaluate", alone, strange, "--json")
    assert "prefix_in_training" not in done.json["pairs"]
    assert "not known how many" in done.err and "without its run" in done.err


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """Two pairs. The planted model does not know a word in the prefix of the first."""
    words = {"singular": "verb0as", "plural": "verb0a"}
    rows = [{"prefix": f"{the} noun0a", "cue": 1, "words": words} for the in ("Zebra", "The")]
    path = tmp_path / "strange.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def unk_folder(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """The run with the setting --unknown unk, which changes nothing for its own pairs."""
    own_run = shutil.copytree(run_folder, tmp_path_factory.mktemp("unk") / "run")
    return with_settings(own_run, unknown="unk")


def test_another_question_is_read_as_the_user_says_or_else_as_in_the_run(
    pivotal, run_folder, unk_folder, strange
):
    def asked(folder: Path, *options: str) -> int:
        return int(pivotal("evaluate", folder, strange, *options, "--json").json["pairs"]["asked"])

    assert asked(run_folder) == 1 and asked(run_folder, "--unknown", "unk") == 2
    assert asked(unk_folder) == 2 and asked(unk_folder, "--unknown", "skip") == 1


AGREEMENT = "regular_plural_subject_verb_agreement_1"
"""A paradigm of which the reader of BLiMP knows the labels."""


@pytest.fixture
def blimp(tmp_path: Path) -> str:
    """A folder of paradigms in the words of the planted model."""
    folder = tmp_path / "blimp"
    folder.mkdir()
    number = [
        {"sentence_good": f"The noun0{n}{s} verb0{v}{t}", "sentence_bad": f"The noun0{n}{s} verb0{v}{u}"}
        for n in "abcd"
        for v in "abc"
        for s, t, u in (("", "s", ""), ("s", "", "s"))
    ]
    other = [
        {"sentence_good": f"The noun0{n} verb0as", "sentence_bad": f"The noun0{n} verb1as"} for n in "abcd"
    ]
    none = [{**number[0], "one_prefix_method": False}]
    strange = [{"sentence_good": "The zebra sleeps", "sentence_bad": "The zebra sleep"}]
    for name, rows in ((AGREEMENT, number), ("order", other), ("whole", none), ("zebra", strange)):
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps({"UID": name, **row}) for row in rows))
    return f"blimp:{folder}"


def test_a_folder_gives_a_table_over_all_questions(pivotal, run_folder, blimp):
    done = pivotal("evaluate", run_folder, blimp)
    assert done.code == 0 and "on 2 other questions" in done.out
    assert "whole: it compares whole sentences" in done.out and "cannot score the only pair" in done.out
    found = pivotal("evaluate", run_folder, blimp, "--json").json
    rows = {row["question"]: row for row in found["rows"]}
    assert rows[AGREEMENT]["effect"]["related"] and rows[AGREEMENT]["effect"]["flipped"]["value"] == 1
    assert rows["order"]["effect"]["related"], "it asks a word of the run"
    assert rows["order"]["effect"]["flipped"] is None
    assert rows["whole"]["effect"] is None and "sentences" in rows["whole"]["reason"]
    one = pivotal("evaluate", run_folder, f"{blimp}/{AGREEMENT}.jsonl", "--json").json
    assert one["flip_accuracy"] == 1 and (one["pairs"]["which"], one["pairs"]["asked"]) == ("all", 24)
    pivotal("evaluate", run_folder, f"{blimp}/whole.jsonl").refused(
        "whole.jsonl: it compares whole sentences"
    )
    pivotal("evaluate", run_folder, f"{blimp}/zebra.jsonl").refused("cannot score", "zebra")


def test_another_model_is_refused_unless_told(pivotal, run_folder):
    pivotal("evaluate", run_folder, "--model", "planted:1").refused("belongs to the model", "--any-model")
    done = pivotal("evaluate", run_folder, "--model", "planted:1", "--any-model", "--json")
    assert done.json["flip_accuracy"] < 1


def test_an_intervention_by_itself_is_not_scored_on_another_question_of_the_same_name(pivotal, tmp_path):
    """The card holds the stem of planted.jsonl, which is also the name of a bundled phenomenon."""
    mine, alone = tmp_path / "planted.jsonl", tmp_path / "units"
    load_phenomenon("planted").sample(60).save(mine)
    assert pivotal("find", "planted", mine, *FEW, "--out", tmp_path / "run").code == 0
    shutil.copytree(tmp_path / "run" / "interventions" / "0", alone)
    pivotal("evaluate", alone).refused("needs the pairs that it was found on", f"evaluate {alone} QUESTION")
    pivotal("certify", alone).refused("needs the pairs that it was found on", "in its run folder")
    assert pivotal("evaluate", alone, mine, "--json").json["pairs"]["asked"] == 60
    named = pivotal("evaluate", alone, "planted", "--json")
    assert named.json["pairs"]["asked"] == 1512
    pivotal("evaluate", alone, "--part", "test").refused("its held-out pairs are not known")
    pivotal("evaluate", alone, "--run", "1").refused("is one intervention")


def test_all_pairs_can_be_scored_though_they_have_changed(pivotal, own_run):
    with_settings(own_run, data_fingerprint="another")
    pivotal("evaluate", own_run).refused("the pairs have changed", "--part all")
    assert pivotal("evaluate", own_run, "--part", "all", "--json").json["pairs"]["which"] == "all"


@pytest.mark.slow
def test_priming_is_kept_with_another_place_and_can_be_given(pivotal, tmp_path):
    find = ("find", "planted", "planted", "--updates", "5", "-o", "refit=0", "--test", "303", "-q")
    assert pivotal(*find, "--priming", "<eos> <eos>", "--out", tmp_path / "run").code == 0
    assert pivotal("evaluate", tmp_path / "run", "--model", "planted:0").code == 0
    shutil.copytree(tmp_path / "run" / "interventions" / "0", tmp_path / "units")
    pivotal("evaluate", tmp_path / "units").refused("another priming text", "--priming")
    assert pivotal("evaluate", tmp_path / "units", "--priming", "<eos> <eos>").code == 0
    prompt = (tmp_path / "units", "The noun0a", "--direction", "plural")
    pivotal("generate", *prompt).refused("another priming text", "--priming")
    assert pivotal("generate", *prompt, "--priming", "<eos> <eos>").code == 0


@pytest.mark.parametrize(
    "verb",
    [
        *(("evaluate",), ("certify",), ("trace", "The noun0a verb0as")),
        ("generate", "a0", "--direction", "singular"),
    ],
)
def test_a_card_cannot_make_the_command_download_a_model(pivotal, alone, verb):
    changed(alone / "card.json", model="hf:nobody/nothing")
    line = (verb[0], alone, *verb[1:])
    pivotal(*line).refused("is not on this machine", "--model hf:nobody/nothing")
    if verb[0] != "certify":
        changed(alone / "card.json", model="MyModel")
        pivotal(*line).refused("If the model of the run was in memory", "--model")


@pytest.mark.slow
def test_a_panel_of_everything_else(pivotal, run_folder, tmp_path):
    """The planted model knows the words of no bundled phenomenon, but those of a text in its own words."""
    mine = tmp_path / "mine.txt"
    mine.write_text("The noun0a near verb0as\nThe noun1bs often quite verb1b\n")
    done = pivotal("evaluate", run_folder, "--panel", "--sentences", mine, "--json").json
    assert done["effects"] == [] and done["phenomenon"] == "planted"
    assert done["text"]["tokens"] == 7 and set(done["text"]["edited"]) == {"singular", "plural"}
    said = pivotal("evaluate", run_folder, "--panel", "--sentences", mine).out
    assert f"The perplexity of ordinary text ({mine}, 7 predicted tokens) is" in said
    assert "planted can score no other bundled phenomenon." in said
    mine.write_text("A text in other words\n")
    said = pivotal("evaluate", run_folder, "--panel", "--sentences", mine).out
    assert f"{mine}: planted does not know most of its words." in said


@pytest.mark.parametrize(
    ("other", "options", "reading", "said"),
    [
        (None, {"labels": "a=b"}, ["lower"], "--lower is for another QUESTION"),
        ("mine", {"part": "test"}, [], "Leave 'mine' or --part out"),
        (None, {"sentences": "mine.txt"}, [], "Add --panel"),
        ("mine", {"panel": True, "part": "all"}, [], "Leave QUESTION and --part out"),
    ],
)
def test_options_that_contradict_each_other(other, options, reading, said):
    check_options(None, EvaluateOptions(), {})
    with pytest.raises(PivotalError, match=said):
        check_options(other, EvaluateOptions(**options), dict.fromkeys(reading, True))
