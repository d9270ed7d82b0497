"""One finished run of the planted model for the tests of all verbs and of the live page. None of them writes to it."""

import fcntl
from pathlib import Path

import pytest
from tests.figures import empty_figures
from typer.testing import CliRunner

from pivotal.cli.main import app

FIND = ("find", "planted", "planted", "--updates", "60", "-o", "refit=10", "--test", "303")


def finished_run(factory: pytest.TempPathFactory, name: str, *options: str) -> Path:
    """The folder of a run. The workers of pytest-xdist share it: the first one makes it, and the others wait."""
    base = factory.getbasetemp()
    shared = (base.parent if base.name.startswith("popen-gw") else base) / "finished"
    shared.mkdir(exist_ok=True)
    with (shared / f"{name}.lock").open("w") as lock, empty_figures():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / name / "report.html").exists():
            done = CliRunner().invoke(app, [*FIND, *options, "--out", str(shared / name)])
            assert done.exit_code == 0, done.output
    return shared / name
