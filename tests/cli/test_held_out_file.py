"""`--test FILE`: held-out pairs from a file of their own, taken as they are, in every verb that knows the run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import pivotal as library
from pivotal import Question
from pivotal.questions import PairSet
from pivotal.questions.phenomena.planted import PlantedAgreement
from pivotal.searches import Attribution

QUICK = ("--search", "attribution", "-o", "refit=20", "--max-units", "3", "--controls", "0", "-q")
PAIRS = PlantedAgreement().pairs()
HELD_OUT = PAIRS[::5]
TRAIN = replace(PAIRS, pairs=tuple(pair for pair in PAIRS if pair not in set(HELD_OUT)))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TRAIN.save("train.jsonl")
    HELD_OUT.save("held.jsonl")
    return tmp_path


def test_the_pairs_of_the_file_are_held_out_in_every_verb(pivotal, files):
    asked = ("find", "planted", "train.jsonl", "--test", "held.jsonl", *QUICK)
    done = pivotal(*asked, "--out", "run", "--evidence", "none")
    assert done.code == 0, done.err
    run = library.RunFolder("run")
    assert (run.summary().pairs.train, run.summary().pairs.test) == (len(TRAIN), len(HELD_OUT))
    assert run.settings["test"] == "held.jsonl" and run.settings["data_fingerprint"] == TRAIN.fingerprint()
    traces = run.traces()
    assert traces is not None and {one.prefix for one in traces.pairs} <= {p.prefix for p in HELD_OUT}
    assert "held-out pairs, from held.jsonl" in pivotal("show", "run").out
    assert "held out (from held.jsonl)" in run.report.read_text()
    for part, count in (("test", len(HELD_OUT)), ("train", len(TRAIN)), ("all", len(PAIRS))):
        scored = pivotal("evaluate", "run", "--part", part, "--json").json
        assert scored["pairs"]["asked"] == count
    assert pivotal("evaluate", "run/interventions/0", "train.jsonl", "--json").code == 0
    assert "already finished" in pivotal(*asked, "--out", "run", "--evidence", "none").err
    PAIRS[1::5].save("held.jsonl")
    pivotal(*asked, "--out", "run").refused("holds another run: the held-out pairs have changed")
    pivotal("evaluate", "run").refused("the held-out pairs have changed")


def test_pairs_that_training_has_are_said(pivotal, files):
    replace(HELD_OUT, pairs=(*HELD_OUT, *TRAIN[:7])).save("held.jsonl")
    prefixes = {pair.prefix for pair in TRAIN}
    shared = sum(pair.prefix in prefixes for pair in (*HELD_OUT, *TRAIN[:7]))
    asked = ("planted", "train.jsonl", "--test", "held.jsonl")
    assert f"Warning: {shared} of the " in pivotal("check", *asked).out
    done = pivotal("find", *asked, *QUICK[:-1], "--evidence", "none", "--out", "run")
    told = f"{shared} of the {len(HELD_OUT) + 7} held-out pairs of held.jsonl have the prefix of a"
    assert told in done.err
    assert library.RunFolder("run").summary().pairs.test == len(HELD_OUT) + 7, "taken as they are"
    checked = pivotal("check", *asked, "--json").json
    assert checked["test"] == len(HELD_OUT) + 7 and checked["train"] == len(TRAIN)
    assert checked["split"] == "file" and checked["overlap"]["prefix"] == pytest.approx(
        shared / (len(HELD_OUT) + 7)
    )


def test_what_is_refused(pivotal, files):
    other = PairSet("other", ("he", "she"), tuple(replace(pair, label="") for pair in HELD_OUT))
    other.save("other.jsonl")
    asked = ("planted", "train.jsonl", "--test")
    for verb in ("check", "find"):
        pivotal(verb, *asked, "other.jsonl").refused(
            "he and she, must be those of the other pairs, singular and plural", "Name them alike"
        )
        pivotal(verb, *asked, "nothing.jsonl").refused("The held-out pairs cannot be used.", "nothing.jsonl")
        pivotal(verb, *asked, "held.jsonl", "--split", "words").refused(
            "test names the held-out pairs, held.jsonl", "Leave one of them out"
        )
        pivotal(verb, *asked, "1.5").refused("a number of pairs, a fraction below 1 or a file")


def test_labels_in_the_other_order_are_the_same_labels(files):
    turned = [replace(p, words=p.words[::-1], counterfactuals=p.counterfactuals[::-1]) for p in HELD_OUT]
    PairSet("turned", ("plural", "singular"), tuple(turned)).save("turned.jsonl")
    train, test = (q := Question("planted", "train.jsonl", test="turned.jsonl")).divide(q.load_pairs())
    assert test.pairs == HELD_OUT.pairs and train.pairs == TRAIN.pairs


@pytest.mark.parametrize("form", ["set", "rows", "path"])
def test_held_out_pairs_from_python(form, files):
    rows = [json.loads(line) for line in Path("held.jsonl").read_text().splitlines()]
    test = {"set": HELD_OUT, "rows": rows, "path": Path("held.jsonl")}[form]
    search = Attribution(max_units=3, refit=20)
    finding = library.find(
        "planted", TRAIN, test=test, search=search, controls=0, evidence="none", progress=False
    )
    assert finding.summary.pairs.test == len(HELD_OUT) and finding.summary.pairs.train == len(TRAIN)
