"""The targets that are language models, and what they are made from."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence

from tests.attack import mutations
from tests.attack.materials import FIND, Materials, train
from tests.attack.place import Place
from tests.attack.target import spoil, target


@target("corpus", weight=0.3, light=False)
def corpus(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(chance.choice([m.corpus, *m.packed]))
    spoil(path, chance, mutations.raw, *((mutations.lines,) if path.suffix == ".txt" else ()))
    if chance.random() < 0.7:
        return ("eval-lm", str(m.model), "--text", str(path), "-q")
    return train(path, place.path / "new")


@target("vocabulary", weight=0.7, light=False)
def vocabulary(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.checkpoint).with_name("vocab.txt")
    shutil.copy(m.root / "vocab.txt", path)
    spoil(path, chance, mutations.lines, mutations.raw)
    return ("import-lm", str(m.checkpoint), "--vocabulary", str(path), "--out", str(place.path / "new"))


@target("checkpoint for import-lm", light=False)
def imported(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.checkpoint)
    spoil(path, chance, mutations.archive)
    return (
        "import-lm",
        str(path),
        "--vocabulary",
        str(m.root / "vocab.txt"),
        "--out",
        str(place.path / "new"),
    )


@target("model folder", light=False)
def model(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    folder = place.copy(m.model)
    chosen, ways = chance.choice(
        [
            ("config.json", (mutations.json_text,)),
            ("card.json", (mutations.json_text,)),
            ("vocab.txt", (mutations.lines, mutations.raw)),
            ("model.safetensors", (mutations.safetensors,)),
        ]
    )
    spoil(folder / chosen, chance, *ways)
    return chance.choice(
        [
            ("evaluate", str(m.run), "--model", str(folder), "--any-model"),
            ("eval-lm", str(folder), "-q"),
            ("words", str(folder), "noun0a", "Zebra"),
            ("check", str(folder), str(m.pairs)),
        ]
    )


@target("transformer folder", weight=0.4, light=False)
def transformer(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    folder = place.copy(m.transformer)
    names = sorted(path.name for path in folder.iterdir())
    chosen = folder / chance.choice(names)
    way = {".json": mutations.json_text, ".safetensors": mutations.safetensors}.get(
        chosen.suffix, mutations.raw
    )
    spoil(chosen, chance, way)
    return chance.choice(
        [
            ("evaluate", str(m.run), "--model", str(folder), "--any-model"),
            ("words", str(folder), "car", "zebra"),
            ("check", str(folder), str(m.pairs)),
        ]
    )


@target("basis", weight=0.7, light=False)
def basis(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    folder = place.copy(m.basis)
    chosen = chance.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    way = {".json": mutations.json_text, ".safetensors": mutations.safetensors}
    spoil(chosen, chance, way.get(chosen.suffix, mutations.raw))
    sites = f"hidden.0@pca:{folder}"
    if chance.random() < 0.1:
        return (
            "find",
            "planted",
            str(m.pairs),
            *FIND,
            "--sites",
            sites,
            "-q",
            "--out",
            str(place.path / "new"),
        )
    return ("check", "planted", str(m.pairs), "--sites", sites)
