"""checkpoint.pt and history.jsonl of a run folder. A killed run resumes from them and reaches the same result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TextIO

import torch

from pivotal.errors import PivotalError, in_short
from pivotal.files import disk, open_to_append, write_atomically
from pivotal.jobs.run_folder import CHECKPOINT, HISTORY, RunFolder
from pivotal.models.tensors import UNREADABLE, load_tensors
from pivotal.problem.batch import Work
from pivotal.records import serial
from pivotal.records.run import CheckpointRecord, Progress
from pivotal.searches.base import Discovery
from pivotal.stopping import Stop

EVERY_SECONDS = 15.0


_CURE = "Remove it or use --overwrite; the run then starts from the beginning."


class History:
    """history.jsonl, open for appending."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / HISTORY
        with disk(self._path):
            self._file: TextIO = open_to_append(self._path)
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


class RunCheckpoint:
    """The state of a search (its `Checkpoint`), with its cost, its time and its number of history rows.

    The file holds a `CheckpointRecord` as JSON text, tensors and numbers only, so that reading it runs no code.
    """

    def __init__(self, folder: RunFolder, history: History, work: Work, stop: Stop) -> None:
        self._folder = folder
        self._path = folder.path / CHECKPOINT
        self._history = history
        self._work = work
        self._started = self._saved = time.monotonic()
        self._stop = stop
        self._content = self._read()
        if self._content is None:
            history.keep(0)
        else:
            record = self._content[0]
            history.keep(record.rows)
            work.forward, work.backward = record.forward, record.backward
            self._started -= record.seconds

    @property
    def resumed(self) -> bool:
        return self._content is not None

    @property
    def seconds(self) -> float:
        """Time spent on the search, including earlier processes."""
        return time.monotonic() - self._started

    def load(self) -> dict[str, Any] | None:
        return None if self._content is None else self._content[1].get("state")

    def save(self, state: dict[str, Any]) -> None:
        """Save the state. Interventions are saved as folders, in case the run is never resumed."""
        self._folder.save_interventions(state.get("interventions", ()))
        self._write({"state": {key: value for key, value in state.items() if key != "interventions"}})

    def between_steps(self, state: Callable[[], dict[str, Any]] | None = None) -> None:
        stopping = self._stop.requested  # read once: a signal that comes later waits for the next step
        if state is not None and (stopping or time.monotonic() - self._saved >= EVERY_SECONDS):
            self.save(state())
        if stopping:
            self._stop.check()

    def discovery(self) -> Discovery | None:
        """The result of the search, if it had finished when the run was killed."""
        if self._content is None or self._content[0].stages is None:
            return None
        record, tensors = self._content
        scores = tensors["train_score"].tolist()
        found = tuple(self._folder.intervention(run) for run in range(len(scores)))
        return Discovery(found, tuple(scores), tuple(record.stages or ()))

    def finish(self, found: Discovery) -> None:
        self._folder.save_interventions(found.interventions)
        # A tensor, because a score may be infinite, which JSON cannot express, and the best run depends on it.
        self._write({"train_score": torch.tensor(found.train_score, dtype=torch.float64)}, found.stages)

    def remove(self) -> None:
        with disk(self._path):
            self._path.unlink(missing_ok=True)

    def _write(
        self, tensors: dict[str, Any], stages: tuple[dict[str, dict[str, float]], ...] | None = None
    ) -> None:
        record = CheckpointRecord(
            rows=self._history.rows,
            forward=self._work.forward,
            backward=self._work.backward,
            seconds=self.seconds,
            stages=stages,
        )
        content = {"record": serial.encode(record), **tensors}
        with disk(self._path):
            write_atomically(self._path, lambda partial: torch.save(content, partial))
        self._saved = time.monotonic()

    def _read(self) -> tuple[CheckpointRecord, dict[str, Any]] | None:
        """The record and the tensors, or None if there is no checkpoint."""
        if not self._path.is_file():
            return None
        try:
            content = load_tensors(self._path)
            kinds = {"record": str, "state": dict, "train_score": torch.Tensor}
            if len(content) != 2 or not all(isinstance(content[name], kinds[name]) for name in content):
                raise ValueError("parts of it are missing, or of another type")
        except UNREADABLE as error:
            raise self.unusable(error) from None
        return serial.decode(content["record"], CheckpointRecord, str(self._path), _CURE), content

    def unusable(self, error: BaseException) -> PivotalError:
        return PivotalError(f"{self._path} is not a checkpoint of this run ({in_short(error)}). {_CURE}")
