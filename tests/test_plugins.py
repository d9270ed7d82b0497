"""One file adds a model, a search or a phenomenon: as an entry point of another package."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.processes import python

import pivotal

MODEL = '''
"""Adds up its states. The first unit holds the number of the noun."""
import torch
from pivotal.models import ModelSource
from pivotal.models.module import ModuleLM

WORDS = "<eos> <unk> The cat cats dog dogs near behind often runs run sleeps sleep".split()

class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(len(WORDS), 6)
        self.state = torch.nn.Tanh()
        self.output = torch.nn.Linear(6, len(WORDS))
        with torch.no_grad():
            self.embedding.weight[:, 0] = 0
            self.embedding.weight[[3, 5], 0], self.embedding.weight[[4, 6], 0] = 2.0, -2.0
            self.output.weight[-4:, 1:] = 0
            self.output.bias.zero_()
            self.output.weight[-4:, 0] = torch.tensor([1.0, -1.0, 1.0, -1.0])

    def forward(self, ids):
        return self.output(self.state(self.embedding(ids)).cumsum(1))

class ToySource(ModelSource):
    name = "toys"
    summary = "toy models"

    def listed(self):
        return [("toy", "a model of six units")]

    def open(self, spec, *, device, dtype, priming):
        return ModuleLM("toy", Sum().to(device), WORDS, {"state.0": "state"}) if spec == "toy" else None
'''
PHENOMENON = '''
from dataclasses import dataclass
from itertools import product
from typing import ClassVar
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena.base import Phenomenon

@dataclass(frozen=True)
class PetAgreement(Phenomenon):
    """Cats and dogs, near and far."""

    name: ClassVar[str] = "pets"
    labels: ClassVar[tuple[str, str]] = ("singular", "plural")
    summary: ClassVar[str] = "agreement of cats and dogs"

    def pairs(self):
        verbs, gaps = (("runs", "run"), ("sleeps", "sleep")), ("", " near", " behind", " often", " near often")
        made = [
            MinimalPair(f"The {noun}{'s' * number}{gap}", 1, verb, self.labels[number], noun)
            for noun, verb, gap, number in product(("cat", "dog"), verbs, gaps, (0, 1))
        ]
        return PairSet(self.name, self.labels, tuple(made))
'''
SEARCH = '''
from dataclasses import dataclass
from typing import ClassVar
import torch
from pivotal.searches.base import Discovery, Search, interventions_of

@dataclass(frozen=True)
class SingleUnit(Search):
    """Set every unit alone, up for one direction and down for the other, and keep the best."""

    name: ClassVar[str] = "single-unit"
    summary: ClassVar[str] = "tries every unit alone"

    max_units: int = 1
    """One is all that it takes."""
    value: float = 0.9
    """The value that a unit is set to, or its negative."""

    def _solve(self, problem, attempt):
        units = len(problem.space)
        mask = torch.eye(units).repeat(2, 1)
        sign = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat_interleave(units, 0)
        values = self.value * sign[..., None].expand(-1, -1, units).contiguous()
        wrong = 1 - problem.run(mask, values).flipped().float().mean(1)
        best = int(wrong.argmin())
        runs = attempt.runs
        chosen = mask[best].bool().expand(runs, 2, -1)
        found = interventions_of(problem, chosen, values[best].expand(runs, -1, -1))
        return Discovery(found, (float(wrong[best]),) * runs, ({},) * runs)
'''
VERB = '''
import typer

def greet(name: str = "you") -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")
'''
FILES = {"models": MODEL, "questions/phenomena": PHENOMENON, "searches": SEARCH}
"""The room of each kind, and the one file that adds to it."""
NAMES = {"models": "toy", "phenomena": "pets", "searches": "single-unit"}

USE = """
import json, sys
from typer.testing import CliRunner
from pivotal.cli.main import app
from pivotal.models import load_model
from pivotal.questions.phenomena import PHENOMENA
from pivotal.searches import SEARCHES
from pivotal.testing import check_model, check_phenomenon, check_search

def pivotal(*arguments):
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)

listed = {kind: [entry["name"] for entry in pivotal("list", kind)[kind]] for kind in json.loads(sys.argv[1])}
check_model(load_model("toy"), ["The cat near", "The cats near", "The dog", "The dog near often"])
check_phenomenon(PHENOMENA.get("pets"))
check_search(SEARCHES.get("single-unit")())
search = ["--search", "single-unit", "-o", "value=2.5", "--max-units", "1"]
found = pivotal("find", "toy", "pets", *search, "--test", "8", "--controls", "0", "--quiet", "--out", "run")
print(json.dumps({"listed": listed, "found": found}))
"""


def as_entry_points(folder: Path) -> Path:
    """Another distribution, as pip would install it: modules, and a .dist-info with its entry points."""
    lines = []
    for room, text in FILES.items():
        kind = room.rpartition("/")[2]
        (folder / f"toy_{kind}.py").write_text(text, encoding="utf-8")
        lines.append(f"[pivotal.{kind}]\nany = toy_{kind}\n")
    info = folder / "toy_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-plugins\nVersion: 1.0\n", encoding="utf-8"
    )
    (folder / "toy_verbs.py").write_text(VERB, encoding="utf-8")
    lines.append("[pivotal.verbs]\ngreet = toy_verbs:greet\nbroken = toy_verbs:missing\n")
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def with_plugins(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Python with the other distribution, in a folder of its own."""
    paths = [str(as_entry_points(folder)), str(Path(pivotal.__file__).parent.parent)]
    settings = {"PYTHONPATH": os.pathsep.join(paths), "PIVOTAL_HOME": str(folder / "home")}
    done = python(*arguments, cwd=folder, env=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.mark.slow
def test_one_file_adds_one_of_each_kind(tmp_path):
    """Each is listed, keeps its contract, and is used by `find`."""
    done = with_plugins(tmp_path, "-c", USE, json.dumps([*NAMES]))
    used = json.loads(done.stdout.splitlines()[-1])
    for kind, name in NAMES.items():
        assert name in used["listed"][kind]
    best = used["found"]["runs"][used["found"]["best"]]
    assert best["unit_labels"] == ["state.0:0"] and best["flip_accuracy"] == 1


def test_another_package_adds_a_verb(tmp_path):
    """It works beside a broken one, about which the user reads a sentence."""
    done = with_plugins(tmp_path, "-m", "pivotal", "greet", "--name", "Ada")
    assert done.stdout == "hello Ada\n"
    assert "The command 'broken' of toy_verbs:missing cannot be loaded" in done.stderr
