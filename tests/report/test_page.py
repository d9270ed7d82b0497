"""The report: whole, self-contained, and true to the run folder."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from math import nan
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder, own_files
from pivotal.questions.question import Question
from pivotal.records.run import Progress
from pivotal.records.serial import replace
from pivotal.records.summary import DropOne
from pivotal.report import tables
from pivotal.report.drawing import CHOSEN, OTHERS
from pivotal.report.figures import accuracy_and_kl, drop_one
from pivotal.report.html import document
from pivotal.report.learning import curve_rows, learning_curves
from pivotal.report.page import generate_command, snippet, write_report
from pivotal.searches.learned import LearnedMask

FIGURES = {
    "cost",
    "by-construction",
    "values",
    "drop-one",
    "control",
    "accuracy-kl",
    "learning",
    "stages",
    "natural",
    "dose",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    search = LearnedMask(max_units=3.0, updates=40, refit=10)
    question = Question(model="planted", phenomenon="planted", test=81)
    out = str(tmp_path_factory.mktemp("report") / "run")
    folder = find(question, search, runs=2, out=out, command="pivotal find planted 'a <b>'").folder
    write_report(folder)
    return folder


def test_one_well_formed_file_that_fetches_nothing(
    folder: RunFolder, check_page: Callable[[str], None]
) -> None:
    text = folder.report.read_text(encoding="utf-8")
    check_page(text)
    assert not re.search(r"url\(|@import", text)
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert len(text) < 1_000_000


def test_figures_are_inline_saved_and_described(folder: RunFolder) -> None:
    text = folder.report.read_text(encoding="utf-8")
    assert {p.stem for p in (folder.path / "figures").iterdir()} == FIGURES
    for name in FIGURES:
        svg = (folder.path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert svg.strip() in text
    drawn = len(FIGURES) + len(folder.summary().best_run.unit_labels)  # and a histogram for each unit
    assert text.count("<figure ") == text.count('<svg role="img" aria-label="') == drawn
    assert text.count("<summary>The numbers</summary>") == drawn


def test_every_file_is_known_as_one_of_the_run(folder: RunFolder) -> None:
    """--overwrite removes these files and no others."""
    written = {path for path in folder.path.rglob("*") if path.is_file()}
    assert written <= set(own_files(folder.path, folder.info))


def test_it_says_what_the_summary_says(folder: RunFolder) -> None:
    text, summary = folder.report.read_text(encoding="utf-8"), folder.summary()
    assert tables.sentence(summary) in text
    assert tables.control_sentence(summary) in text
    for run in summary.runs:
        assert ", ".join(map(str, run.unit_numbers)) in text
    assert "pivotal find planted &#x27;a &lt;b&gt;&#x27;" in text, "the command, as typed and escaped"
    assert folder.settings["model_fingerprint"] in text and folder.settings["data_fingerprint"] in text


def test_controls_that_break_a_bound_are_told(folder: RunFolder) -> None:
    summary = folder.summary()
    assert "exceed the bound" not in tables.control_sentence(summary)
    summary = replace(summary, controls=replace(summary.controls, broken=7))
    assert " (7 exceed the bound on KL and do not count for p): p =" in tables.control_sentence(summary)


def test_of_many_units_those_that_matter_most_are_drawn(folder: RunFolder) -> None:
    summary = folder.summary()
    many = tuple(DropOne(f"hidden.0:{i}", i + 1, 1 - i / 500, 0.1) for i in range(400))
    runs = tuple(replace(run, drop_one=many) for run in summary.runs)
    figure = drop_one(replace(summary, runs=runs))
    assert figure is not None and len(figure.data.rows) == 400
    assert "The chart shows the 20 of 400 units that matter most." in figure.alternative
    assert "400 (hidden.0:399)" in figure.svg and "381 (hidden.0:380)" in figure.svg
    assert "380 (hidden.0:379)" not in figure.svg and len(figure.svg) < 50_000


@pytest.mark.slow
def test_it_is_made_from_the_folder_alone(folder: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    shutil.rmtree(copy / "figures")
    (copy / "report.html").unlink()
    code = (
        "import sys; sys.modules['torch'] = None  # as on a machine without it\n"
        "from pivotal.jobs.run_folder import RunFolder; from pivotal.report.page import write_report\n"
        f"write_report(RunFolder.open({str(copy)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in FIGURES:
        again = (copy / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert again == (folder.path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert "sentence-list" in (copy / "report.html").read_text(encoding="utf-8")


def test_every_held_out_sentence_is_listed_with_its_outcome(folder: RunFolder) -> None:
    text, traces = folder.report.read_text(encoding="utf-8"), folder.traces()
    assert traces is not None and len(traces.pairs) == 81
    items = re.findall(
        r'<li id=pair-(\d+) data-pair="\1" data-flipped="(yes|no)".*? data-traced="(yes|no)">', text
    )
    assert {int(pair): flipped == "yes" for pair, flipped, _ in items} == {
        pair.pair: pair.flipped for pair in traces.pairs
    }
    traced = [int(pair) for pair, _, has in items if has == "yes"]
    assert traced == [trace.pair for trace in traces.traces], "those with a trace first, in order"
    assert [int(pair) for pair, _, _ in items][: len(traced)] == traced
    data = re.search(r"<script type=application/json id=traces>(.*?)</script>", text)
    assert data is not None
    assert json.loads(data[1])["traces"] == json.loads(traces.dumps())["traces"]


def test_no_sentence_can_break_the_page(
    folder: RunFolder, tmp_path: Path, check_page: Callable[[str], None]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    evil = '</script><img src="x"> & <b'
    kept = json.loads((copy / "traces.json").read_text(encoding="utf-8"))
    for row in (*kept["pairs"][:1], *kept["traces"][:1]):
        row["prefix"], row["group"] = evil, evil
    (copy / "traces.json").write_text(json.dumps(kept), encoding="utf-8")
    text = write_report(RunFolder.open(copy)).read_text(encoding="utf-8")
    check_page(text)
    assert "<img" not in text and "&lt;/script&gt;" in text and "\\u003c/script>" in text


def test_a_run_that_kept_no_sentences_and_no_units_says_so(folder: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    (copy / "traces.json").unlink()
    (copy / "units.json").unlink()
    text = write_report(RunFolder.open(copy)).read_text(encoding="utf-8")
    assert "stored no sentences" in text and "id=traces" not in text
    assert f"pivotal report {copy} --units" in text and "class=unit-page" not in text


def test_the_page_lets_no_script_run_but_its_own(folder: RunFolder) -> None:
    text = folder.report.read_text(encoding="utf-8")
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_the_snippet_runs_as_it_stands(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    summary = folder.summary()
    exec(compile(snippet(folder, summary), "snippet", "exec"), {})
    untouched, edited = capsys.readouterr().out.splitlines()
    assert untouched != edited


def test_the_generate_command_runs_as_it_stands(folder: RunFolder) -> None:
    import shlex

    from typer.testing import CliRunner

    from pivotal.cli.main import app

    words = shlex.split(generate_command(folder, folder.summary()))
    assert words[0] == "pivotal"
    assert CliRunner().invoke(app, words[1:]).exit_code == 0


@pytest.mark.parametrize("runs", [1, 3, 25])
def test_the_line_of_the_chosen_run_stands_out(runs: int) -> None:
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
    assert {row[0] for row in figure.data.rows} == set(map(str, range(runs)))
    assert figure.data.rows[-1][1:] == ("3", "1.000", "2.0", "0.100", "50.0%")


def test_one_run_with_one_unit_and_skipped_pairs(folder: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.path, copy)
    shutil.rmtree(copy / "figures")
    summary = json.loads((copy / "summary.json").read_text())
    run = summary["runs"][summary["best"]]
    run |= {
        "units": 1,
        "unit_ids": run["unit_ids"][:1],
        "unit_labels": run["unit_labels"][:1],
        "unit_numbers": run["unit_numbers"][:1],
        "drop_one": [],
    }
    run["values"] = {d: [None if d == "plural" else v[0]] for d, v in run["values"].items()}
    label = run["unit_labels"][0]
    summary |= {
        "runs": [run],
        "best": 0,
        "median": 0,
        "units": 1,
        "controls": {},
        "clean_accuracy": None,
        "prevalence": {label: summary["prevalence"][label]},
        "rejected": {"total": 3, "reasons": {"outside the vocabulary: <x>": 3}},
    }
    (copy / "summary.json").write_text(json.dumps(summary))
    (copy / "history.jsonl").unlink()
    text = write_report(RunFolder.open(copy)).read_text(encoding="utf-8")
    assert "1 of 64 units switches planted" in text
    assert "outside the vocabulary: &lt;x&gt; (3)" in text
    assert "left alone" in text and "the only unit" in text and "There is only one unit." in text
    assert {p.stem for p in (copy / "figures").iterdir()} == {
        "by-construction",
        "values",
        "stages",
        "natural",
        "dose",
        "cost",
    }
    assert "All runs" not in text and "without it” is" not in text and "attention head has" not in text


def test_curves_show_the_learning_alone_and_bear_gaps() -> None:
    def row(phase: str, update: int, loss: list[float]) -> Progress:
        return Progress(phase, update, 9, loss, [3.0, 4.0], [])

    rows = curve_rows([row("learn", 1, [1.0, nan]), row("learn", 5, [0.5, 0.6]), row("refit", 2, [0.1, 0.2])])
    assert [(r["update"], r["run"]) for r in rows] == [
        (1, "0"),
        (1, "1"),
        (5, "0"),
        (5, "1"),
    ]
    assert rows[1]["loss"] is None and rows[0]["accuracy"] is None and rows[0]["multiplier"] is None
    long = curve_rows([row("learn", update, [1.0]) for update in range(1, 1001)], most=300)
    assert long[-1]["update"] == 1000 and len(long) < 1000


def test_the_sentence_claims_no_more_than_was_found(folder: RunFolder) -> None:
    summary = folder.summary()
    assert "3 of 64 units switch planted in planted: set at every step they flip" in tables.sentence(summary)
    nothing = replace(summary.verdict, word="no evidence")
    few = replace(summary, verdict=nothing, flip_accuracy=0.11, max_kl=0.05, kl_bound_kept=False)
    said = tables.sentence(few)
    assert said.startswith(
        "No evidence: 3 of 64 units, set at every step, flip 11.0% of 81 held-out preferences"
    )
    assert "decide" not in said and said.endswith(". This KL exceeds the bound of 0.05.")
    assert "set once, at the cue, flip 11.0%" in tables.sentence(replace(few, steps="single"))
    assert "not kept" not in tables.sentence(replace(few, kl_bound_kept=True))


def test_the_untouched_model_is_judged_on_labelled_pairs(folder: RunFolder) -> None:
    summary = folder.summary()
    assert tables.clean_sentence(summary).endswith("in 100% of the held-out pairs.")
    some = replace(summary, labelled=20)
    assert tables.clean_sentence(some).endswith("in 100% of the 20 held-out pairs that state one.")
    assert tables.clean_sentence(replace(summary, clean_accuracy=None)) == ""


def test_numbers_as_text() -> None:
    assert tables.percent(0.9999) == "99.99%"
    assert tables.percent(1.0) == "100%"
    assert tables.percent(0.994) == "99.4%"
    assert tables.percent(None) == tables.percent(nan) == tables.number(nan) == "–"
    assert tables.interval(0.985, 1.0) == "98.5–100%"
    assert tables.points(-0.334) == "−33.4"
    assert [tables.points(-0.0), tables.number(-1e-9), tables.signed(-0.001)] == ["+0.0", "0.000", "+0.00"]
    assert tables.mean_and_spread([0.5, None, 0.7]) == "+0.60 ± 0.14"
    assert tables.mean_and_spread([None]) == "left alone"


def test_a_page_of_word_sets(tmp_path: Path, check_page: Callable[[str], None]) -> None:
    lines = []
    for noun in "abcd":
        for label, s in (("singular", ""), ("plural", "s")):
            words = {"singular": [f"verb0{v}s" for v in "abc"], "plural": "verb0a|verb0b"}
            prefix = f"The noun0{noun}{s}"
            lines += [{"prefix": f"{prefix}{gap}", "cue": 1, "words": words, "label": label} for gap in GAPS]
    (tmp_path / "sets.jsonl").write_text("\n".join(map(json.dumps, lines)))
    question = Question(model="planted", phenomenon=str(tmp_path / "sets.jsonl"), test=8)
    search = LearnedMask(max_units=1.0, updates=20, refit=5)
    done = find(question, search, controls=0, out=str(tmp_path / "run"))
    page = write_report(done.folder).read_text(encoding="utf-8")
    check_page(page)
    assert done.summary.example.words == ("verb0as|verb0bs|verb0cs", "verb0a|verb0b")
    assert "verb0as/verb0bs/verb0cs" in page and "verb0a/verb0b" in page


def test_runs_in_one_place_share_a_label(folder: RunFolder) -> None:
    summary = folder.summary()
    run = summary.runs[0]
    other = replace(run, kl=run.kl + 0.5)
    drawn = accuracy_and_kl(replace(summary, runs=(run, other, run)))
    assert drawn is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn.svg)
    assert "0, 2" in texts and "1" in texts


def test_what_stands_between_backquotes_in_the_lead_is_code() -> None:
    page = document("A study", "It reads `blimp` & <b>.", [], description="a study")
    assert "<p class=lead>It reads <code>blimp</code> &amp; &lt;b&gt;.</p>" in page


GAPS = ("", " near", " quite", " often")
