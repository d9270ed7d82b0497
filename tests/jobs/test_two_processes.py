"""Two processes in one folder: what they leave is what they would leave one after the other, but for times.

The tests try some pairs of commands. `trial` is one trial of any pair, for as many as there is time for.
"""

import json
import random
import re
import shutil
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from tests.processes import UNDRAWN, Process, undrawn
from tests.stored_json import timeless

from pivotal import RunFolder
from pivotal.report.atlas import write_site
from pivotal.report.page import write_report
from pivotal.report.study import StudyFolder, write_study

pytest.importorskip("fcntl")

_FIND = (
    "find planted planted --updates 4 -o refit=1 --test 12 --runs 2 --controls 0 --evidence none -q --out r"
)
COMMANDS = {
    "find": f"{_FIND} --seed 10", "other": f"{_FIND} --seed 11",
    "overwrite": f"{_FIND} --seed 10 --overwrite", "overwrite other": f"{_FIND} --seed 11 --overwrite",
    "evidence": f"{_FIND} --seed 10 --evidence quick", "controls": f"{_FIND} --seed 10 --controls 8",
    "certify": "certify r --sample 8 --candidates 2 --finalists 1 --unit-pairs none -q",
    "page": "show r --page", "study": "study tiny.yaml -q --out r",
    "seeds": "study tiny.yaml --seeds 3 -q --out r", "atlas": "atlas tiny.yaml -q --out r",
    "short": "find planted planted --updates 2 --runs 2 -q", "live": "",
}  # fmt: skip
"""What the processes do. `find` leaves the finished run that most trials begin with. `live` is a search that the live
page starts. It is the same as `short`, in the folder that both take by default."""
FOLDERS = ("r", "runs/planted-every-planted")
_RECIPE = """
name: tiny
runs: 2
defaults: {model: planted, phenomenon: planted, test: 12, updates: 4, refit: 1, controls: 0, evidence: none}
grid: {budget: [{label: two, max_units: 2}, {label: three, max_units: 3}]}
"""
SECONDS = 0.8
"""The most time between the starts of two processes, less than a command takes: most trials overlap."""


_PLACES = TemporaryDirectory(prefix="pivotal-pairs-")


def run(command: str, place: Path) -> Process:
    """Start a command. Its folder is one of `FOLDERS` in `place`."""
    env = {"OMP_NUM_THREADS": "1", UNDRAWN: "yes"}
    if command == "live":
        start = json.dumps({"model": "planted", "phenomenon": "planted", "updates": 2, "runs": 2})
        return Process("pivotal.serve.search", cwd=place, env=env, given=start)
    return Process("pivotal", *COMMANDS[command].split(), cwd=place, env=env)


def content(place: Path) -> dict[str, Any]:
    """The files of the folders without times. The report and the tables must be what the other files give."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pivotal.report.drawing.render", undrawn)
        for name in FOLDERS:
            for path in sorted((place / name).rglob("*")):
                if path.is_file() and path.suffix != ".svg":
                    found[str(path.relative_to(place))] = path
            if f"{name}/report.html" in found:
                copied = Path(shutil.copytree(place / name, Path(mkdtemp(dir=place)) / "copy"))
                is_study = StudyFolder.holds(copied)
                page = write_study(copied) if is_study else write_report(RunFolder(copied))
                for made in [page, *copied.glob("tables.*")]:
                    # Words with hyphens, such as the path of the copy, stand in a span of their own.
                    kept, again = (
                        re.sub("</?span>", "", path.read_text()).replace(str(copied), name)
                        for path in (found.pop(f"{name}/{made.name}"), made)
                    )
                    assert again == kept, "made from another state"
            if f"{name}/site/index.html" in found:
                copied = Path(shutil.copytree(place / name, Path(mkdtemp(dir=place)) / "copy"))
                for made in write_site(copied).parent.rglob("*.html"):
                    kept = found.pop(f"{name}/{made.relative_to(copied)}").read_text()
                    assert made.read_text() == kept, "made from another state"
    return {name: _timeless(path) for name, path in found.items()}


def _timeless(path: Path) -> Any:
    if path.suffix not in (".json", ".jsonl"):
        return path.read_bytes()
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    return [timeless(json.loads(text)) for text in texts]


@cache
def after(*commands: str) -> Path:
    """The place where the commands were run one after the other, each to its end."""
    place = Path(mkdtemp(dir=_PLACES.name))
    (place / "tiny.yaml").write_text(_RECIPE)
    if commands:
        shutil.copytree(after(*commands[:-1]), place, dirs_exist_ok=True)
        process = run(commands[-1], place)
        assert process.wait() in (0, 2) and "Usage:" not in process.err, process.err
    return place


@cache
def outcome(*commands: str) -> dict[str, Any]:
    return content(after(*commands))


def _unfinished(name: str, found: dict[str, Any]) -> bool:
    """Whether a file lies in an unfinished run folder of a study."""
    parts = Path(name).parts  # FOLDER/runs/CELL/SEEDS/…
    return parts[1] == "runs" and "/".join((*parts[:4], "summary.json")) not in found


def _cells(found: dict[str, Any]) -> dict[str, Any]:
    """The rows and the run folders of each cell of a study, by the key of the cell."""
    rows = found["r/results.jsonl"]
    return {
        key: (
            {row["seed"]: row for row in rows if row["key"] == key},
            {name: part for name, part in found.items() if f"-{key}/" in name},
        )
        for key in {row["key"] for row in rows}
    }


def trial(
    before: tuple[str, ...], first: str, second: str, delay: float, kill_after: float | None = None
) -> None:
    """Run two commands at once, the second `delay` seconds after the first, in a folder where those of `before` were
    run. AssertionError if what they leave is a mixture, or if a change of one is lost. `kill_after` ends the first so
    many seconds later and repeats it at the end."""
    place = Path(mkdtemp(dir=_PLACES.name))
    shutil.copytree(after(*before), place, dirs_exist_ok=True)
    one = run(first, place)
    time.sleep(delay)
    two = run(second, place)
    if kill_after is not None:
        time.sleep(kill_after)
        one.kill()
    codes = [one.wait(), two.wait()]
    if kill_after is not None:
        codes[0] = run(first, place).wait()
    assert set(codes) <= {0, 2}, (one.err, two.err)
    for process in (one, two):
        assert "Traceback" not in process.err and "No such file" not in process.err, process.err
    orders: list[tuple[str, ...]] = [(first, second), (second, first)]
    if 2 in codes:  # one of them was refused, at once or because the other had finished
        orders = [(first,), (second,), *orders] if codes[0] == 0 else [(second,), (first,), *orders]
    found = content(place)
    if (
        kill_after is not None
    ):  # what a killed study had begun may stay unfinished, if another has run its seeds
        found = {name: part for name, part in found.items() if not _unfinished(name, found)}
    assert not [name for name in found if name.endswith((".lock", ".partial"))]
    studies = len({first, second} & {"study", "seeds", "atlas"}) == 2 and "r/results.jsonl" in found
    if kill_after is not None and studies:
        # A study that is killed has finished some of its cells, so each cell has an order of its own.
        cells = _cells(found)
        assert len(cells) == 2, codes
        for key, cell in cells.items():
            assert any(_cells(outcome(*before, *order)).get(key) == cell for order in orders), codes
    else:  # most trials need the first outcome only
        assert any(found == outcome(*before, *order) for order in orders), (codes, one.err, two.err)
    shutil.rmtree(place)


PAIRS = [
    (("find",), "overwrite", "overwrite other"),
    (("find",), "evidence", "controls"),
    (("find",), "evidence", "overwrite other"),
    (("find",), "certify", "overwrite other"),
    (("find",), "certify", "page"),
    ((), "find", "other"),
    (("study",), "seeds", "page"),
    ((), "study", "seeds"),
    (("study",), "seeds", "atlas"),
    ((), "live", "short"),
]


def test_no_change_is_lost_if_two_processes_add_to_a_run_at_once():
    trial(("find",), "evidence", "controls", delay=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize(("before", "first", "second"), PAIRS, ids=str)
def test_two_processes_at_other_times_do_not_mix_even_if_one_is_killed(before, first, second, kill, seed):
    rng = random.Random(f"{before} {first} {second} {kill} {seed}")
    delay, later = rng.uniform(0, SECONDS), rng.uniform(0, 2 * SECONDS)
    trial(before, first, second, delay, later if kill else None)
