"""What is attacked: one function per kind of input. To attack another input, add a function here or, if it is a
question or a model, in `question_targets.py` or `model_targets.py`."""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.attack import model_targets, mutations, options, question_targets
from tests.attack.materials import FIND, RESUME, Materials
from tests.attack.place import Place
from tests.attack.target import TARGETS, Target, spoil, target

from pivotal import exports

__all__ = ["TARGETS", "Target", "model_targets", "question_targets"]

EXPORTS = sorted(exports.TARGETS.names())


def reading(chance: random.Random, run: Path, *, slow: float = 0.01) -> Sequence[str]:
    """A verb that reads a run folder; the slow ones rarely."""
    pair = str(chance.choice([0, 0, 1, 5, 11, 12, 10**9]))
    if chance.random() < slow:
        return chance.choice(
            [
                ("show", str(run), "--page"),
                ("certify", str(run), "--candidates", "1", "--sample", "0", "--finalists", "1", "-q"),
            ]
        )
    return chance.choice(
        [
            ("show", str(run)),
            ("show", str(run), "--json"),
            ("evaluate", str(run)),
            ("evaluate", str(run / "interventions" / "0"), "--run", "0"),
            ("trace", str(run), "--pair", pair),
            ("trace", str(run), "--pair", pair, "--json"),
            ("trace", str(run), "The noun0a verb0as"),
            ("generate", str(run), "The noun0a", "--length", "1", "--direction", "plural"),
            ("list", "runs", str(run.parent)),
            ("serve", str(run), "--port", "0"),
            ("show", str(run), "--open"),
        ]
    )


# -- a run folder ----------------------------------------------------------------------------------


@target("card.json", weight=2)
def card(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    spoil(run / "interventions" / "0" / "card.json", chance, mutations.json_text)
    spot = run / "interventions" / "0"
    if chance.random() < 0.5:
        spot = Path(shutil.move(str(spot), place.path / "alone"))
    return chance.choice(
        [
            ("evaluate", str(spot)),
            ("evaluate", str(spot), "--any-model", "--json"),
            ("pull", str(spot), "--out", str(place.path / "pulled")),
            ("push", str(spot), "org/name", "--dry-run", "--out", str(place.path / "shared")),
            ("generate", str(spot), "The noun0a", "--length", "1", "--direction", "plural"),
            ("trace", str(spot), "The noun0a verb0as"),
        ]
    )


@target("values.safetensors", weight=2)
def values(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    spoil(run / "interventions" / "0" / "values.safetensors", chance, mutations.safetensors)
    return ("evaluate", str(run / "interventions" / "0"))


@target("run.json", weight=2)
def run_json(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    spoil(run / "run.json", chance, mutations.json_text)
    return reading(chance, run)


@target("summary.json", weight=2)
def summary(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    spoil(run / "summary.json", chance, mutations.json_text)
    if chance.random() < 0.7:
        return chance.choice(
            [
                ("show", str(run)),
                ("show", str(run)),
                ("show", str(run), "--page"),
                ("list", "runs", str(place.path)),
            ]
        )
    return reading(chance, run)


@target("evidence of a run", weight=0.15, light=False)
def evidence(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """A finished run whose summary somebody has changed, and which gets the checks that it lacks."""
    run = place.copy(m.run)
    spoil(run / chance.choice(["summary.json", "run.json"]), chance, mutations.json_text)
    depth = chance.choice(["none", "quick", "full"])
    line = ("find", "planted", str(m.pairs), *FIND, "--runs", "2", "-q", "--evidence", depth)
    return (*line, "--out", str(run))


@target("traces.json", weight=2)
def traces(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    spoil(run / "traces.json", chance, mutations.json_text)
    if chance.random() < 0.01:
        return ("show", str(run), "--page")
    kind = chance.choice(["json", "html", "json", "json", "svg"] if chance.random() < 0.03 else ["json"])
    return ("trace", str(run), "--pair", str(chance.choice([0, 1, 2, 5])), *chance.choice(
        [(), ("--json",), ("--out", str(place.path / f"t.{kind}"))]
    ))  # fmt: skip


@target("other files of a run", weight=0.15)
def others(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.run)
    names = sorted(path.name for path in run.iterdir() if path.suffix in (".json", ".jsonl"))
    chosen = run / chance.choice(names)
    spoil(chosen, chance, mutations.json_lines if chosen.suffix == ".jsonl" else mutations.json_text)
    return ("show", str(run), "--page")


@target("certificate.json", weight=0.05, light=False)
def certificate(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.certified)
    spoil(run / "certificate.json", chance, mutations.json_text)
    return ("show", str(run), "--page")


@target("checkpoint.pt and history.jsonl", weight=0.2, light=False)
def checkpoint(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """A run that was stopped, whose checkpoint somebody has changed."""
    run = place.copy(chance.choice(m.stopped))
    spoil(run / "checkpoint.pt", chance, mutations.archive, _record)
    if chance.random() < 0.3:
        spoil(run / "history.jsonl", chance, mutations.json_lines)
    return ("find", "planted", str(m.pairs), *RESUME, "--out", str(run))


def _record(data: bytes, chance: random.Random) -> bytes:
    """The checkpoint with a spoilt record, which is JSON among the tensors, or without one of its parts."""
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    if chance.random() < 0.7:
        content["record"] = mutations.json_text(content["record"].encode(), chance).decode(errors="replace")
    else:
        content[chance.choice(list(content))] = chance.choice(
            [None, 3, "x", [], {}, torch.zeros(3), [torch.ones(2, 2)]]
        )
    out = io.BytesIO()
    torch.save(content, out)
    return out.getvalue()


@target("what is exported", weight=0.3, light=False)
def exported(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    run = place.copy(m.exportable)
    inside = run / "interventions" / "0"
    chosen, way = chance.choice(
        [
            (inside / "card.json", mutations.json_text),
            (inside / "values.safetensors", mutations.safetensors),
            (run / "run.json", mutations.json_text),
        ]
    )
    spoil(chosen, chance, way)
    to = chance.choice([*EXPORTS, chance.choice(mutations.TEXTS).replace("\0", "")])
    return ("export", str(chance.choice([run, inside])), "--to", to, "--out", str(place.path / "new"))


# -- studies ---------------------------------------------------------------------------------------


@target("recipe", weight=3, codes=(0, 1, 2))
def recipe(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.recipe)
    spoil(path, chance, mutations.yaml_text)
    return (
        "study",
        str(path),
        "--dry-run",
        *chance.choice([(), ("--json",), ("--only", "every"), ("--seeds", "3")]),
    )


@target("a study's folder", weight=0.7, light=False, codes=(0, 1, 2))
def study(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    folder = place.copy(m.study)
    chosen, way = chance.choice(
        [
            ("results.jsonl", mutations.json_lines),
            ("results.jsonl", mutations.json_lines),
            ("study.json", mutations.json_text),
            ("recipe.yaml", mutations.yaml_text),
        ]
    )
    spoil(folder / chosen, chance, way)
    if chance.random() < 0.05:
        return ("show", str(folder), "--page")
    return chance.choice(
        [
            ("study", str(m.recipe), "--out", str(folder), "--dry-run"),
            ("list", "runs", str(place.path)),
            ("show", str(folder)),
        ]
    )


# -- the command line ------------------------------------------------------------------------------


@target("options", weight=2.5, codes=(0, 1, 2))
def command_line(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """Every verb with every option. Verbs that compute for seconds come less often."""
    slow = {
        "certify": 0.02,
        "find": 0.25,
        "compare": 0.2,
        "train-lm": 0.15,
        "import-lm": 0.3,
        "eval-lm": 0.3,
        "show": 0.3,
    }
    verbs = options.verbs()
    verb = chance.choices(verbs, [slow.get(one, 1.0) for one in verbs])[0]
    return options.line(chance, verb, m, place)


@target("nonsense", weight=0.3)
def nonsense(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    words = [
        *options.verbs(),
        *mutations.TEXTS,
        "--json",
        "-q",
        "--",
        "-o",
        "--out",
        "--help",
        "=",
        str(m.run),
    ]
    line = [chance.choice(words).replace("\0", "") for _ in range(chance.randrange(6))]
    # A verb with nothing behind it is no nonsense: `pivotal compare` compares all searches in the bundled model.
    whole = line[:1] in (["compare"], ["find"]) and set(line[1:]) <= {"--json", "-q"}
    return [*line, "--no-such-option"] if whole else line
