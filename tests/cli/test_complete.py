"""Shell completion: the names that exist."""

import pytest
from tests.processes import python

from pivotal.cli import complete
from pivotal.jobs.study.recipe import shipped
from pivotal.questions.phenomena import phenomenon_names
from pivotal.searches import SEARCHES


def completed(line: str) -> list[str]:
    """What bash is offered for the last word of a command line."""
    words = line.split(" ")
    asked = {"_PIVOTAL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return python(
        "-c", "from pivotal.cli.main import app; app(prog_name='pivotal')", env=asked
    ).stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("pivotal fin", ["find"]),
        ("pivotal find wiki-", ["wiki-lstm", "wiki-lstm-tied"]),
        ("pivotal find planted number-", ["number-agreement"]),
        ("pivotal find --search rei", ["reinforce"]),
        ("pivotal find --steps s", ["single"]),
        ("pivotal study regu", ["regularisation"]),
    ],
)
def test_a_shell_is_offered_the_names(line, names):
    assert completed(line) == names


def test_the_names_are_those_that_exist(tmp_path, monkeypatch):
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "models" / "mine" / "config.json").touch()
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path))
    assert {"planted", "wiki-lstm", "mine"} <= set(complete.models(""))
    assert complete.searches("") == SEARCHES.names()
    assert complete.phenomena("") == phenomenon_names()
    assert complete.recipes("") == sorted(shipped())
