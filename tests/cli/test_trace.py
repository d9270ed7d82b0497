"""`pivotal trace`: sentences and held-out pairs, on the terminal and in files, with the model and without."""

import json
import shutil
from math import exp
from pathlib import Path

import pytest
from tests.figures import real_figures
from tests.paths import code_of
from tests.stored_json import changed

from pivotal import RunFolder
from pivotal.records.traces import Traces


@pytest.fixture(scope="module")
def kept(run_folder: Path) -> Traces:
    traces = RunFolder(run_folder).traces()
    return traces


def test_a_sentence_of_one_s_own(pivotal, run_folder):
    done = pivotal("trace", run_folder, "The noun0a near verb0as")
    assert done.code == 0, done.err
    assert "set at every word for plural" in done.out
    assert "The preference flips from “verb0as” to “verb0a”." in done.out
    words = done.out.split()
    assert words.count("The*") == words.count("[noun0a]*") == words.count("near*") == 1
    assert "untouched" in words and "KL" in words and "hidden.0" in words


def test_the_numbers_are_those_of_generate(pivotal, run_folder):
    """Another way into the model: the probabilities of the next word, side by side."""
    trace = pivotal("trace", run_folder, "The noun0a near verb0as", "--json").json
    said = pivotal(
        *("generate", run_folder, "The noun0a near", "--direction", "plural", "--top", "99", "--json")
    )
    made = said.json
    sides = {"untouched": made["untouched"], **made["directions"]}
    for side, name in (("untouched", "untouched"), ("edited", "plural")):
        p = dict(sides[name]["next_words"])
        for word, log_p in zip(trace["words"], trace["log_p"][side], strict=True):
            assert exp(log_p[-1]) == pytest.approx(p[word], rel=1e-3)


def test_a_held_out_pair_has_the_trace_that_find_stored(pivotal, run_folder, kept):
    stored = kept.traces[0]
    anew = pivotal("trace", run_folder, "--pair", stored.pair, "--json").json
    assert anew == stored.as_dict() and anew["prefix"] == kept.pairs[stored.pair].prefix


def test_a_single_step_is_set_at_its_cue(pivotal, single_folder):
    sentence = ("trace", single_folder, "The noun0a near verb0as")
    found = pivotal(*sentence, "--json").json
    assert found["cue"] == 1 and found["edited"] == [0, 1, 0]
    assert found["kl"][0] == 0 < found["kl"][1]
    later = pivotal(*sentence, "--cue", "near", "--json").json
    assert later["cue"] == 2 and later["edited"] == [0, 0, 1]


def test_an_intervention_by_itself(pivotal, run_folder, alone):
    assert pivotal("trace", alone, "The noun0a verb0as", "--model", "planted").code == 0
    pivotal("trace", alone, "--pair", "0").refused("without its run", "sentence of your own")
    other = ("trace", alone, "The noun0a verb0as", "--model", "planted:1", "--any-model")
    assert pivotal(*other).code == 0
    of_run = pivotal("trace", run_folder / "interventions" / "0", "The noun0a verb0as")
    assert of_run.out == pivotal("trace", run_folder, "The noun0a verb0as", "--run", "0").out


def test_an_intervention_by_itself_takes_no_words_of_other_pairs(pivotal, alone):
    """The card names a question that has other pairs here than where the units were found."""
    changed(alone / "card.json", question_fingerprint="another")
    sentence = ("trace", alone, "The noun0a verb0as")
    pivotal(*sentence).refused("needs the pairs that it was found on (another)", "Give --words and --cue")
    assert pivotal(*sentence, "--words", "verb0as,verb0a", "--cue", "1").code == 0


def test_a_figure_and_the_numbers_are_files(pivotal, run_folder, kept, tmp_path):
    """tests/report/test_trace_picture.py writes every kind of file."""
    stored = kept.traces[0]
    with real_figures():
        for kind in ("svg", "json"):
            path = tmp_path / f"trace.{kind}"
            done = pivotal("trace", run_folder, "--pair", stored.pair, "--out", path)
            assert f"Written to {path}" in done.out
    assert json.loads((tmp_path / "trace.json").read_text())["frame"]["units"] == list(kept.frame.units)
    text = (tmp_path / "trace.svg").read_text()
    assert "Heat maps of 3 units" in text and all(token in text for token in stored.tokens)


def test_python_of_the_page(run_folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(run_folder, tmp_path / "runs" / "demo")
    monkeypatch.chdir(tmp_path)
    (block,) = code_of("read-a-trace")
    exec(block, {})
    assert capsys.readouterr().out.startswith("0 of 303 were not flipped\n(-")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["a sentence", "--pair 0"]),
        (["The noun0a verb0as", "--pair", "1"], ["Give either a sentence"]),
        (["--pair", "999"], ["0 to 302", "not pair 999"]),
        (["The noun0a verb0a", "--direction", "plurl"], ["Did you mean 'plural'?"]),
        (["The noun0a verb0as", "--out", "trace.gif"], [".svg, .png, .pdf, .html, .json", "trace.gif"]),
        (["The noun0a verb0as", "--model", "planted:1"], ["--any-model"]),
    ],
)
def test_bad_input(pivotal, run_folder, arguments, parts):
    pivotal("trace", run_folder, *arguments).refused(*parts)
