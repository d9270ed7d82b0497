"""A question of two lists of prompts on the command line: what its result claims, and what is refused."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Outcome

from pivotal import load_phenomenon

FIND = ("find", "planted", "--controls", "19", "--test", "0.4", "--overwrite")


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, pairs = tmp_path_factory.mktemp("lists"), load_phenomenon("planted")
    for side, label in enumerate(pairs.labels):
        texts = sorted({pair.counterfactuals[side] for pair in pairs} - {""})[:60]
        (folder / f"{label}.txt").write_text("\n".join(texts) + "\n")
    return f"prompts:{folder}/{pairs.labels[0]}.txt,{folder}/{pairs.labels[1]}.txt"


@pytest.fixture(scope="module")
def run(lists: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("runs") / "run"
    done = Outcome((*FIND, lists, "--search", "exchange", "--out", str(out)))
    assert done.code == 0, done.err
    return out, done.out


def test_the_result_claims_no_flips_of_words_that_nobody_asked_about(run):
    folder, said = run
    summary = json.loads((folder / "summary.json").read_text())
    best = summary["runs"][summary["best"]]
    closed, verdict = best["fidelity"], summary["verdict"]
    headline = next(line for line in said.splitlines() if "singular-or-plural in planted" in line)
    assert "of the gap to the predictions after the partners of" in headline
    assert f"{100 * closed['asked']['value']:.1f}"[:3] in headline
    assert "preference" not in headline + verdict["sentence"] and "flip" not in headline + verdict["sentence"]
    assert closed["asked"]["value"] > 0.5 > closed["floor"][0]
    checks = {check["name"]: check for check in verdict["checks"]}
    assert verdict["word"] in ("nudge", "switch")  # with necessity not checked, no stronger word
    assert checks["fidelity"]["passed"] and checks["the lists differ"]["passed"] and checks["flips"]["passed"]
    assert checks["necessity"].get("passed") is None
    assert not {"the model knows it", "likely words"} & set(checks)
    assert summary["clean_accuracy"] is None and summary["evidence"].get("swap") is None


def test_the_page_says_that_no_words_are_asked(run):
    page = (run[0] / "report.html").read_text()
    assert "This question has no words: the list of the prompt is struck out" in page
    for words in ("of the target word", "Log-odds of “", "right when untouched", "among the two"):
        assert words not in page
    assert "--pair NUMBER --words WORD,WORD</code> shows the trace of any sentence" in page


def test_other_verbs_read_the_run(pivotal, run):
    folder, _ = run
    for verb in (("show",), ("evaluate",), ("evaluate", "--json")):
        done = pivotal(verb[0], folder, *verb[1:])
        assert done.code == 0 and "preferences of" not in done.out + done.err
    pair = ("trace", folder, "--pair", "0")
    pivotal(*pair).refused("Name them with --words")
    assert pivotal(*pair, "--words", "verb0as,verb0a", "--json").json["direction"] in ("singular", "plural")
    typed = "asks no words. Name two to compare with --words"
    pivotal("trace", folder, "The noun0a quite").refused(typed)


@pytest.mark.parametrize("steps", ["every", "single"])
def test_the_live_page_compares_the_words_that_the_units_make_likely(pivotal, steps, run, lists, tmp_path):
    pytest.importorskip("starlette")
    from pivotal.serve.answers import predict
    from pivotal.serve.requests import SentenceRequest, UnitValues
    from pivotal.serve.runs import LiveRuns

    folder = run[0]
    if steps == "single":
        folder = tmp_path / "single"
        quick = ("--controls", "0", "--evidence", "none", "--test", "0.4")
        pivotal("find", "planted", lists, *quick, "--steps", steps, "--out", folder)
    runs = LiveRuns([str(folder)], "runs", "cpu")
    opened = runs.opened(0)
    units = [UnitValues(about.unit, about.values) for about in opened["units"]]
    asked = SentenceRequest(run=0, sentence=opened["pairs"][0]["prefix"], units=units)
    seen = predict(runs.live(0, None), asked)
    assert len(set(seen["words"])) == 2 and seen["flipped"]


def test_check_tells_how_much_the_lists_differ(pivotal, lists):
    done = pivotal("check", "planted", lists)
    assert done.code == 0, done.err
    said = "This question has no words. Between 120 prompts and their partners"
    assert said in " ".join(done.out.split()) and "By label" not in done.out and "asked" not in done.out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "asks two words, but"),
        (["--keep", "planted"], "--objective counterfactual need a counterfactual prefix"),
    ],
)
def test_what_must_stay_asks_words(pivotal, lists, more, said, tmp_path):
    """Lists of prompts cannot be kept, and with the counterfactual objective nothing can."""
    asked = [lists, *more] if more else ["planted", "--keep", lists]
    pivotal(*FIND, *asked, "--out", tmp_path / "run").refused(said)
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("second", "more", "said"),
    [
        ("", "", "that of “second” is empty"),
        ("a b\nc d\n", "", "they are equal"),
        ("e f\n", ",paired", "“first” has 2 and “second” 1"),
    ],
)
def test_lists_that_cannot_be_asked_are_refused_before_a_search(pivotal, tmp_path, second, more, said):
    (tmp_path / "first.txt").write_text("a b\nc d\n")
    (tmp_path / "second.txt").write_text(second)
    asked = f"prompts:{tmp_path}/first.txt,{tmp_path}/second.txt{more}"
    pivotal(*FIND, asked, "--out", tmp_path / "run").refused(said)
    assert not (tmp_path / "run").exists()
