"""checkpoint.pt of a run folder: from here a killed run goes on and ends in the same result."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pivotal.errors import PivotalError, in_short
from pivotal.files import disk, plain, write_atomically
from pivotal.jobs.run_folder import CHECKPOINT, History, RunFolder
from pivotal.problem.problem import Work
from pivotal.records.intervention import Intervention
from pivotal.searches.base import Discovery
from pivotal.units import Unit

EVERY_SECONDS = 15.0


class RunCheckpoint:
    """What a search keeps (its `Checkpoint`), with the work, the time and the history rows that belong to it.

    The file holds tensors, numbers and texts only, so that it can be read without running anybody's code.
    """

    def __init__(self, folder: RunFolder, history: History, work: Work) -> None:
        self._folder = folder
        self._path = folder.path / CHECKPOINT
        self._history = history
        self._work = work
        self._started = self._saved = time.monotonic()
        self._stop = self._torn = False
        self._content = self._read()
        if self._content is None:
            history.keep(0)
        else:
            history.keep(self._content["rows"])
            work.forward, work.backward = self._content["work"]
            self._started -= self._content["seconds"]

    @property
    def resumed(self) -> bool:
        return self._content is not None

    @property
    def seconds(self) -> float:
        """Spent on the search, in the processes before this one too."""
        return time.monotonic() - self._started

    def load(self) -> dict[str, Any] | None:
        if self._content is None or "state" not in self._content:
            return None
        state: dict[str, Any] = dict(self._content["state"])
        if "interventions" in state:
            state["interventions"] = tuple(_unpack(packed) for packed in state["interventions"])
        return state

    def save(self, state: dict[str, Any]) -> None:
        """The interventions are also written as folders of their own, for whoever stops here for good."""
        reached = tuple(state.get("interventions", ()))
        self._folder.save_interventions(reached)
        if self._torn:
            return  # stopped within a step: the last whole state is the one to go on from
        packed = dict(state)
        if "interventions" in state:
            packed["interventions"] = [_pack(intervention) for intervention in reached]
        self._write({"state": packed})

    def due(self) -> bool:
        """Asked between two steps, so that this is the place to stop where nothing is half done."""
        if self._stop:
            raise KeyboardInterrupt
        return time.monotonic() - self._saved >= EVERY_SECONDS

    def discovery(self) -> Discovery | None:
        """The end of the search, if it had come when the run was killed."""
        if self._content is None or "found" not in self._content:
            return None
        found = self._content["found"]
        return Discovery(
            tuple(_unpack(packed) for packed in found["interventions"]),
            tuple(found["train_score"]),
            tuple(found["stages"]),
        )

    def finish(self, found: Discovery) -> None:
        self._folder.save_interventions(found.interventions)
        self._write(
            {
                "found": {
                    "interventions": [_pack(intervention) for intervention in found.interventions],
                    "train_score": [float(loss) for loss in found.train_score],
                    "stages": plain(list(found.stages)),
                }
            }
        )

    @contextmanager
    def stopping_between_steps(self) -> Iterator[None]:
        """Ctrl-C waits for the end of a step: from within one no run could go on to the same result. A second
        one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may handle signals
            return

        def stop(_signal: int, _frame: object) -> None:
            if self._stop:
                self._torn = True
                raise KeyboardInterrupt
            self._stop = True
            # Not through a console: its lock may be held by the very code that the signal interrupts.
            os.write(2, b"\nStopping at the next safe place; Ctrl-C again stops at once.\n")

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        if self._stop:
            raise KeyboardInterrupt

    def remove(self) -> None:
        with disk(self._path):
            self._path.unlink(missing_ok=True)

    def _write(self, content: dict[str, Any]) -> None:
        content |= {
            "rows": self._history.rows,
            "work": [self._work.forward, self._work.backward],
            "seconds": self.seconds,
        }
        with disk(self._path):
            try:
                write_atomically(self._path, lambda partial: torch.save(content, partial))
            except RuntimeError as error:  # how torch reports a full disk
                raise OSError(f"torch could not write it ({in_short(error)})") from None
        self._saved = time.monotonic()

    def _read(self) -> dict[str, Any] | None:
        if not self._path.is_file():
            return None
        try:
            content = torch.load(self._path, map_location="cpu", weights_only=True)
            if not {"rows", "work", "seconds"} <= set(content):
                raise ValueError("parts of it are missing")
            return dict(content)
        except (OSError, EOFError, RuntimeError, ValueError, TypeError, pickle.UnpicklingError) as error:
            raise PivotalError(
                f"{self._path} must be a whole checkpoint of this run, but it cannot be read ({in_short(error)}). "
                "Remove it or use --overwrite: the run then starts from its beginning."
            ) from None


def _pack(intervention: Intervention) -> dict[str, Any]:
    return {
        "card": intervention.card(),
        "values": torch.as_tensor(np.array(intervention.values)),
        "active": torch.as_tensor(np.array(intervention.active)),
    }


def _unpack(packed: dict[str, Any]) -> Intervention:
    card = packed["card"]
    return Intervention(
        units=tuple(Unit(u["site"], u["index"], u["number"]) for u in card["units"]),
        directions=(card["directions"][0], card["directions"][1]),
        values=packed["values"].numpy(),
        active=packed["active"].numpy(),
        steps=card["steps"],
        model=card["model"],
        model_fingerprint=card["model_fingerprint"],
        phenomenon=card["phenomenon"],
        data_fingerprint=card["data_fingerprint"],
        scores=card["scores"],
    )
