"""results.jsonl: what a study found, a row per run; tables are made from it with nothing else at hand."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from pivotal.errors import PivotalError
from pivotal.files import disk, plain, write_atomically

RESULTS, FORMER = "results.jsonl", "former.jsonl"

Status = Literal["done", "failed"]
DONE: Status = "done"
FAILED: Status = "failed"


@dataclass(frozen=True)
class FoundUnit:
    """A unit of the set that a run found."""

    site: str
    index: int
    number: int
    """Its number in the paper's counting, from 1 over all layers."""
    values: dict[str, float | None]
    """Per direction, i.e. label that is flipped to; None where it is not set in that direction."""
    by_ablation: bool | None = None
    """Whether single-unit ablation would have found it; None if that was not asked."""


@dataclass(frozen=True)
class StudyRow:
    """One run. What a failed run has no number for is None."""

    study: str
    cell: dict[str, str]
    """The labels of the cell, by axis, as the recipe has them."""
    key: str
    """Names the settings of the cell: rows with one key differ in the seed alone."""
    seed: int
    status: Status

    model: str
    phenomenon: str
    steps: str
    sites: str
    split: str
    test: int | float | None
    split_seed: int
    priming: str | None
    dtype: str | None
    search: str
    preset: str | None
    options: dict[str, Any]
    """All settings of the search, those by default too."""

    error: str | None = None
    folder: str | None = None
    """The run folder of the batch, from the folder of the study."""
    batch: list[int] = field(default_factory=list)
    """The seeds that went through the model together; work and seconds are theirs together."""

    accuracy: float | None = None
    """Share of held-out pairs whose preference is flipped."""
    interval: list[float] | None = None
    """95%, by bootstrap."""
    by_group: dict[str, float] = field(default_factory=dict)
    by_direction: dict[str, float] = field(default_factory=dict)
    kl: float | None = None
    """Averaged over all positions, as in the paper."""
    kl_after_edit: float | None = None
    units: int | None = None
    found: list[FoundUnit] = field(default_factory=list)
    all_units: int | None = None
    clean_accuracy: float | None = None
    pairs: dict[str, int] = field(default_factory=dict)
    """How many: train, test, dropped."""

    search_seconds: float | None = None
    total_seconds: float | None = None
    """With preparing the pairs and evaluation; a model serves many batches, and loading it is in none."""
    forward_nodes: int | None = None
    backward_nodes: int | None = None
    model_fingerprint: str | None = None
    data_fingerprint: str | None = None
    device: str | None = None
    machine: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def run(self) -> tuple[str, int]:
        """What the row is about: of two rows about one run the later counts."""
        return self.key, self.seed

    @property
    def name(self) -> str:
        """The cell in words."""
        return ", ".join(self.cell.values())

    @property
    def done(self) -> bool:
        return self.status == DONE

    def to_json(self) -> str:
        return json.dumps(plain(dataclasses.asdict(self)), ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> StudyRow:
        """ValueError if it is not a row; keys of later versions are passed over."""
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(f"a row is a JSON object, not {type(content).__name__}")
        known = {f.name for f in dataclasses.fields(StudyRow)}
        needed = {f.name for f in dataclasses.fields(StudyRow) if _required(f)}
        if missing := sorted(needed - set(content)):
            raise ValueError(f"'{missing[0]}' is missing")
        if content["status"] not in (DONE, FAILED):
            raise ValueError(f"the status is {DONE} or {FAILED}, not {content['status']!r}")
        content["found"] = [FoundUnit(**unit) for unit in content.get("found", [])]
        return StudyRow(**{name: value for name, value in content.items() if name in known})


@dataclass(frozen=True)
class Results:
    """The rows of a study, one per run."""

    rows: tuple[StudyRow, ...] = ()
    lost: int = 0
    """Lines that could not be read."""

    def sentence(self, path: Path) -> str:
        many = "1 row" if self.lost == 1 else f"{self.lost} rows"
        return (
            f"{path} is damaged: {many} of {self.lost + len(self.rows)} cannot be read and were left out. "
            "The good rows are used; `pivotal study` takes the lost ones from their run folders, or runs them again."
        )


def read_results(path: Path) -> Results:
    """The last row of every run, in the order of the file; what cannot be read is counted and left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Results()
    except OSError as error:
        raise PivotalError(f"{path} cannot be read ({error.strerror}).") from None
    rows: dict[tuple[str, int], StudyRow] = {}
    lost = 0
    for line in filter(None, text.split("\n")):
        try:
            row = StudyRow.from_json(line)
        except (ValueError, TypeError, KeyError):
            lost += 1
            continue
        rows.pop(row.run, None)
        rows[row.run] = row
    return Results(tuple(rows.values()), lost)


class Sheet:
    """results.jsonl, open for appending: a row is on the disk before the next run begins."""

    def __init__(self, path: Path, rows: Iterable[StudyRow], former: Iterable[StudyRow] = ()) -> None:
        """Begins with `rows`, in place of whatever the file holds; rows of cells that are gone are put beside it."""
        text, gone = _lines(rows), _lines(former)
        with disk(path):
            if gone:
                with path.with_name(FORMER).open("a", encoding="utf-8") as beside:
                    beside.write(gone)
            write_atomically(path, lambda partial: Path(partial).write_text(text, encoding="utf-8"))
            self._file: TextIO = path.open("a", encoding="utf-8")
        self._path = path

    def append(self, rows: Iterable[StudyRow]) -> None:
        with disk(self._path):
            self._file.write(_lines(rows))
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _lines(rows: Iterable[StudyRow]) -> str:
    return "".join(row.to_json() + "\n" for row in rows)


def _required(of: dataclasses.Field[Any]) -> bool:
    return of.default is dataclasses.MISSING and of.default_factory is dataclasses.MISSING
