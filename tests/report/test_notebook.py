"""What objects say of themselves: a line of text, HTML that a parser accepts, charts with the numbers in them."""

import re
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processes import code

import pivotal
from pivotal import PivotalError, RunFolder, certify
from pivotal.records.certificate import Certificate, Effort
from pivotal.report.notebook import run_html
from pivotal.units import Site, pattern_of, select_sites

SEARCH = pivotal.searches.LearnedMask(max_units=3, updates=40, refit=8)


@pytest.fixture(scope="module")
def problem() -> pivotal.Problem:
    pairs = pivotal.load_phenomenon("planted").sample(300, seed=0)
    return pivotal.Problem(pivotal.load_model("planted"), pairs)


@pytest.fixture(scope="module")
def found(problem: pivotal.Problem) -> pivotal.searches.Discovery:
    return SEARCH.solve(problem, runs=2, seed=0)


@pytest.fixture(scope="module")
def scores(problem: pivotal.Problem, found: pivotal.searches.Discovery) -> pivotal.Evaluation:
    return pivotal.evaluate(found.best, problem)


@pytest.fixture(scope="module")
def certificate(problem: pivotal.Problem, found: pivotal.searches.Discovery) -> Certificate:
    effort = Effort(candidates=2, audit=1, sample=16, pairs="none", polish=2, finalists=2)
    return certify(found.best, problem, effort=effort)


def page(shown: Any) -> SimpleNamespace:
    """The text of an object's HTML, and the cells of its tables."""
    html = shown._repr_html_()
    cells = re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", html, re.DOTALL)
    plain = [unescape(re.sub(r"<[^>]+>", "", part)).strip() for part in (html, *cells)]
    return SimpleNamespace(text=plain[0], cells=plain[1:])


# -- a line of text -----------------------------------------------------------------------------------------


def test_lines(problem, found, scores):
    units = ", ".join(map(str, found.best.units))
    intervention = f"Intervention(planted in planted, every step, {len(found.best)} units: {units})"
    assert repr(problem.model) == "RecurrentLM(planted, 64 units in hidden.0)"
    assert repr(problem.pairs) == "PairSet(300 pairs of planted, singular or plural, 3 groups)"
    assert repr(problem) == "Problem(300 pairs of planted in planted, every step, 64 units in hidden.0)"
    assert repr(found.best) == intervention
    assert repr(found) == f"Discovery(2 runs, the best is run {found.best_run}: {intervention})"
    flipped = f"{scores.flip_accuracy} of 300 preferences flipped"
    assert repr(scores) == f"Evaluation({flipped}, 3 units, KL {scores.kl:.3f})"


def test_lines_stay_short_whatever_is_in_them(problem, found):
    units = tuple(problem.space)
    many = replace(found.best, units=units, values=np.zeros((2, len(units))), active=np.ones((2, len(units))))
    assert "64 units" in repr(many) and repr(many).endswith("hidden.0:7, …)")
    assert len(repr(pivotal.load_phenomenon("number-agreement"))) < 120


def test_what_is_left_out_is_said(problem):
    unknown = pivotal.questions.MinimalPair("The zebra", 1, ("verb0as", "verb0a"))
    asked = problem.on(replace(problem.pairs, pairs=(*problem.pairs, unknown)))
    assert repr(asked).endswith("64 units in hidden.0, 1 left out)")
    assert "The model cannot score 1 pair: " in page(asked).text and "zebra" in page(asked).text


@given(st.sets(st.integers(0, 30), min_size=1), st.booleans())
def test_sites_are_said_as_the_command_line_reads_them(levels, also_named):
    available = [Site("embedding", 4)]
    available += [Site(f"{kind}.{level}", 4) for level in range(31) for kind in ("mlp", "resid")]
    wanted = {f"mlp.{level}" for level in levels} | ({"embedding", "resid.30"} if also_named else set())
    chosen = tuple(site for site in available if site.name in wanted)
    assert select_sites(available, pattern_of(chosen)) == chosen


# -- HTML ---------------------------------------------------------------------------------------------------


def test_pairs_show_their_cue_and_are_escaped():
    pair = pivotal.questions.MinimalPair("a <b> & c", 1, ("x", "y"), "one", "g")
    shown = page(pivotal.questions.PairSet("some", ("one", "two"), (pair,) * 7))
    assert shown.cells[5:10] == ["a [<b>] & c", "x", "y", "one", "g"]
    assert "And 2 more." in shown.text


def test_an_intervention_shows_every_value(found):
    best = found.best
    cells = page(best).cells
    for i, unit in enumerate(best.units):
        assert str(unit) in cells
        for value in best.values[:, i]:
            assert f"{value:+.2f}".replace("-", "−") in cells


def test_a_unit_that_is_left_alone_in_a_direction(found):
    active = np.ones((2, 3), dtype=bool)
    active[0, 1] = False
    assert page(replace(found.best, active=active)).cells.count("left alone") == 1


def test_a_discovery_shows_its_runs(found):
    shown = page(found)
    assert f"{found.best_run} (best)" in shown.cells and str(1 - found.best_run) in shown.cells


def test_scores_show_constructions_and_units(scores):
    cells = page(scores).cells
    assert {"class 0", "class 1", "class 2", "singular", "plural"} <= set(cells)
    assert {one.unit for one in scores.drop_one} <= set(cells)


def test_a_certificate_says_its_verdict(certificate):
    holds = "holds" if certificate.holds else "does not hold"
    assert repr(certificate).startswith(f"Certificate({holds} for hidden.0:")
    assert page(certificate).text.startswith(f"The certificate {holds}")


def test_a_trace_shows_every_step(problem, found):
    pair = problem.pairs[0]
    trace = pivotal.trace(found.best, problem.model, pair)
    wanted = pair.words[trace.target]
    assert repr(trace).startswith(f"Trace({pair.prefix} → {wanted}, to {trace.direction}: p ")
    shown = page(trace)
    assert f"from “{pair.words[1 - trace.target]}” to “{wanted}”" in shown.text
    assert all(any(token in cell for cell in shown.cells) for token in trace.tokens)
    assert trace.plot().to_dict()["vconcat"]


# -- charts -------------------------------------------------------------------------------------------------


def rows_of(chart: Any) -> list[dict[str, Any]]:
    content = chart.to_dict()
    data = (content if "data" in content else content["layer"][0])["data"]
    return list(data["values"] if "values" in data else content["datasets"][data["name"]])


def test_the_chart_of_a_discovery_has_every_value_of_every_run(found):
    rows = rows_of(found.plot())
    assert len(rows) == sum(one.values.size for one in found.interventions)
    assert {row["label"] for row in rows} == {"singular", "plural"}
    assert rows_of(found.best.plot())[0]["value"] == pytest.approx(float(found.best.values[0, 0]))


def test_the_chart_of_scores_has_every_share(scores):
    rows = {row["name"]: row for row in rows_of(scores.plot())}
    assert set(rows) == {*scores.by_group, *(f"→ {label}" for label in scores.by_direction)}
    assert rows["class 1"]["value"] == scores.by_group["class 1"].value


# -- what was saved -----------------------------------------------------------------------------------------


def test_a_run_folder_shows_what_was_found(folder):
    assert repr(folder).endswith(": a run, planted in planted, finished)")
    summary = folder.summary()
    assert f"{summary.units} of 64 units" in page(folder).text
    assert len(rows_of(folder.plot())) == 5


def test_a_folder_with_nothing_to_show_yet(folder, tmp_path):
    unfinished = RunFolder.create(tmp_path / "run", folder.settings)
    assert "unfinished" in run_html(unfinished)
    with pytest.raises(PivotalError, match="not finished"):
        unfinished.plot()


def test_what_was_saved_is_shown_without_torch(folder):
    said = code(
        "import sys; sys.modules['torch'] = None\n"
        "from pivotal.jobs.run_folder import RunFolder\n"
        "run = RunFolder(sys.argv[1]); best = run.intervention()\n"
        "shown = [run._repr_html_(), best._repr_html_(), run.plot().to_json(), best.plot().to_json()]\n"
        "print(min(map(len, shown)) > 200)",
        folder.path,
    )
    assert said.strip() == "True"
