"""What is attacked: one function or one row of `FOLDERS` for each kind of input. To attack another input, add one.

A target takes a source of chance, the materials and the place of the case. It writes what it spoils into the place and
returns the command line. `chance` must decide everything, so that a seed repeats the case.
"""

import io
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.attack import foreign, mutations, options
from tests.attack.command import CODES
from tests.attack.materials import FIND, RESUME, Materials, train
from tests.attack.mutations import TEXTS, Spoil
from tests.attack.place import Place, words

from pivotal import exports

Make = Callable[[random.Random, Materials, Place], Sequence[str]]


@dataclass(frozen=True)
class Target:
    name: str
    make: Make
    weight: float
    """How often it is drawn; lower for commands that take longer."""
    codes: tuple[int, ...] = CODES
    light: bool = True
    """Whether its materials are made within a few seconds."""


TARGETS: dict[str, Target] = {}


def target(
    name: str, *, weight: float = 1.0, codes: tuple[int, ...] = CODES, light: bool = True
) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        TARGETS[name] = Target(name, make, weight, codes, light)
        return make

    return add


WAYS: dict[str, tuple[Spoil, ...]] = {
    ".json": (mutations.json_text,),
    ".jsonl": (mutations.json_lines,) * 3 + (mutations.encoded,),
    ".yaml": (mutations.yaml_text,),
    ".safetensors": (mutations.safetensors,),
    ".pt": (mutations.archive,),
    **dict.fromkeys((".txt", ".csv", ".tsv", ".tab"), (mutations.lines,) * 2 + (mutations.raw,)),
}
"""How files are spoilt, by their suffix. All others are spoilt as bytes."""


def spoil(path: Path, chance: random.Random, *ways: Spoil) -> None:
    ways = ways or WAYS.get(path.suffix, (mutations.raw,))
    path.write_bytes(chance.choice(ways)(path.read_bytes(), chance))


def line(
    chance: random.Random, lines: Sequence[str], m: Materials, place: Place, **named: object
) -> Sequence[str]:
    """One of some command lines, with paths and texts in the place of their {names}."""
    pair = chance.choice([0, 0, 1, 5, 11, 12, 10**9])
    given = {"pair": pair, "new": place.path / "new", "place": place.path, "run": m.run, "pairs": m.pairs}
    return words(chance.choice(lines), sentence="The noun0a verb0as", **given, **named)


# -- folders, of which one file is spoilt ----------------------------------------------------------

CERTIFY = "certify {it} --candidates 1 --sample 0 --finalists 1 -q"
READING = (
    *("show {it}", "show {it} --json", "open {it}", "list runs {place}", "serve {it} --port 0"),
    *("evaluate {it}", "evaluate {it}/interventions/0 --run 0"),
    *("trace {it} --pair {pair}", "trace {it} {sentence}"),
    *("trace {it} --pair {pair} --json", "trace {it} --pair {pair} --out {new}.json"),
    "generate {it} {sentence} --length 1 --direction plural",
) * 8 + ("show {it} --page", CERTIFY, "trace {it} --pair 0 --out {new}.svg")
"""Verbs that read a run folder; the slow ones rarely."""
ALONE = (
    *("evaluate {it}", "evaluate {it} --any-model --json", "trace {it} {sentence}", "pull {it} --out {new}"),
    *("push {it} org/name --dry-run --out {new}", "generate {it} {sentence} --length 1 --direction plural"),
)
WITH_MODEL = ("evaluate {run} --model {it} --any-model", "check {it} {pairs}", "check {it} noun0a zebra")
EXPORTS = tuple(
    f"export {{it}} --to {name} --out {{new}}" for name in (*sorted(exports.TARGETS.names()), "x")
)
EVIDENCE = tuple(
    f"find planted {{pairs}} {' '.join(FIND)} --runs 2 -q --evidence {depth} --out {{it}}"
    for depth in ("none", "quick", "full")
)

BASES = (
    *("check planted {pairs} --sites hidden.0@pca:{it}",) * 9,
    f"find planted {{pairs}} {' '.join(FIND)} -q --out {{new}} --sites hidden.0@pca:{{it}}",
)
DIRECTIONS = tuple(
    f"check planted {{pairs}} --sites hidden.0@{kind}"
    for kind in ("sae:{it}", "sae:{it}", "rotation:{it}/rotation.safetensors")
)
STUDY = (
    *("study {recipe} --out {it} --dry-run", "show {it}", "list runs {place}") * 6,
    "show {it} --page",
)
FOLDERS: dict[str, tuple[str, str, Sequence[str], float, bool, tuple[int, ...]]] = {
    "files of a run": ("run", "*.json*", READING, 6.5, True, CODES),
    "card and values of a run": ("run", "interventions/0/*", READING, 1.5, True, CODES),
    "evidence of a run": ("run", "[sr]u*.json", EVIDENCE, 0.15, False, CODES),
    "certificate.json": ("certified", "certificate.json", ("show {it} --page",), 0.05, False, CODES),
    "what is exported": ("exportable", "**/[crv]a*", EXPORTS, 0.3, False, CODES),
    "a study's folder": ("study", "*.[jy]*", STUDY, 0.7, False, (0, 1, 2)),
    "model folder": ("model", "*", (*WITH_MODEL, "eval-lm {it} -q"), 1.0, False, CODES),
    "transformer folder": ("transformer", "*", WITH_MODEL, 0.4, False, CODES),
    "basis": ("basis", "*", BASES, 0.7, False, CODES),
    "autoencoder and rotation": ("directions", "*", DIRECTIONS, 0.7, True, CODES),
}
"""By name: the material, the files of which one is spoilt, the command lines, and the rest of the target."""


def _folder(material: str, files: str, lines: Sequence[str]) -> Make:
    def make(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
        folder = place.copy(getattr(m, material))
        spoil(chance.choice(sorted(path for path in folder.glob(files) if path.is_file())), chance)
        return line(chance, lines, m, place, it=folder, recipe=m.recipe)

    return make


for _name, (_material, _files, _lines, _weight, _light, _codes) in FOLDERS.items():
    TARGETS[_name] = Target(_name, _folder(_material, _files, _lines), _weight, _codes, _light)


@target("an intervention alone", weight=2)
def alone(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    folder = Path(shutil.move(str(place.copy(m.run) / "interventions" / "0"), place.path / "alone"))
    spoil(chance.choice(sorted(folder.iterdir())), chance)
    return line(chance, ALONE, m, place, it=folder)


@target("checkpoint.pt and history.jsonl", weight=0.2, light=False)
def checkpoint(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """A run that was stopped, whose checkpoint somebody has changed."""
    run = place.copy(chance.choice(m.stopped))
    spoil(run / "checkpoint.pt", chance, mutations.archive, _record)
    if chance.random() < 0.3:
        spoil(run / "history.jsonl", chance)
    return ("find", "planted", str(m.pairs), *RESUME, "--out", str(run))


def _record(data: bytes, chance: random.Random) -> bytes:
    """The checkpoint with a spoilt record, which is JSON among the tensors, or without one of its parts."""
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    if chance.random() < 0.7:
        content["record"] = mutations.json_text(content["record"].encode(), chance).decode(errors="replace")
    else:
        wrong = [None, 3, "x", [], {}, torch.zeros(3), [torch.ones(2, 2)]]
        content[chance.choice(list(content))] = chance.choice(wrong)
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


# -- questions -------------------------------------------------------------------------------------

CONVERTING = ("convert {it} {new}.csv", "convert {it} {new}.tsv.gz")
ASKING = tuple(
    f"{verb} {how}"
    for how in ("", "", "--skip-bad", "--lower", "--json", "--unknown unk")
    for verb in ("evaluate {run} {it}", "check planted {it}", *CONVERTING)
    if not (verb.startswith("convert") and "unk" in how)
) * 8 + (f"find planted {{it}} {' '.join(FIND)} -q --out {{new}}", "check planted {it} --sample 3")


@target("pairs and templates", weight=9)
def pairs(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(chance.choice([m.pairs, m.pairs, *m.tables, m.template]))
    spoil(path, chance)
    return line(chance, ASKING, m, place, it=path)


@target("files of others", weight=2)
def foreign_files(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """The formats that the readers know, read by their reader, by another one, or as a pairs file."""
    readers = sorted(foreign.SAMPLES)
    reader = chance.choice(readers)
    spec, paths = foreign.written(reader, place.path)
    path = chance.choice(paths)
    way = WAYS.get(path.suffix, (mutations.lines,))
    spoil(path, chance, *way, *way, mutations.lines, mutations.raw, mutations.encoded)
    if chance.random() < 0.2:
        spec = chance.choice([str(path), f"{chance.choice(readers)}:{path}", f"{reader}:{place.path}"])
    if chance.random() < 0.2:
        columns = mutations.text("good=good,bad=bad,prefix=prefix", chance)
        return ("check", "planted", spec, "--columns", columns)
    return line(chance, ASKING, m, place, it=spec)


@target("Parquet", weight=0.5)
def parquet(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = foreign.parquet(place.path / "table.parquet")
    spoil(path, chance)
    return line(chance, ASKING, m, place, it=f"table:{path}")


# -- language models -------------------------------------------------------------------------------


@target("corpus", weight=0.5, light=False)
def corpus(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(chance.choice([m.corpus, *m.packed]))
    spoil(path, chance, *WAYS.get(path.suffix, ()), mutations.raw, mutations.encoded)
    if chance.random() < 0.2:
        return train(path, place.path / "new")
    lines = ("eval-lm {model} --text {it} -q", "evaluate {run} --panel --sentences {it}")
    return line(chance, lines, m, place, model=m.model, it=path)


@target("checkpoint and vocabulary for import-lm", weight=1.7, light=False)
def imported(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path, vocabulary = place.copy(m.checkpoint), place.copy(m.root / "vocab.txt")
    spoil(chance.choice([path, vocabulary]), chance)
    lines = ("import-lm {it} --vocabulary {vocabulary} --out {new}",)
    return line(chance, lines, m, place, it=path, vocabulary=vocabulary)


# -- recipes and the command line ------------------------------------------------------------------


@target("recipe", weight=3, codes=(0, 1, 2))
def recipe(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.recipe)
    spoil(path, chance)
    lines = [f"study {{it}} --dry-run {more}" for more in ("", "--json", "--only every", "--seeds 3")]
    return line(chance, lines, m, place, it=path)


@target("options", weight=2.5, codes=(0, 1, 2))
def command_line(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """Every verb with every option. Verbs that compute for seconds come less often."""
    slow = {
        "certify": 0.02, "find": 0.25, "compare": 0.2, "train-lm": 0.15, "import-lm": 0.3, "eval-lm": 0.3,
        "show": 0.3,
    }  # fmt: skip
    verbs = options.verbs()
    verb = chance.choices(verbs, [slow.get(one, 1.0) for one in verbs])[0]
    return options.line(chance, verb, m, place)


@target("nonsense", weight=1.3, codes=(0, 1, 2))
def nonsense(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    more = ("--json", "-q", "--", "-o", "--out", "--help", "=", "planted", "noun0a", str(m.run))
    given = [
        chance.choice([*options.verbs(), *TEXTS, *more]).replace("\0", "") for _ in range(chance.randrange(6))
    ]
    # A verb with nothing behind it is no nonsense: `pivotal compare` compares all searches in the bundled model.
    said = [word for word in given if word != "--"]
    whole = said[:1] in (["compare"], ["find"]) and set(said[1:]) <= {"--json", "-q"}
    return [*given, "--no-such-option"] if whole else given
