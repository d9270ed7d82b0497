"""Figures show what they say, also of many units, many runs and gaps."""

import re
from math import nan

import pytest

from pivotal.records.evidence import UnitRange
from pivotal.records.run import Progress
from pivotal.records.serial import replace
from pivotal.records.summary import DropOne
from pivotal.report import drawing
from pivotal.report.drawing import CHOSEN, OTHERS, Figure, NotDrawn, draw, render
from pivotal.report.figures import curve_rows, drop_one, histogram, learning_curves, values
from pivotal.report.tables import table
from pivotal.report.templates import macros

POINTS = {
    "data": {"values": [{"a": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}


def test_of_many_units_those_that_matter_most_are_drawn(folder):
    summary = folder.summary()
    many = tuple(DropOne(f"hidden.0:{i}", 1 - i / 500, 0.1) for i in range(400))
    figure = drop_one(replace(summary, runs=tuple(replace(run, drop_one=many) for run in summary.runs)))
    assert figure is not None and len(figure.data.rows) == 400
    assert "The chart shows the 20 of 400 units that matter most." in figure.alternative
    assert "hidden.0:399" in figure.svg and "hidden.0:380" in figure.svg
    assert "hidden.0:379" not in figure.svg and len(figure.svg) < 50_000


@pytest.mark.parametrize("runs", [1, 3, 25])
def test_the_line_of_the_chosen_run_stands_out(runs):
    history = [
        Progress("learn", update, 3, [1.0] * runs, [2.0] * runs, [0.5] * runs, {"multiplier": [0.1] * runs})
        for update in (1, 2, 3)
    ]
    figure = learning_curves(history, chosen=runs - 1)
    assert figure is not None and "role-legend" not in figure.svg
    assert (f"a line for each of {runs} runs; run {runs - 1} stands out" in figure.alternative) == (runs > 1)
    panels = 4  # loss, units, multiplier, flips
    assert figure.svg.count(f'stroke="{CHOSEN}"') == panels
    assert figure.svg.count(f'stroke="{OTHERS}"') == panels * (runs - 1)
    assert figure.data.rows[-1] == ("3", "1.000", "2.0", "0.100", "50.0%") and len(figure.data.rows) == 3


def test_curves_show_the_learning_alone_and_bear_gaps():
    def row(phase: str, update: int, loss: list[float]) -> Progress:
        return Progress(phase, update, 9, loss, [3.0, 4.0], [])

    rows = curve_rows([row("learn", 1, [1.0, nan]), row("learn", 5, [0.5, 0.6]), row("refit", 2, [0.1, 0.2])])
    assert [(r["update"], r["run"]) for r in rows] == [(1, "0"), (1, "1"), (5, "0"), (5, "1")]
    assert rows[1]["loss"] is None and rows[0]["accuracy"] is None and rows[0]["multiplier"] is None
    long = curve_rows([row("learn", update, [1.0]) for update in range(1, 1001)], most=300)
    assert long[-1]["update"] == 1000 and len(long) < 1000


def test_values_are_drawn_over_the_natural_ranges(folder):
    summary = folder.summary()
    figure = values(summary)
    assert ">singular<" in figure.svg and ">plural<" in figure.svg
    assert figure.svg.count(", natural range ") == len(summary.best_run.unit_labels) == 3
    assert "of 3 units stay inside. Faint dots" in figure.alternative
    assert "natural range" not in values(replace(summary, evidence=None)).svg


def test_a_value_at_the_edge_of_its_range_stays_inside():
    edge = UnitRange(unit="h:1", low=-0.004067001398652792, high=0.5, values={"a": -0.0040670037269592285})
    assert edge.inside and not replace(edge, values={"a": -0.005}).inside


def test_the_histogram_has_a_bar_for_each_bin_and_a_line_for_each_value(folder):
    profiles = folder.unit_profiles()
    profile = profiles.profiles[0]
    figure = histogram(profile, "unit")
    filled = sum(count > 0 for counts in profile.natural.counts.values() for count in counts)
    assert figure.svg.count("<title>from ") == filled
    assert len(re.findall(r"Set to [+−]\d", figure.svg)) == 2
    assert len(figure.data.rows) == 40
    alone = histogram(replace(profile, values={"singular": 1.0, "plural": None}), "unit")
    assert alone.alternative.endswith("set to: +1.00 for singular.")


def test_a_chart_that_cannot_be_drawn_costs_the_chart_only(monkeypatch):
    """A low limit of the address space would end the process, so that nothing is drawn under one."""
    assert draw(POINTS).startswith("<svg")
    with pytest.raises(NotDrawn, match="cannot be drawn"):
        render("svg", {"mark": 3})
    monkeypatch.setattr(drawing, "address_space", lambda: 9 << 30)
    with pytest.raises(NotDrawn, match=r"more address space.*ulimit -v"):
        render("svg", POINTS)
    shown = macros().figure(Figure("name", "Title", "Points.", draw(POINTS), table("", ("a",), [("17",)])))
    assert "could not be drawn" in shown and "<svg" not in shown and "17" in shown
