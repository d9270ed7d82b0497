"""Spellings that stood in a README or on a page of the docs still work, and a hint names the new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pivotal.cli.renamed_options import updated


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("trace R --pair 1 -o t.svg", "trace R --pair 1 --out t.svg"),
        ("trace R --pair 1 -ot.svg", "trace R --pair 1 --out t.svg"),
        ("trace R s --to plural", "trace R s --direction plural"),
        ("trace R s --to=plural", "trace R s --direction plural"),
        ("generate R p --direction plural --words 3", "generate R p --direction plural --length 3"),
        ("evaluate R --split all", "evaluate R --part all"),
        ("certify R --pairs none", "certify R --unit-pairs none"),
        ("eval-lm m --json all.json", "eval-lm m --out all.json"),
        ("eval-lm m --json=all.txt", "eval-lm m --out all.txt"),
        ("eval-lm m --json -", "eval-lm m --json"),
        ("find planted --split lexical", "find planted --split words"),
        ("compare planted --split=random", "compare planted --split pairs"),
    ],
)
def test_a_former_spelling(former: str, now: str) -> None:
    arguments, hints = updated(former.split())
    assert arguments == now.split()
    assert len(hints) == 1 and "is now" in hints[0]


@pytest.mark.parametrize(
    "line",
    [
        "find planted -o refit=3 --split words",
        "find planted --split",
        "eval-lm --json wiki-lstm",
        "eval-lm wiki-lstm --json",
        "trace R s --words a,b",
        "trace R -- --to -o",
        "list searches --json",
        "--help",
        "",
    ],
)
def test_what_is_up_to_date_stays(line: str) -> None:
    assert updated(line.split()) == (line.split(), [])


def test_the_hint_goes_to_stderr(pivotal: Any, run_folder: Path, tmp_path: Path) -> None:
    done = pivotal(
        "trace", run_folder, "The noun0a near verb0as", "--to", "plural", "-o", tmp_path / "t.json"
    )
    assert done.code == 0 and (tmp_path / "t.json").is_file()
    assert "`pivotal trace --to` is now `pivotal trace --direction`." in done.err
    assert "`pivotal trace -o` is now `pivotal trace --out`." in done.err
    done = pivotal("evaluate", run_folder, "--split", "all", "--json")
    assert json.loads(done.out)["pairs"]["which"] == "all" and "--part" in done.err
