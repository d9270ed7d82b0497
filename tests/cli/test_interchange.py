"""`--values interchange` through all verbs: the scores are those of the interchange, or the user is told otherwise."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Outcome
from tests.finished_run import FIND

from pivotal import RunFolder

PREFIX = {"prefix": "The noun0a", "cue": 1, "words": {"singular": "verb0as", "plural": "verb0a"}}


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interchange") / "run"
    done = Outcome((*FIND, "--values", "interchange", "--max-units", "3", "--out", str(path)))
    assert done.code == 0, done.err
    return path


def test_it_finds_the_planted_units_and_says_what_was_done(exchanged):
    summary = RunFolder(exchanged).summary()
    assert summary.values == "interchange" and summary.flip_accuracy == 1 and summary.units == 3
    assert summary.verdict.word == "switch" and not summary.verdict.failed
    assert summary.evidence.natural is None
    assert summary.evidence.interchange.flipped.value == 1
    page = (exchanged / "report.html").read_text()
    assert "exchanged at every step" in page and "On the same pairs the means flip" in page


def test_evaluate_and_certify_exchange_too(pivotal, exchanged, tmp_path):
    best = RunFolder(exchanged).summary().best_run
    scores = pivotal("evaluate", exchanged, "--json").json
    assert scores["flip_accuracy"] == 1 and scores["kl"] == best.kl
    assert scores["interchange"]["accuracy"]["value"] == 1 and scores["interchange"]["wrong"] is None
    # Without its run, an intervention still knows that it is an interchange.
    alone = tmp_path / "alone"
    (exchanged / "interventions" / "0").rename(alone)
    try:
        assert pivotal("evaluate", alone, "--json").out.startswith("{")
    finally:
        alone.rename(exchanged / "interventions" / "0")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(PREFIX))
    pivotal("evaluate", exchanged, rows).refused("no counterfactual prefix")
    done = pivotal("certify", exchanged, "--unit-pairs", "none")
    assert done.code == 0, done.err


def test_a_held_out_pair_is_traced_with_its_counterfactual_states(pivotal, exchanged):
    traces = RunFolder(exchanged).traces()
    outcome = traces.pairs[traces.traces[0].pair]
    found = pivotal("trace", exchanged, "--pair", outcome.pair, "--model", "planted", "--json").json
    first, second = (row[-1] for row in found["log_p"]["edited"])
    odds = (second - first) if outcome.direction == "plural" else (first - second)
    assert odds == pytest.approx(outcome.log_odds[1], abs=1e-3)
    own = "plural" if outcome.direction == "singular" else "singular"
    pivotal("trace", exchanged, "--pair", outcome.pair, "--direction", own).refused("already has the form")


@pytest.mark.parametrize(
    "arguments",
    [
        ("trace", "RUN", "The noun0a near verb0as"),
        ("generate", "RUN", "The noun0a near", "--direction", "plural"),
    ],
)
def test_text_without_a_counterfactual_prefix_gets_the_means(pivotal, exchanged, arguments):
    done = pivotal(*(exchanged if part == "RUN" else part for part in arguments))
    assert done.code == 0
    assert "so the units are set to the means of those states" in done.err
