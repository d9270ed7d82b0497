"""The jobs that take long, in small: what they write, and what of it must not depend on how often they were stopped."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.command import Done
from tests.attack.materials import RECIPE, Materials
from tests.attack.place import words
from tests.stored_json import timeless


@dataclass(frozen=True)
class Job:
    """A command that writes to a folder `out`, and what it has found there."""

    name: str
    line: Callable[[Materials, Path], tuple[str, ...]]
    result: Callable[[Path], Any]

    def wrong(self, done: Done, out: Path, wanted: object) -> str:
        """What is wrong with a job that was stopped and started again; empty if nothing is."""
        if done.failure or done.code != 0:
            return (
                f"{self.name} does not go on: {done.failure or f'exit code {done.code}: {done.err[-300:]}'}"
            )
        try:
            return "" if self.result(out) == wanted else f"{self.name}: another result"
        except (OSError, AssertionError) as error:
            return f"{self.name}: {type(error).__name__} {error}"


def jobs() -> list[Job]:
    """`find` with each search, `compare`, `study` and `train-lm`."""
    from pivotal.searches import SEARCHES

    found = [Job(f"find, {name}", _find(name), _run) for name, _ in SEARCHES.items()]
    return [
        *found,
        Job("find, exchange from a start", _find("exchange", start=True), _run),
        Job("compare", _compare, _rows),
        Job("study", _study, _rows),
        Job("train-lm", _train, lambda out: (out / "model.safetensors").read_bytes()),
    ]


def _find(search: str, start: bool = False) -> Callable[[Materials, Path], tuple[str, ...]]:
    from pivotal.options import options_of
    from pivotal.searches import SEARCHES

    quick = {"updates": "12", "refit": "6"}
    its = {option.name for option in options_of(SEARCHES.get(search))}
    more = [part for name, value in quick.items() if name in its for part in ("-o", f"{name}={value}")]

    def line(m: Materials, out: Path) -> tuple[str, ...]:
        begin = ("-o", f"start={m.run / 'interventions' / '0'}") if start else ()
        return (
            *("find", "planted", str(m.pairs), "--search", search, "--max-units", "4", "--controls", "2"),
            *("--test", "12", "--runs", "2", *more, *begin, "--out", str(out)),
        )

    return line


def _run(out: Path) -> Any:
    values = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted((out / "interventions").rglob("*.safetensors"))
    }
    assert (out / "report.html").is_file()
    assert not list(out.rglob("*.partial")) and not (out / "checkpoint.pt").exists()
    return (
        values,
        timeless(json.loads((out / "summary.json").read_text())),
        (out / "traces.json").read_bytes(),
    )


def _compare(m: Materials, out: Path) -> tuple[str, ...]:
    line = (
        "compare planted {pairs} --searches exchange,attribution,learned --max-units 1,2 --runs 1 --test 12"
    )
    return words(f"{line} -o learned.updates=6 -o learned.refit=2 --out {{out}}", pairs=m.pairs, out=out)


def _study(m: Materials, out: Path) -> tuple[str, ...]:
    recipe = m.root / "longer.yaml"
    recipe.write_text(
        RECIPE.replace("PAIRS", str(m.pairs))
        .replace("updates: 1", "updates: 8")
        .replace("runs: 1", "runs: 2")
    )
    return ("study", str(recipe), "--out", str(out))


def _rows(out: Path) -> Any:
    rows = [timeless(json.loads(line)) for line in (out / "results.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: (row["key"], row["seed"]))


def _train(m: Materials, out: Path) -> tuple[str, ...]:
    line = "train-lm --corpus {corpus} --out {out} --hidden 6 --embedding 6 --layers 1 --epochs 12 --batch 4"
    return words(f"{line} --device cpu --checkpoint-minutes 0", corpus=m.corpus, out=out)
