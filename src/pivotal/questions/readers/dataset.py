"""Reader of Hugging Face datasets that are in a folder: downloaded, or written with `save_to_disk`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader, Sample
from pivotal.questions.readers.rows import BINARY, SUFFIXES, Row, rows_of
from pivotal.questions.readers.table import table_pairs

_NO_DATA = frozenset({"dataset_info.json", "state.json", "dataset_dict.json", "dataset_infos.json"})
_DEPTH = 3


@dataclass(frozen=True)
class Dataset(Reader):
    """All tables of a folder, as one table."""

    name: ClassVar[str] = "dataset"
    summary: ClassVar[str] = (
        "reads a folder of a Hugging Face dataset: dataset:FOLDER, with --columns good=NAME,bad=NAME"
    )

    def pairs(self) -> PairSet:
        folder, bad = Path(self.path), BadRows(self.reading.skip_bad)
        files = _files(folder)
        if not files:
            raise PivotalError(
                f"{folder}: a dataset is a folder with files in {', '.join(SUFFIXES)}; it has none."
            )
        return table_pairs(folder.resolve().name, _rows(files, bad), self.reading.columns, bad)

    @classmethod
    def recognises(cls, sample: Sample) -> bool:
        if not sample.path.is_dir():
            return False
        return any(file.suffix.lower() in BINARY for file in _files(sample.path))


def _files(folder: Path) -> list[Path]:
    """The tables of a folder, by name. Folders inside it are its configurations and splits."""
    if not folder.is_dir():
        raise PivotalError(f"{folder}: a dataset is a folder, and there is no such folder.")
    found = []
    for depth in range(_DEPTH):
        for path in sorted(folder.glob("/".join(["*"] * (depth + 1)))):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if (
                path.is_file()
                and not hidden
                and path.suffix.lower() in SUFFIXES
                and path.name not in _NO_DATA
            ):
                found.append(path)
    return found


def _rows(files: list[Path], bad: BadRows) -> Iterator[tuple[str, Row]]:
    for file in files:
        yield from rows_of(file, bad)
