"""The run folder: the settings, the history and the results of a run. A killed run can be resumed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from itertools import count, takewhile
from pathlib import Path
from typing import Any, TypeVar

from pivotal.errors import PivotalError, nearest
from pivotal.files import disk, inside, remove_partials, write_text
from pivotal.folders import check_no_other_files
from pivotal.jobs.changes import changed_files, changes
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records import serial
from pivotal.records.basis import BasisCard, StoredBasis, read_bases, write_bases
from pivotal.records.certificate import Ablations, Certificate
from pivotal.records.intervention import BASES, CARD, VALUES, Intervention
from pivotal.records.run import Progress, RunRecord
from pivotal.records.summary import Summary
from pivotal.records.traces import Traces
from pivotal.records.unit_profiles import UnitProfiles

T = TypeVar("T")

RUN, HISTORY, CHECKPOINT, SUMMARY = "run.json", "history.jsonl", "checkpoint.pt", "summary.json"
TRACES, CERTIFICATE, REPORT = "traces.json", "certificate.json", "report.html"
REPLACED = ".run.json"
"""What run.json is called while the files of a run are removed, so that another run can take its place."""
WHOLE_BASES = "bases.json"
"""The cards of the bases that were searched; their arrays are in bases.safetensors."""
UNITS = "units.json"
"""What each unit of the best run does in the untouched model."""
ABLATION = "ablation.json"
"""Single-unit ablation of the found units, if a study asked for it."""
INTERVENTIONS, FIGURES = "interventions", "figures"
FIGURE_NAMES = ("by-construction", "values", "drop-one", "control", "learning", "dose")
"""The figures that the report draws."""


_LARGEST_BASIS = 64 * 2**20
"""The most bytes of a basis that is saved in the folder."""


@dataclass(frozen=True, init=False)
class RunFolder:
    """The folder of a run. Anybody may read it; only a process that holds its lock (`folders.locked`) writes there."""

    path: Path
    info: RunRecord
    """The content of run.json."""

    def __init__(self, path: str | Path, info: RunRecord | None = None) -> None:
        """Open the folder of a run. Raises PivotalError if it is not one. `info` is given if it was read already."""
        path = Path(path)
        missing = "" if info or (path / RUN).is_file() else no_run(path)
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "info", info or serial.read(path / RUN, RunRecord, missing=missing))

    @staticmethod
    def of_job(path: Path, settings: Mapping[str, Any]) -> RunFolder | None:
        """The folder, if a run with the same settings began there, finished or not."""
        if not (path / RUN).is_file():
            return None
        found = RunFolder(path)
        return None if changes(found.settings, serial.plain(settings)) else found

    @staticmethod
    def check_free(path: Path, settings: Mapping[str, Any], *, overwrite: bool) -> None:
        """Raise PivotalError if the folder holds another run, unless that is to be overwritten, or other files."""
        if (path / RUN).is_file():
            differing = [] if overwrite else changes(RunFolder(path).settings, serial.plain(settings))
            if differing:
                raise PivotalError(
                    f"{path} holds another run: {'; '.join(differing)}. Name another with --out, or use --overwrite."
                )
            return
        if holds_run(path):  # another process was killed when it removed that run
            return
        check_no_other_files(path, "run")

    @staticmethod
    def create(
        path: str | Path, settings: Mapping[str, Any], info: Mapping[str, Any] | None = None
    ) -> RunFolder:
        """The folder of a new run. The files of a run that is there are removed."""
        path = Path(path)
        if holds_run(path):
            there = path / (RUN if (path / RUN).is_file() else REPLACED)
            cure = "Remove the folder, or name another with --out."
            former = RunFolder(path, serial.read(there, RunRecord, cure=cure))
            with disk(path):
                os.replace(there, path / REPLACED)  # first, so that whoever reads the folder notices it
            former.discard()
        about = {**_about_this_run(), **(info or {})}
        folder = RunFolder(path, RunRecord(settings=serial.plain(settings), **about))
        folder.write_json(RUN, folder.info)
        folder.remove_partials()
        return folder

    def discard(self) -> None:
        """Remove the files that the run wrote, and the folders in it that are then empty."""
        with disk(self.path):
            self.remove_partials()
            for path in own_files(self.path, self.info):
                path.unlink(missing_ok=True)
                for parent in path.parents:
                    if self.path in parent.parents and parent.is_dir() and not any(parent.iterdir()):
                        parent.rmdir()

    def remove_partials(self) -> None:
        """Remove what a killed process left behind."""
        with disk(self.path):
            if self._has(RUN):
                (self.path / REPLACED).unlink(missing_ok=True)
            for folder in {self.path, *(path.parent for path in own_files(self.path, self.info))}:
                if folder.is_dir():
                    remove_partials(folder)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings decide the result. Two runs with equal settings are the same run."""
        return self.info.settings

    def stated(self, setting: str, kind: type[T]) -> T:
        """A setting that every run has. Raises PivotalError if run.json lacks it, or has something else there."""
        value = self.settings.get(setting)
        if not isinstance(value, kind):
            raise PivotalError(f"'{setting}' in {self.path / RUN} cannot be {value!r}: the file is damaged.")
        return value

    @property
    def held_out_by(self) -> str:
        """How the held-out pairs were chosen."""
        test = self.settings.get("test")
        return f"from {test}" if isinstance(test, str) else f"split by {self.stated('split', str)}"

    def check_pairs(self, question: Question, pairs: PairSet, cure: str) -> None:
        """Raise PivotalError if the question has other pairs now, or another part of them is held out."""
        now = {"data_fingerprint": pairs.fingerprint(), "test_fingerprint": pairs.test_fingerprint()}
        if "held_out" in self.settings:
            now["held_out"] = str(pairs.held_out)
        if changed := changed_files(self.settings, now):
            raise PivotalError(
                f"The held-out pairs of the run on '{question.phenomenon}' are not known: {'; '.join(changed)}. "
                f"Restore the version of '{question.phenomenon}' that the run was made with. {cure}"
            )

    @property
    def finished(self) -> bool:
        """Whether the run has its summary, which is written last."""
        return self._has(SUMMARY)

    def _has(self, name: str) -> bool:
        return (self.path / name).is_file()

    @property
    def report(self) -> Path:
        """The path of report.html."""
        return self.path / REPORT

    def __repr__(self) -> str:
        asked = f"{self.settings.get('phenomenon')} in {self.settings.get('model')}"
        return f"RunFolder({self.path}: a run, {asked}, {'' if self._has(SUMMARY) else 'un'}finished)"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import run_html

        return run_html(self)

    def plot(self) -> Any:
        """Flipped preferences of a finished run by construction and direction, as an altair chart."""
        from pivotal.report.notebook import plot_shares

        return plot_shares(self.summary().best_run)

    # -- results -------------------------------------------------------------------------------------------

    def write_json(self, name: str, record: Any) -> None:
        """Write a JSON file into the folder."""
        serial.write(inside(self.path, name), record)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file into the folder, atomically."""
        write_text(inside(self.path, name), text)

    def summary(self) -> Summary:
        """The summary of a finished run."""
        command = self.info.command
        resume = f"Resume it with: {command}" if command else "Repeat its command to resume it."
        missing = f"The run in {self.path} is not finished: it has no {SUMMARY}. {resume}"
        return serial.read(self.path / SUMMARY, Summary, missing=missing)

    def certificate(self) -> Certificate | None:
        """What `pivotal certify` wrote about an intervention of the run; None if it is about another one."""
        found = self._optional(CERTIFICATE, Certificate)
        if found is None or found.run is None or not 0 <= found.run < self.runs_saved():
            return None
        return found if found.intervention == self.intervention(found.run).fingerprint() else None

    def ablation(self) -> Ablations | None:
        """Single-unit ablation of the units; None if no study asked for it."""
        return self._optional(ABLATION, Ablations)

    def traces(self) -> Traces | None:
        """The outcomes of the held-out pairs; None if the run is not finished."""
        return self._optional(TRACES, Traces)

    def unit_profiles(self) -> UnitProfiles | None:
        """What each unit of the best run does in the untouched model; None if the run is not finished."""
        return self._optional(UNITS, UnitProfiles)

    def _optional(self, name: str, kind: type[T]) -> T | None:
        return serial.read(self.path / name, kind) if self._has(name) else None

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
        if not self._has(WHOLE_BASES):
            return {}
        return read_bases(self.path / BASES, serial.read(self.path / WHOLE_BASES, dict[str, BasisCard]))

    def runs_saved(self) -> int:
        """The number of runs whose interventions are saved."""
        saved = (self.path / INTERVENTIONS / str(run) / CARD for run in count())
        return sum(1 for _ in takewhile(Path.is_file, saved))


def holds_run(path: Path) -> bool:
    """Whether a folder is that of a run, even if another run is about to replace it."""
    # The other run may have its run.json after the first look and before the second.
    return any((path / name).is_file() for name in (RUN, REPLACED, RUN))


def no_run(path: Path) -> str:
    """The message about a path that is no run folder. It names one that may be meant."""
    if path.exists():
        held = any(path.glob(f"*/{RUN}"))
        cure = f"`pivotal list runs {path}` lists those in it" if held else "Give the --out folder of a run"
        return f"{path} is not a run folder: it has no {RUN}. {cure}."
    runs = (run.parent for home in (path.parent, Path("runs")) for run in home.glob(f"*/{RUN}"))
    known = {run.name: run for run in runs}
    guess = f" Did you mean {known[near]}?" if (near := nearest(path.name, known)) else ""
    return f"There is no folder {path}.{guess} `pivotal list runs` lists the runs in runs/."


# -- files ---------------------------------------------------------------------------------------------------------


def own_files(folder: Path, info: RunRecord) -> Iterator[Path]:
    """The files in a folder that its run wrote. The summary is first, because it marks the run as finished. run.json is
    last, because it marks the folder as a run. Links are not followed.

    The user may keep files of their own in the folder, also in its `figures` and `interventions`.
    """
    runs = range(len(info.seeds or ()))
    for name in (
        SUMMARY,
        *(f"{INTERVENTIONS}/{run}/{name}" for run in runs for name in (CARD, VALUES, BASES)),
        *(f"{FIGURES}/{name}.svg" for name in FIGURE_NAMES),
        *(CERTIFICATE, ABLATION, TRACES, UNITS, REPORT, HISTORY, CHECKPOINT, WHOLE_BASES, BASES, RUN),
    ):
        with suppress(PivotalError):  # behind a link
            yield inside(folder, name)


def _about_this_run() -> dict[str, Any]:
    from pivotal import __version__

    versions = {"python": platform.python_version(), "pivotal": __version__}
    versions |= {package: metadata.version(package) for package in ("torch", "numpy")}
    return {"versions": versions, "started": datetime.now(timezone.utc).isoformat(timespec="seconds")}
