"""The report: whole, self-contained, and true to the run folder."""

import base64
import hashlib
import json
import re
import shlex
import shutil
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.processes import code
from tests.stored_json import changed
from typer.testing import CliRunner

from pivotal import RunFolder
from pivotal.cli.main import app
from pivotal.jobs.run_folder import own_files
from pivotal.records.serial import replace
from pivotal.report import evidence, tables
from pivotal.report.page import generate_command, snippet, unit_anchor, write_report
from pivotal.report.templates import coded, macros

WITHOUT = "without it (held out, others fixed)"
FIGURES = {"by-construction", "values", "drop-one", "control", "learning", "dose"}


def text_of(folder: RunFolder) -> str:
    return folder.report.read_text(encoding="utf-8")


def copy_of(folder: RunFolder, path: Path) -> Path:
    return Path(shutil.copytree(folder.path, path))


def test_one_well_formed_file_that_fetches_nothing(folder, check_page):
    text = text_of(folder)
    check_page(text)
    assert not re.search(r"url\(|@import", text)
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert len(text) < 1_000_000
    inside = set(re.findall(r'href="#([^"]+)"', text))
    assert inside <= set(re.findall(r"\bid=\"?([\w.-]+)", text)), "no link leads nowhere"


def test_figures_are_inline_saved_and_described(folder):
    text = text_of(folder)
    assert {p.stem for p in (folder.path / "figures").iterdir()} == FIGURES
    for name in FIGURES:
        svg = (folder.path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert svg.strip() in text
    drawn = len(FIGURES) + len(folder.summary().best_run.unit_labels)  # and a histogram for each unit
    assert text.count("<figure ") == text.count('<svg role="img" aria-label="') == drawn
    assert text.count("<summary>The numbers</summary>") == drawn


def test_every_file_is_known_as_one_of_the_run(folder):
    """--overwrite removes these files and no others."""
    written = {path for path in folder.path.rglob("*") if path.is_file()}
    assert written <= set(own_files(folder.path, folder.info))


def test_it_says_what_the_summary_says(folder):
    text, summary = text_of(folder), folder.summary()
    assert tables.sentence(summary) in text
    assert tables.control_sentence(summary) in text
    for run in summary.runs:
        assert ", ".join(run.unit_labels) in text
    assert "pivotal find planted &#39;a &lt;b&gt;&#39;" in text, "the command, as typed and escaped"
    assert folder.settings["model_fingerprint"] in text and folder.settings["data_fingerprint"] in text


@pytest.mark.slow
def test_it_is_made_from_the_folder_alone(folder, tmp_path):
    copy = copy_of(folder, tmp_path / "copy")
    shutil.rmtree(copy / "figures")
    code(
        "import sys; sys.modules['torch'] = None  # as on a machine without it\n"
        "from pivotal.jobs.run_folder import RunFolder; from pivotal.report.page import write_report\n"
        f"write_report(RunFolder({str(copy)!r}))"
    )
    for name in FIGURES:
        again = (copy / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert again == (folder.path / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_every_held_out_sentence_is_listed_with_its_outcome_and_trace(folder):
    text, traces = text_of(folder), folder.traces()
    assert traces is not None and len(traces.pairs) == 303
    items = re.findall(
        r'<li id=pair-(\d+) data-pair="\1" data-flipped="(yes|no)".*? data-traced="(yes|no)">', text
    )
    assert {int(pair): flipped == "yes" for pair, flipped, _ in items} == {
        pair.pair: pair.flipped for pair in traces.pairs
    }
    traced = [int(pair) for pair, _, has in items if has == "yes"]
    assert traced == [trace.pair for trace in traces.traces], "those with a trace first, in order"
    assert text.count('aria-label="Trace of ') == len(traced)


def test_no_sentence_can_break_the_page(folder, tmp_path, check_page):
    copy = copy_of(folder, tmp_path / "copy")
    evil = '</script><img src="x"> & <b'
    kept = json.loads((copy / "traces.json").read_text(encoding="utf-8"))
    for row in (*kept["pairs"][:1], *kept["traces"][:1]):
        row["prefix"], row["group"] = evil, evil
    kept["traces"][0]["tokens"][0] = evil
    changed(copy / "traces.json", **kept)
    text = write_report(RunFolder(copy)).read_text(encoding="utf-8")
    check_page(text)
    assert "<img" not in text and "&lt;/script&gt;" in text


def test_the_page_lets_no_script_run_but_its_own(folder):
    text = text_of(folder)
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_snippet_and_command_run_as_they_stand(folder, capsys):
    summary = folder.summary()
    exec(compile(snippet(folder, summary), "snippet", "exec"), {})
    untouched, edited = capsys.readouterr().out.splitlines()
    assert untouched != edited
    words = shlex.split(generate_command(folder, summary))
    assert words[0] == "pivotal"
    assert CliRunner().invoke(app, words[1:]).exit_code == 0


def test_one_run_with_one_unit_and_skipped_pairs(folder, tmp_path):
    copy = copy_of(folder, tmp_path / "copy")
    shutil.rmtree(copy / "figures")
    summary = json.loads((copy / "summary.json").read_text())
    run = summary["runs"][summary["best"]]
    run |= {"units": 1, "drop_one": [], "unit_labels": run["unit_labels"][:1]}
    run["values"] = {d: [None if d == "plural" else v[0]] for d, v in run["values"].items()}
    label = run["unit_labels"][0]
    rejected = {"total": 3, "reasons": {"outside the vocabulary: <x>": 3}}
    summary |= {"runs": [run], "best": 0, "median": 0, "units": 1, "controls": {}, "clean_accuracy": None}
    summary |= {"prevalence": {label: summary["prevalence"][label]}, "rejected": rejected}
    (copy / "summary.json").write_text(json.dumps(summary))
    (copy / "history.jsonl").unlink()
    text = write_report(RunFolder(copy)).read_text(encoding="utf-8")
    assert "1 of 64 units switches planted" in text
    assert "outside the vocabulary: &lt;x&gt; (3)" in text
    assert "left alone" in text and "the only unit" in text and "There is only one unit." in text
    undrawn = {"drop-one", "control", "learning"}
    assert {p.stem for p in (copy / "figures").iterdir()} == FIGURES - undrawn
    assert "All runs" not in text and "without it” is" not in text and "attention head has" not in text


def test_the_command_for_sentences_without_a_stored_trace_is_named(folder, tmp_path):
    copy = copy_of(folder, tmp_path / "a copy")
    kept = json.loads((copy / "traces.json").read_text(encoding="utf-8"))
    traced = {trace["pair"] for trace in kept["traces"]}
    changed(copy / "traces.json", pairs=[pair for pair in kept["pairs"] if pair["pair"] in traced])
    every = write_report(RunFolder(copy)).read_text(encoding="utf-8")
    assert "shows the trace of any other sentence" not in every
    changed(copy / "traces.json", pairs=kept["pairs"])
    text = unescape(write_report(RunFolder(copy)).read_text(encoding="utf-8"))
    assert f"<code>{shlex.join(['pivotal', 'trace', str(copy), '--pair'])} NUMBER</code>" in text


def test_options_and_what_stands_between_backquotes_are_code():
    shown = coded("Use `pivotal check` or --test 0.3, a well-known <option>.")
    assert "<code>pivotal check</code> or <code>--test 0.3</code>, a well-known &lt;option&gt;." in shown
    assert macros().suggestions([]).strip() == ""


# -- the pages of units ---------------------------------------------------------------------------------------


def test_every_unit_of_the_chosen_run_has_a_page_and_a_link(folder):
    text = text_of(folder)
    units = folder.summary().best_run.unit_labels
    assert re.findall(r"<section class=unit-page id=(\S+) ", text) == [unit_anchor(unit) for unit in units]
    for unit in units:
        assert f'<a href="#{unit_anchor(unit)}">{unit}</a>' in text
    profiles = folder.unit_profiles()
    written = profiles.profiles[0].written["singular"]
    first = text[text.index("<section class=unit-page") :].partition("</section>")[0]
    assert written.up[0].word in first and f"Words asked about: “{written.asked[0].word}” " in first
    assert "Previous" not in first and "Next: " in first
    assert re.search(r"It is set to [+−]\d.* for singular", first)
    assert "This model does not know most of the words of the bundled text." in first


def test_columns_say_what_is_there_and_no_more(folder):
    summary = folder.summary()
    assert evidence.chosen_table(summary).columns == (
        *("unit", "→ singular", "→ plural", "natural range", WITHOUT, "found by runs"),
    )
    one_run = replace(
        summary, runs=summary.runs[summary.best :][:1], best=0, median=0, evidence=None, verdict=None
    )
    assert evidence.chosen_table(one_run).columns == ("unit", "→ singular", "→ plural", WITHOUT)
