"""The command as a whole: help, version, exit codes, a quick start."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

VERBS = ("find", "evaluate", "generate", "list")
JOBS, READERS = ("find", "compare", "study"), ("evaluate", "certify", "generate", "trace")


def test_help_names_every_verb(pivotal: Any) -> None:
    said = pivotal("--help").out
    assert all(verb in said for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_help(verb: str) -> None:
    import typer.main

    from pivotal.cli.main import app

    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    assert command.help
    assert all(parameter.help for parameter in command.params), verb


@pytest.mark.parametrize("verbs", [JOBS, READERS])
def test_a_shared_option_says_the_same_of_every_verb(verbs: tuple[str, ...]) -> None:
    import typer.main

    from pivotal.cli import asked
    from pivotal.cli.main import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    said: dict[str, set[str]] = {}
    for parameter in (parameter for verb in verbs for parameter in commands[verb].params):
        said.setdefault(parameter.name, set()).add(parameter.help)
    own = {"max_units", "runs", "option", "out"} if verbs == JOBS else {"cue", "words"}
    assert {name for name, helps in said.items() if len(helps) > 1} == own
    assert asked.held_out(1000.0) == 1000 and asked.held_out(0.2) == 0.2 and asked.held_out(None) is None


def test_version(pivotal: Any) -> None:
    from pivotal import __version__

    assert pivotal("--version").out.strip() == f"pivotal {__version__}"


def test_an_unknown_verb_is_a_usage_error(pivotal: Any) -> None:
    pivotal("fnd").refused("fnd")


def test_help_does_not_load_torch() -> None:
    code = "import sys, pivotal.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_real_process_ends_with_a_sentence_and_exit_code_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pivotal.cli.main", "evaluate", "no-such-folder"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("There is no folder no-such-folder.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["models", "phenomena", "searches", "masks", "recipes"])
def test_list(pivotal: Any, kind: str) -> None:
    known = {
        "models": "planted",
        "phenomena": "number-agreement",
        "searches": "learned",
        "masks": "hard-concrete",
        "recipes": "regularisation",
    }
    done = pivotal("list", kind)
    assert done.code == 0 and known[kind] in done.out


def test_list_searches_shows_options_and_presets(pivotal: Any) -> None:
    said = pivotal("list", "searches").out
    assert "max_units" in said and "--preset paper" in said


def test_list_of_nothing_known(pivotal: Any) -> None:
    pivotal("list", "modls").refused("models")
