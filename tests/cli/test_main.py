"""The command as a whole: help, version, exit codes, a quick start."""

import inspect
import re
import subprocess
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
from tests.processes import python
from tests.stored_json import changed, with_settings
from typer.main import get_command

from pivotal.cli.main import app

VERBS = sorted(get_command(app).commands)
JOBS, READERS = ("find", "compare", "study"), ("evaluate", "certify", "generate", "trace")


def options(verb: str) -> dict[str, Any]:
    params = get_command(app).commands[verb].params
    return {flag: p for p in params if p.param_type_name == "option" for flag in p.opts if p.name != "help"}


def test_help_names_every_verb(pivotal):
    said = pivotal("--help").out
    assert all(verb in said for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_help(verb):
    command = get_command(app).commands[verb]
    assert command.help
    assert all(parameter.help for parameter in command.params), verb
    assert "9007199254740992" not in command.get_help(command.make_context(verb, [], resilient_parsing=True))


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_not_cut_in_a_narrow_terminal(verb, pivotal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    cut = [line for line in pivotal(verb, "--help").out.splitlines() if re.search(r"\w…\s*│", line)]
    assert not cut
    assert "\n" not in get_command(app).commands[verb].help.replace("\n\n", ""), "the terminal breaks lines"


def test_an_option_of_several_verbs_takes_the_same_everywhere():
    """`-o` is one option, `--words` are words, `--split` is a way to split."""
    taken: dict[str, set[str]] = {}
    for info in app.registered_commands:
        kinds = inspect.signature(info.callback, eval_str=True).parameters
        for flag, parameter in options(str(info.name)).items():
            kind = get_args(kinds[parameter.name].annotation)[0]
            plain = {part for part in get_args(kind) or (kind,) if part is not NoneType}
            taken.setdefault(flag, set()).add(f"{parameter.name}: {sorted(map(str, plain))}")
    # `compare` takes several numbers of units; some verbs take paths as text.
    allowed = {"--max-units", "--out"}
    assert {flag for flag, kinds in taken.items() if len(kinds) > 1} <= allowed, taken
    assert len(taken["-o"]) == 1 and taken["-o"] == taken["--option"]


@pytest.mark.parametrize("verbs", [JOBS, READERS])
def test_a_shared_option_says_the_same_of_every_verb(verbs):
    commands = get_command(app).commands
    said: dict[str, set[str]] = {}
    for parameter in (parameter for verb in verbs for parameter in commands[verb].params):
        said.setdefault(parameter.name, set()).add(parameter.help)
    own = {"max_units", "runs", "option", "out"} if verbs == JOBS else {"cue", "direction"}
    assert {name for name, helps in said.items() if len(helps) > 1} == own


def test_version(pivotal):
    from pivotal import __version__

    assert pivotal("--version").out.strip() == f"pivotal {__version__}"


def test_an_unknown_verb_is_a_usage_error(pivotal):
    pivotal("fnd").refused("No such command 'fnd'", "Did you mean 'find'?")
    pivotal("report", "r").refused("No such command 'report'. Did you mean 'show'?")
    pivotal("export", "r").refused("Missing option '--to'. The format or library: peft")
    pivotal("find", "--steps", "two").refused("Invalid value for '--steps': 'two' is not one of")


@pytest.mark.parametrize(
    "code",
    [
        "import pivotal.cli.main",
        "from pivotal.cli import complete as c; c.models(''), c.searches(''), c.phenomena(''), c.recipes('')",
        "import pivotal; q = pivotal.Question(phenomenon='planted'); q.divide(q.load_pairs())",
    ],
    ids=["help", "completion", "question"],
)
def test_what_must_be_quick_does_not_load_torch(code):
    assert python("-c", f"{code}; import sys; sys.exit('torch' in sys.modules)").returncode == 0


def test_python_m_pivotal_ends_with_a_sentence_and_exit_code_2():
    done = python("-m", "pivotal", "evaluate", "no-such-folder")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("There is no folder no-such-folder.")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("list", "recipes"), ("--help",)])
def test_an_output_that_is_full_is_a_sentence(arguments):
    with open("/dev/full", "w") as full:
        done = python("-m", "pivotal", *arguments, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == (
        "The result cannot be printed: No space left on device. What was written to files is complete.\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_messages_that_cannot_be_printed_do_not_stop_the_command():
    with open("/dev/full", "w") as full:
        done = python("-m", "pivotal", "list", "recipes", stdout=subprocess.PIPE, stderr=full)
        refused = python("-m", "pivotal", "show", "nowhere", stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, refused.returncode) == (0, 2)


def test_an_output_without_unicode_gets_escapes():
    done = python("-m", "pivotal", "list", "recipes", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


def test_arguments_that_are_not_text_are_refused(pivotal):
    pivotal("show", "r\udcff").refused("must be UTF-8 text", r"'r\udcff' is not")


def test_memory_that_ran_out_is_a_sentence(pivotal, monkeypatch):
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("pivotal.jobs.run_folder.RunFolder.__init__", exhausted)
    pivotal("show", "anything").refused("ran out of memory", "Saved files are kept")


def test_control_characters_of_a_file_are_shown_and_not_obeyed(pivotal, own_run):
    evil = "\x1b]0;owned\x07\x1b[2J\u202ered\x9b31m"
    named = {"model": evil, "phenomenon": evil}
    changed(with_settings(own_run, **named) / "run.json", command=evil)
    changed(own_run / "summary.json", **named)
    for arguments in (("show",), ("show", "--json"), ("show", "--page"), ("evaluate",)):
        done = pivotal(arguments[0], own_run, *arguments[1:])
        assert not set("\x1b\x07\x9b") & set(done.out + done.err)
    assert r"\x1b]0;owned\x07" in pivotal("show", own_run).out
    assert pivotal("show", own_run, "--json").json["command"] == evil
