"""A question of two lists of prompts on the command line: what its result claims, and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pivotal import load_phenomenon
from pivotal.cli.main import app

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
    done = CliRunner().invoke(app, [*FIND, lists, "--search", "exchange", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out, done.output


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


def test_other_verbs_read_the_run(run):
    folder, _ = run
    for verb in (["show", str(folder)], ["evaluate", str(folder)], ["evaluate", str(folder), "--json"]):
        done = CliRunner().invoke(app, verb)
        assert done.exit_code == 0 and "preferences of" not in done.output, done.output
    pair = ["trace", str(folder), "--pair", "0"]
    refused = CliRunner().invoke(app, pair)
    assert refused.exit_code == 2 and "Name them with --words" in " ".join(refused.output.split())
    traced = CliRunner().invoke(app, [*pair, "--words", "verb0as,verb0a", "--json"])
    assert json.loads(traced.stdout)["direction"] in ("singular", "plural")
    typed = CliRunner().invoke(app, ["trace", str(folder), "The noun0a quite"])
    assert (
        typed.exit_code == 2
        and "asks no words, but two are compared here. Name them with --words"
        in " ".join(typed.output.split())
    )


@pytest.mark.parametrize("steps", ["every", "single"])
def test_the_live_page_compares_the_words_that_the_units_make_likely(steps, run, lists, tmp_path):
    pytest.importorskip("starlette")
    from pivotal.serve.answers import predict
    from pivotal.serve.requests import SentenceRequest, UnitValues
    from pivotal.serve.runs import LiveRuns

    folder = run[0]
    if steps == "single":
        folder = tmp_path / "single"
        quick = ["find", "planted", lists, "--controls", "0", "--evidence", "none", "--test", "0.4"]
        CliRunner().invoke(app, [*quick, "--steps", steps, "--out", str(folder)])
    runs = LiveRuns([str(folder)], "runs", "cpu")
    opened = runs.opened(0)
    units = [UnitValues(about.unit, about.values) for about in opened["units"]]
    asked = SentenceRequest(run=0, sentence=opened["pairs"][0]["prefix"], units=units)
    seen = predict(runs.live(0, None), asked)
    assert len(set(seen["words"])) == 2 and seen["flipped"]


def test_check_tells_how_much_the_lists_differ(lists):
    done = CliRunner().invoke(app, ["check", "planted", lists])
    assert done.exit_code == 0, done.output
    assert "This question has no words. Between 120 prompts and their partners" in " ".join(
        done.output.split()
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "asks two words, but"),
        (["--keep", "planted"], "--objective counterfactual need a counterfactual prefix"),
    ],
)
def test_what_must_stay_asks_words(lists, more, said, tmp_path):
    """Lists of prompts cannot be kept, and with the counterfactual objective nothing can."""
    asked = [lists, *more] if more else ["planted", "--keep", lists]
    done = CliRunner().invoke(app, [*FIND, *asked, "--out", str(tmp_path / "run")])
    assert done.exit_code == 2 and said in " ".join(done.output.replace("│", " ").split()), done.output
    assert not (tmp_path / "run" / "summary.json").exists()
