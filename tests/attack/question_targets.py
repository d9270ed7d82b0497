"""The targets that are questions: pairs, templates, files of others, words."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

from tests.attack import foreign, mutations
from tests.attack.materials import FIND, Materials
from tests.attack.place import Place
from tests.attack.target import spoil, target


@target("pairs, JSON lines", weight=3)
def pairs_jsonl(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.pairs)
    spoil(path, chance, mutations.json_lines, mutations.json_lines, mutations.json_lines, mutations.encoded)
    return _asking(chance, m, path, place)


@target("pairs, CSV", weight=2)
def pairs_csv(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.csv)
    spoil(path, chance, mutations.lines, mutations.lines, mutations.raw)
    return _asking(chance, m, path, place)


@target("pairs, TSV", weight=2)
def pairs_tsv(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.tsv)
    spoil(path, chance, mutations.lines, mutations.lines, mutations.raw)
    return _asking(chance, m, path, place)


@target("template file", weight=2)
def template(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(m.template)
    spoil(path, chance, mutations.yaml_text)
    return _asking(chance, m, path, place)


def _asking(chance: random.Random, m: Materials, question: Path | str, place: Place) -> Sequence[str]:
    """A verb that reads a question."""
    asked = str(question)
    if chance.random() < 0.005:
        return ("find", "planted", asked, *FIND, "-q", "--out", str(place.path / "new"))
    reading = chance.choice([(), (), ("--skip-bad",), ("--lower",), ("--json",)])
    return chance.choice(
        [
            (
                "evaluate",
                str(m.run),
                asked,
                *chance.choice([(), ("--part", "all"), ("--json",)]),
            ),
            ("evaluate", str(m.run), asked, *reading, *chance.choice([(), ("--unknown", "unk")])),
            (
                "check",
                "planted",
                asked,
                *reading,
                *chance.choice([(), ("--unknown", "unk"), ("--sample", "3")]),
            ),
            (
                "convert",
                asked,
                str(place.path / f"new.{chance.choice(['csv', 'jsonl', 'tsv.gz'])}"),
                *reading,
            ),
        ]
    )


@target("another question", weight=1)
def another(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """Pairs with labels of their own, and a map of the labels."""
    path = place.copy(m.pairs)
    path.write_text(path.read_text().replace("singular", "one").replace("plural", "many"))
    labels = "one=singular,many=plural"
    if chance.random() < 0.5:
        spoil(path, chance, mutations.json_lines)
    else:
        labels = mutations.text(labels, chance)
    return ("evaluate", str(m.run), str(path), "--labels", labels, *chance.choice([(), ("--json",)]))


@target("words", weight=1)
def words(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    model = chance.choice(["planted", "planted", chance.choice(mutations.TEXTS)])
    asked = [
        chance.choice([*mutations.TEXTS, "noun0a", "NOUN0A"]) for _ in range(chance.choice([0, 1, 1, 3]))
    ]
    line = ("words", model, *chance.choice([(), ("--json",)]), *chance.choice([(), ("--",)]), *asked)
    return [one.replace("\0", "") for one in line]


@target("sentences of a panel", weight=0.2, light=False)
def panel(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.copy(chance.choice([m.corpus, *m.packed]))
    spoil(path, chance, mutations.raw, mutations.lines, mutations.encoded)
    return ("evaluate", str(m.run), "--panel", "--sentences", str(path), *chance.choice([(), ("--json",)]))


@target("files of others", weight=2)
def foreign_files(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    """The formats that the readers know, read by their reader, by another one, or as a pairs file."""
    reader = chance.choice(sorted(foreign.SAMPLES))
    spec, paths = foreign.written(reader, place.path)
    path = chance.choice(paths)
    ways = {".json": mutations.json_text, ".jsonl": mutations.json_lines}
    way = ways.get(path.suffix, mutations.lines)
    spoil(path, chance, way, way, mutations.lines, mutations.raw, mutations.encoded)
    if chance.random() < 0.2:
        spec = chance.choice(
            [str(path), f"{chance.choice(sorted(foreign.SAMPLES))}:{path}", f"{reader}:{place.path}"]
        )
    if chance.random() < 0.1:
        return ("convert", spec, str(place.path / "new"))
    if chance.random() < 0.2:
        return (
            "check",
            "planted",
            spec,
            "--columns",
            mutations.text("good=good,bad=bad,prefix=prefix", chance),
        )
    return _asking(chance, m, spec, place)


@target("Parquet", weight=0.5)
def parquet(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = foreign.parquet(place.path / "table.parquet")
    spoil(path, chance, mutations.raw)
    return _asking(chance, m, f"table:{path}", place)


@target("compressed pairs", weight=0.5)
def compressed(chance: random.Random, m: Materials, place: Place) -> Sequence[str]:
    path = place.path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress(m.pairs.read_bytes()))
    spoil(path, chance, mutations.raw)
    return _asking(chance, m, path, place)
