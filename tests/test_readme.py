"""What the README says is true: its example runs as printed, its question can be asked, the demo gives the result."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from tests.paths import ROOT
from typer.testing import CliRunner

import pivotal
from pivotal.cli.main import app
from pivotal.jobs.run_folder import RunFolder
from pivotal.models import load_model

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_the_question_of_the_readme_can_be_asked(tmp_path: Path) -> None:
    (question,) = (content for kind, content in FENCES if kind == "yaml")
    (tmp_path / "question.yaml").write_text(question, encoding="utf-8")
    report = pivotal.check("wiki-lstm", str(tmp_path / "question.yaml"))
    assert report.asked == report.pairs >= 100 and not report.reason and not report.warnings


@pytest.mark.apart
@pytest.mark.slow
def test_the_python_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, flags=re.DOTALL)
    assert code is not None and len([line for line in code[1].splitlines() if line]) <= 8
    program = code[1].replace("max_units=4", "max_units=4, progress=False")
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    said, printed = capsys.readouterr().out.splitlines(), code[2].splitlines()
    assert len(said) >= 3 and said[0].startswith("4 of 1,300 units")
    assert printed[0].startswith("4 of 1,300 units")
    assert {word for word, _ in ast.literal_eval(said[-1])} & {"is", "was"}
    assert {word for word, _ in ast.literal_eval(printed[-1])} & {"is", "was"}


@pytest.mark.apart
@pytest.mark.slow
def test_the_demo_gives_the_stated_result(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    demo = re.search(r"^DEMO := pivotal (.*)$", makefile, flags=re.MULTILINE)
    assert demo is not None
    arguments = demo[1].replace("runs/demo", str(tmp_path / "demo")).split()
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    summary = json.loads(done.stdout)
    assert len(summary["runs"]) <= 5 and all(run["units"] <= 4 for run in summary["runs"])
    assert summary["verdict"]["word"] == "switch" and summary["values"] == "natural"
    assert summary["flip_accuracy"] >= 0.92
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
    found = RunFolder(tmp_path / "demo").intervention()
    edited = load_model("wiki-lstm").intervened(found, direction="singular")
    words = {word for word, _ in edited.next_words("The doctors near the car", k=2)}
    # Other processors round differently and may find another set of units. The claim must hold for that set too.
    assert words & {"is", "was"}, words
