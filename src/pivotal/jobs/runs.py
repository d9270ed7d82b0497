"""The runs in a folder, and reading a run while another process may replace it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pivotal.errors import PivotalError
from pivotal.jobs.run_folder import REPLACED, RUN, RunFolder
from pivotal.records.frame import to_frame
from pivotal.records.study import STUDY

T = TypeVar("T")


def read_run(path: Path, read: Callable[[RunFolder], T]) -> T:
    """What `read` reads from a run folder. If another run takes its place meanwhile, everything is read again."""
    for _ in range(100):
        before = _mark(path)
        try:
            found = read(RunFolder(path))
        except (PivotalError, OSError):
            if _mark(path) == before and not (path / REPLACED).is_file():
                raise
        else:
            if _mark(path) == before:
                return found
        time.sleep(0.02)
    raise PivotalError(f"Another run is replacing the one in {path}. Repeat the command of that run.")


def _mark(path: Path) -> tuple[int, int] | None:
    """Tells the run.json of one run from that of another. The files of a run are there only while its run.json is."""
    try:
        about = (path / RUN).stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def listed_run(path: Path) -> dict[str, Any]:
    """A run in a list of runs. One that cannot be read hides no other: its entry has the reason."""
    entry = {"path": str(path), "kind": "run", "started": "", "finished": False, "error": None}
    try:
        folder, summary = read_run(path, lambda run: (run, run.summary() if run.finished else None))
    except (PivotalError, OSError) as error:
        return {**entry, "kind": "unreadable", "error": str(error)}
    asked = {name: folder.settings.get(name) for name in ("phenomenon", "model", "steps")}
    found = {"started": folder.info.started, "finished": summary is not None, **asked}
    scores: dict[str, Any] = dict.fromkeys(("units", "flip_accuracy", "fidelity", "kl", "verdict"))
    if summary is not None:
        fidelity, verdict = summary.best_run.fidelity, summary.verdict
        scores |= {name: getattr(summary, name) for name in ("units", "flip_accuracy", "kl")}
        scores["fidelity"] = None if fidelity is None else fidelity.asked.value
        scores["verdict"] = None if verdict is None else verdict.word
    return {**entry, **found, **scores}


def runs(folder: str | Path = "runs") -> Any:
    """The runs in a folder or a study as a data frame: a row for each, with its question, state, scores and verdict."""
    if not Path(folder).is_dir():
        raise PivotalError(f"{folder}: there is no such folder. `pivotal find` makes runs/.")
    return to_frame([listed_run(path) for path in run_paths(folder)])


def newest_run(folder: str | Path = "runs") -> Path:
    """The run in a folder that was begun last."""
    # One may be removed meanwhile.
    marks = [(mark[1], path) for path in run_paths(folder) if (mark := _mark(path))]
    if marks:
        return max(marks)[1]
    raise PivotalError(f"There is no run in {folder}. Make one with `pivotal find`, or name a run folder.")


def run_paths(folder: str | Path) -> list[Path]:
    """The folders of runs in a folder or a study, by name."""
    pattern = f"runs/*/*/{RUN}" if (Path(folder) / STUDY).is_file() else f"*/{RUN}"
    return sorted(path.parent for path in Path(folder).glob(pattern))
