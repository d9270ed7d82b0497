"""Layers import downwards only: the contract in pyproject.toml holds, and it can fail."""

import ast
import os
import shutil
from collections import defaultdict
from pathlib import Path
from subprocess import CompletedProcess

from tests.processes import python

import pivotal

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pivotal.__file__).parent


def lint_imports(source: Path, cache: Path) -> CompletedProcess[str]:
    """import-linter on the package in the folder `source`, with the contracts of this repository."""
    program = "import sys; from importlinter.cli import lint_imports_command as lint; sys.exit(lint())"
    options = ["--config", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache)]
    paths = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    # A wide terminal: the names of modules are not broken over two lines.
    return python("-c", program, *options, env={"PYTHONPATH": paths, "COLUMNS": "300", "NO_COLOR": "1"})


def test_imports_respect_the_layers(tmp_path):
    done = lint_imports(PACKAGE.parent, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_against_the_layers_is_caught(tmp_path):
    ours = shutil.ignore_patterns("assets", "__pycache__")
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "src" / "pivotal", ignore=ours))
    (copy / "assets").mkdir()
    (copy / "questions" / "upward.py").write_text("from pivotal.jobs.find import find\n")
    (copy / "records" / "heavy.py").write_text("def tensor():\n    import torch\n")
    (copy / "homeless.py").write_text("")
    done = lint_imports(copy.parent, tmp_path / "cache")
    assert done.returncode == 1, done.stdout + done.stderr
    for breach in (
        "pivotal.questions.upward -> pivotal.jobs.find",
        "pivotal.records.heavy -> torch",
        "homeless",
    ):
        assert breach in done.stdout, done.stdout


def test_no_class_is_defined_twice():
    """A reader who searches for a name finds one thing."""
    homes = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
