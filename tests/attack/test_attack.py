"""A small share of the attack, for every run of the tests. `make attack` runs the whole.

A failure names its case as SEED:NUMBER; `python -m tests.attack --seed SEED --first NUMBER --cases 1` repeats it.
"""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attack import disk, foreign, kills, options, pickles
from tests.attack.command import run
from tests.attack.fuzz import fuzz, resident
from tests.attack.materials import Materials
from tests.attack.surroundings import hastened, settled
from tests.attack.targets import TARGETS

SLOW = ["train-lm", "import-lm", "eval-lm", "study", "compare", "certify", "export"]
"""The verbs whose materials take long."""
LIGHT = [name for name, target in TARGETS.items() if target.light]


@pytest.fixture(scope="session")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Materials:
    return Materials(tmp_path_factory.mktemp("attack"), brief=True)


@pytest.fixture
def scratch(materials: Materials) -> Iterator[Path]:
    with settled(materials.root) as path, hastened():
        yield path


def test_fuzzed_inputs_are_read_or_refused(materials):
    codes = _fuzzed(materials, LIGHT, 2)
    assert set(codes) == {0, 2}, "some are still sound"


@pytest.mark.slow
def test_fuzzed_inputs_of_every_kind_are_read_or_refused(materials):
    assert set(_fuzzed(materials, [name for name in TARGETS if name not in LIGHT], 1)) <= {0, 1, 2}


def _fuzzed(materials: Materials, targets: list[str], each: int) -> Counter[int]:
    """The exit codes of some cases of each target. `--targets NAME` repeats them."""
    found = [fuzz(1, range(each), materials, [name]) for name in targets]
    assert [one.failures for one in found if one.failures] == []
    return sum((one.codes for one in found), start=Counter())


def test_a_case_depends_on_its_number_alone(materials):
    together = fuzz(5, range(4, 8), materials, targets=LIGHT).codes
    alone = [fuzz(5, [number], materials, targets=LIGHT).codes for number in range(4, 8)]
    assert sum(alone, start=Counter()) == together


def test_commands_keep_no_memory(materials, scratch):
    """A process that runs many commands, such as the attack or a notebook, stays as large as it is."""
    lines = [
        ("evaluate", str(materials.run)),
        ("check", "planted", str(materials.pairs)),
        ("show", "nowhere"),
    ]

    def repeat(times: int) -> int:
        for line in lines * times:
            run(line)
        gc.collect()
        return resident()

    before = repeat(4)
    assert repeat(16) - before < 10, "megabytes after 48 commands"


def test_every_verb_is_attacked_with_a_sound_command_line(materials, scratch):
    """A verb that was added and has no line in `options.cheap` would only ever be refused."""
    from tests.attack.place import Place

    place = Place.made(scratch / "place")
    for verb in options.verbs():
        if verb not in SLOW:
            line = options.cheap(verb, materials, place)
            assert len(line) > 1, f"{verb} has no arguments"
            assert run(line).code == 0, line


def test_every_reader_has_a_sound_sample(scratch):
    """A reader that was added and has no sample would not be attacked."""
    from pivotal.questions.readers import READERS

    assert {name for name, _ in READERS.items()} <= set(foreign.SAMPLES)
    for reader in foreign.SAMPLES:
        spec, _ = foreign.written(reader, scratch)
        done = run(("convert", spec, str(scratch / f"new-{reader}.csv")))
        assert done.code == 0, (reader, done.err)


def test_failures_are_seen(materials, monkeypatch):
    """The attack itself must be able to fail: tracebacks, hangs and wrong codes."""

    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("pivotal.jobs.run_folder.RunFolder.__init__", broken)
    assert run(("show", str(materials.run))).failure.startswith("KeyError at ")

    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr("pivotal.jobs.run_folder.RunFolder.__init__", endless)
    assert run(("show", str(materials.run)), seconds=0.2).failure.startswith("hang of more than 0 s in")
    monkeypatch.undo()
    assert run(("show", "nowhere"), codes=(0,)).failure == "exit code 2 of show"


@pytest.mark.slow
def test_hostile_pickles_run_nothing(materials, scratch):
    failures, _ = pickles.attack(8, 0, materials, scratch)
    assert failures == {}


@pytest.mark.slow
def test_jobs_that_are_killed_reach_the_same_result(materials, scratch):
    chosen = ("find, learned", "study", "train-lm")
    with hastened(brief=True):
        failures, met = kills.attack(3, 0, materials, scratch, chosen, most=1, real=0)
    assert failures == {} and sum(met.values()) == 3


@pytest.mark.slow
def test_jobs_go_on_after_a_fault_of_the_disk(materials, scratch):
    failures, met = disk.attack(1, 0, materials, scratch, only=("train-lm",), real=False)
    assert failures == {} and sum(met.values()) > 0
