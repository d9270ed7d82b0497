"""history.jsonl of a run folder, while a search writes it."""

from __future__ import annotations

from typing import TextIO

from pivotal.files import disk, lock, open_to_append
from pivotal.jobs.run_files import HISTORY
from pivotal.jobs.run_folder import RunFolder
from pivotal.records import serial
from pivotal.records.run import Progress


class History:
    """history.jsonl, open for appending and locked, so that only one process writes a run."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / HISTORY
        with disk(self._path):
            self._file: TextIO = open_to_append(self._path)
        lock(self._file, folder.path)
        folder.remove_partials()
        self.rows = 0

    def keep(self, rows: int) -> None:
        """Keep the first `rows` rows, those of the checkpoint, and cut off later ones."""
        with disk(self._path):
            with self._path.open("rb") as file:  # as bytes: a damaged file need not be text
                kept = [len(line) for _, line in zip(range(rows), file, strict=False)]
            self._file.truncate(sum(kept))
        self.rows = len(kept)

    def append(self, row: Progress) -> None:
        with disk(self._path):
            self._file.write(serial.encode(row, indent=0) + "\n")
            self._file.flush()
        self.rows += 1

    def close(self) -> None:
        self._file.close()
