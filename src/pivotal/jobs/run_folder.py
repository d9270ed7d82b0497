"""The run folder: the settings, the history and the results of a run. A killed run can be resumed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from itertools import count, takewhile
from pathlib import Path
from typing import Any, TypeVar

from pivotal.errors import PivotalError
from pivotal.files import (
    disk,
    inside,
    is_partial,
    lock,
    remove_partials,
    write_atomically,
    write_text,
)
from pivotal.jobs.fingerprints import changes
from pivotal.jobs.run_files import (
    ABLATION,
    CERTIFICATE,
    HISTORY,
    INTERVENTIONS,
    REPORT,
    RUN,
    SUMMARY,
    TRACES,
    UNITS,
    WHOLE_BASES,
    remove_own_files,
)
from pivotal.records import serial
from pivotal.records.basis import BasisCard, StoredBasis, read_bases, write_bases
from pivotal.records.certificate import Ablations, Certificate
from pivotal.records.intervention import BASES, CARD, Intervention
from pivotal.records.run import FORMAT, Progress, RunRecord
from pivotal.records.summary import Summary
from pivotal.records.traces import Traces
from pivotal.records.unit_profiles import UnitProfiles

T = TypeVar("T")

_LARGEST_BASIS = 64 * 2**20
"""The most bytes of a basis that is saved in the folder."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    path: Path
    info: RunRecord
    """The content of run.json."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings decide the result. Two runs with equal settings are the same run."""
        return dict(self.info.settings)

    def stated(self, setting: str, kind: type[T]) -> T:
        """A setting that every run has. Raises PivotalError if run.json lacks it, or has something else there."""
        value = self.settings.get(setting)
        if not isinstance(value, kind):
            raise PivotalError(
                f"{self.path / RUN} must state the setting '{setting}', but it is {value!r}. The file is damaged, or "
                "another version of pivotal wrote it."
            )
        return value

    @staticmethod
    def create(
        path: str | Path,
        settings: Mapping[str, Any],
        *,
        overwrite: bool = False,
        info: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """The folder of a new run, or of an unfinished run with the same settings, which is resumed."""
        path = Path(path)
        wanted = serial.plain(settings)
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
            if (path / RUN).is_file():
                found = RunFolder.open(path)
                if not overwrite:
                    found._check_resumable(wanted)
                    return found
                for name in (RUN, HISTORY):  # a process that uses the folder holds a lock on one of them
                    if (path / name).is_file():
                        with (path / name).open(encoding="utf-8") as file:
                            lock(file, path)
                remove_own_files(path, found.info)
            elif foreign := sorted(p.name for p in path.iterdir() if not is_partial(p)):
                raise PivotalError(
                    f"A run needs a folder of its own, but {path} holds other files ({_few(foreign)}). "
                    "Nothing was changed; name another folder with --out."
                )
        about = {**_about_this_run(), **(info or {})}
        folder = RunFolder(path, RunRecord(format=FORMAT, settings=wanted, **about))
        folder.write_json(RUN, folder.info)
        return folder

    @staticmethod
    def check_place(path: str | Path, settings: Mapping[str, Any]) -> None:
        """Raise PivotalError if the folder holds another run. `create` does so too, but late in a job."""
        if (Path(path) / RUN).is_file():
            RunFolder.open(path)._check_resumable(serial.plain(settings))

    @staticmethod
    def of_job(path: str | Path, settings: Mapping[str, Any]) -> RunFolder | None:
        """The folder, if a run with the same settings began there, finished or not."""
        if not (Path(path) / RUN).is_file():
            return None
        found = RunFolder.open(path)
        return None if changes(found.settings, serial.plain(settings)) else found

    @staticmethod
    def open(path: str | Path) -> RunFolder:
        """Open the folder of a run. Raises PivotalError if it is none."""
        path = Path(path)
        missing = f"{path} is not a run folder: it has no {RUN}. Give the --out folder of a run."
        return RunFolder(path, serial.read(path / RUN, RunRecord, missing=missing))

    def __repr__(self) -> str:
        asked = f"{self.settings.get('phenomenon')} in {self.settings.get('model')}"
        return f"RunFolder({self.path}: a run, {asked}, {'finished' if self.finished else 'unfinished'})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import run_html

        return run_html(self)

    def plot(self) -> Any:
        """Flipped preferences of a finished run by construction and direction, as an altair chart."""
        from pivotal.report.notebook import plot_run

        return plot_run(self)

    @property
    def result(self) -> Path:
        """The path of the file that the job writes when it is finished."""
        return self.path / SUMMARY

    @property
    def finished(self) -> bool:
        """Whether the run has its summary, which is written last."""
        return self.result.is_file()

    @property
    def report(self) -> Path:
        """The path of report.html."""
        return self.path / REPORT

    def _check_resumable(self, wanted: dict[str, Any]) -> None:
        if differing := changes(self.settings, wanted):
            raise PivotalError(
                f"{self.path} holds another run: {'; '.join(differing)}. "
                "Name another folder with --out, or replace that run with --overwrite."
            )
        if self.finished:
            raise PivotalError(
                f"This run is finished: see {self.result}. To run it again use --overwrite, or another folder "
                "with --out."
            )

    def discard(self) -> None:
        """Delete the files of the job, and the folder if it is then empty."""
        with disk(self.path):
            remove_own_files(self.path, self.info)
            if not any(self.path.iterdir()):
                self.path.rmdir()

    # -- results -------------------------------------------------------------------------------------------

    def write_json(self, name: str, record: Any) -> None:
        """Write a JSON file into the folder."""
        serial.write(inside(self.path, name), record)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the folder, atomically."""
        write_text(inside(self.path, name), text)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file into the folder, atomically."""
        path = inside(self.path, name)
        with disk(path):
            write_atomically(path, lambda partial: partial.write_bytes(content))

    def remove_partials(self) -> None:
        """Remove what a killed process left behind. Call this with the lock of the folder."""
        with disk(self.path):
            for folder, _, _ in os.walk(self.path):  # follows no links
                remove_partials(Path(folder))

    def summary(self) -> Summary:
        """The summary of a finished run."""
        return serial.read(self.result, Summary, missing=self._unfinished())

    def _unfinished(self) -> str:
        resume = (
            f"Resume it with: {self.info.command}"
            if self.info.command
            else "Repeat its command to resume it."
        )
        return f"The run in {self.path} is not finished: it has no {self.result.name}. {resume}"

    def certificate(self) -> Certificate | None:
        """What `pivotal certify` wrote; None if it was not run."""
        return self._optional(CERTIFICATE, Certificate)

    def ablation(self) -> Ablations | None:
        """Single-unit ablation of the units; None if no study asked for it."""
        return self._optional(ABLATION, Ablations)

    def traces(self) -> Traces | None:
        """The outcomes of the held-out pairs; None if an early version made the run."""
        return self._optional(TRACES, Traces)

    def unit_profiles(self) -> UnitProfiles | None:
        """What each unit of the best run does in the untouched model; None if an early version made the run."""
        return self._optional(UNITS, UnitProfiles)

    def _optional(self, name: str, kind: type[T]) -> T | None:
        path = self.path / name
        return serial.read(path, kind) if path.is_file() else None

    def history(self) -> list[Progress]:
        """The rows written so far, without a row that a kill cut off."""
        path = self.path / HISTORY
        if not path.is_file():
            return []
        lines = path.read_bytes().splitlines(keepends=True)
        return [
            serial.decode(line, Progress, f"{path}, line {number}")
            for number, line in enumerate(lines, 1)
            if line.endswith(b"\n")
        ]

    def save_interventions(self, interventions: Sequence[Intervention]) -> None:
        """Save the interventions of the runs."""
        question = self.settings.get("data_fingerprint", "")
        for r, intervention in enumerate(interventions):
            place = inside(self.path, INTERVENTIONS, str(r), CARD).parent
            replace(intervention, question_fingerprint=question).save(place)

    def intervention(self, run: int | None = None) -> Intervention:
        """The intervention of a run. Default: the best run, or run 0 if the run is not finished."""
        count = self.runs_saved()
        if not count:
            raise PivotalError(f"The run in {self.path} has saved no intervention yet. Resume it first.")
        if run is None:
            run = self.summary().best if self.finished else 0
        if not 0 <= run < count:
            raise PivotalError(f"{self.path} has the runs 0 to {count - 1}, but no run {run}.")
        return Intervention.load(self.path / INTERVENTIONS / str(run))

    def save_bases(self, bases: Mapping[str, StoredBasis]) -> None:
        """Save the bases that are searched, so that later jobs need not make them again. One of many features is left
        out: it is read again from the folder that the question names."""
        kept = {
            name: basis
            for name, basis in bases.items()
            if sum(array.nbytes for array in basis.arrays.values()) <= _LARGEST_BASIS
        }
        if kept:
            write_bases(self.path / BASES, kept)
            self.write_json(WHOLE_BASES, {name: basis.card for name, basis in kept.items()})

    def bases(self) -> dict[str, StoredBasis]:
        """The bases that were searched and saved."""
        if not (self.path / WHOLE_BASES).is_file():
            return {}
        return read_bases(self.path / BASES, serial.read(self.path / WHOLE_BASES, dict[str, BasisCard]))

    def runs_saved(self) -> int:
        """The number of runs whose interventions are saved."""
        saved = (self.path / INTERVENTIONS / str(run) / CARD for run in count())
        return sum(1 for _ in takewhile(Path.is_file, saved))


def _about_this_run() -> dict[str, Any]:
    versions = {"python": platform.python_version()}
    for package in ("pivotal", "torch", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            from pivotal import __version__

            versions[package] = __version__ if package == "pivotal" else "unknown"
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"versions": versions, "started": started}


def _few(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
