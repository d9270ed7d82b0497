"""The bench of the verdict: questions of known truth, through its own functions."""

from types import ModuleType

import pytest
from tests.paths import loaded


@pytest.fixture
def rates() -> ModuleType:
    return loaded("verdict_rates", "scripts")


@pytest.fixture
def bench() -> ModuleType:
    return loaded("calibration", "benchmarks")


def test_a_search_that_may_not_choose_the_planted_units_finds_nothing(bench):
    row = bench.row_of("planted, withheld", 0)
    assert row["searched"] and row["verdict"] == "no evidence"
    assert not set(row["found"]) & set(bench.planted(0).units)


@pytest.mark.slow
def test_questions_of_known_truth_get_the_right_verdict(bench, rates):
    """A planted model, an LSTM that was trained to carry number in one unit, and one that does not know it."""
    rows = [bench.row_of(kind, 0) for kind in ("planted", "lstm, carried", "lstm, unknown")]
    assert [rates.right(row) for row in rows] == [True, True, True]
    assert [row.get("recovered") for row in rows] == [True, True, None]
    assert rows[1]["learned"] > 0.99, "the given unit must carry the answer"
    assert "the model knows it" in rows[2]["failed"] and not rows[2]["searched"]


def test_a_verdict_is_right_if_it_says_what_is_true(rates):
    rows = [
        {"kind": "planted", "half": 0, "truth": "units", "verdict": "decide", "recovered": True},
        {"kind": "planted", "half": 1, "truth": "units", "verdict": "nudge", "recovered": False},
        {"kind": "permuted", "half": 1, "truth": "nothing", "verdict": "switch"},
    ]
    rows = [{**row, "searched": True} for row in rows]
    assert [rates.right(row) for row in rows] == [True, False, False]
    assert "| planted | units | 2 | 2 | decide 1, nudge 1 | 1 |" in rates.by_kind(rows)
    assert "| 1 of 1: 100.0%" in rates.rates(rows)
