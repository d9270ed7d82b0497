"""The run folder: what was asked, how it went, what was found. Written atomically; a killed run goes on."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TextIO

from safetensors import SafetensorError

from pivotal.errors import PivotalError
from pivotal.files import PARTIAL, differences, disk, lock, plain, read_json, write_atomically
from pivotal.records.intervention import Intervention
from pivotal.records.traces import Traces

Kind = Literal["run", "comparison"]

FORMAT: dict[Kind, str] = {"run": "pivotal-run-1", "comparison": "pivotal-comparison-1"}

RUN, HISTORY, CHECKPOINT, SUMMARY, TRACES, CERTIFICATE, REPORT = (
    "run.json",
    "history.jsonl",
    "checkpoint.pt",
    "summary.json",
    "traces.json",
    "certificate.json",
    "report.html",
)
ABLATION = "ablation.json"
"""Beside the summary, if it was asked: which units replacing each unit alone would have found."""
INTERVENTIONS, FIGURES = "interventions", "figures"
COMPARE, COMPARED = "compare.json", tuple(f"compare.{kind}" for kind in ("md", "csv", "tex", "svg", "png"))
RESULT: dict[Kind, str] = {"run": SUMMARY, "comparison": COMPARE}


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run, or one comparison of many. `settings` decide the result: equal settings make it
    the same run."""

    path: Path
    settings: dict[str, Any]
    info: dict[str, Any]
    """What else run.json says: command, versions, when it started. Does not bear on the result."""
    kind: Kind = "run"

    @staticmethod
    def create(
        path: str | Path,
        settings: Mapping[str, Any],
        *,
        overwrite: bool = False,
        info: Mapping[str, Any] | None = None,
        kind: Kind = "run",
    ) -> RunFolder:
        """A new run's folder, or the one of an unfinished run with the same settings, to go on with."""
        path = Path(path)
        wanted = json.loads(json.dumps(plain(settings)))
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
            if (path / RUN).is_file():
                found = RunFolder.open(path)
                if not overwrite:
                    found._check_resumable(wanted, kind)
                    return found
                for name in (RUN, HISTORY):  # whoever works on it holds the lock of one of them
                    if (path / name).is_file():
                        with (path / name).open(encoding="utf-8") as file:
                            lock(file, path)
                RunFolder._clear(path)
            elif foreign := sorted(p.name for p in path.iterdir() if p.name != RUN + PARTIAL):
                raise PivotalError(
                    f"A run needs a folder of its own, but {path} holds other files ({_few(foreign)}). "
                    "Nothing was touched; name another folder with --out."
                )
        folder = RunFolder(path, wanted, {**_about_this_run(), **(info or {})}, kind)
        folder.write_json(RUN, {"format": FORMAT[kind], "settings": wanted, **folder.info})
        return folder

    @staticmethod
    def open(path: str | Path) -> RunFolder:
        path = Path(path)
        content = read_json(
            path / RUN, missing=f"{path} is no run folder: it has no {RUN}. Give the --out folder of a run."
        )
        kinds = {form: kind for kind, form in FORMAT.items()}
        if content.get("format") not in kinds or not isinstance(content.get("settings"), dict):
            raise PivotalError(
                f"{path / RUN} must be of the format '{FORMAT['run']}', but it is {content.get('format')!r}. "
                "It was made by something else, or by another version of pivotal."
            )
        info = {key: value for key, value in content.items() if key not in ("format", "settings")}
        return RunFolder(path, content["settings"], info, kinds[content["format"]])

    def __repr__(self) -> str:
        asked = f"{self.settings.get('phenomenon')} in {self.settings.get('model')}"
        return (
            f"RunFolder({self.path}: a {self.kind}, {asked}, {'finished' if self.finished else 'unfinished'})"
        )

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import run_html

        return run_html(self)

    def plot(self) -> Any:
        """Flipped preferences of a finished run by construction and direction, as an altair chart."""
        from pivotal.report.notebook import plot_run

        return plot_run(self)

    @property
    def result(self) -> Path:
        return self.path / RESULT[self.kind]

    @property
    def finished(self) -> bool:
        """A comparison writes its result row by row, and says there whether it is whole."""
        return self.result.is_file() and bool(read_json(self.result, missing="").get("finished", True))

    @property
    def report(self) -> Path:
        return self.path / REPORT

    def _check_resumable(self, wanted: dict[str, Any], kind: Kind) -> None:
        if kind != self.kind:
            raise PivotalError(
                f"{self.path} holds a {self.kind}, not a {kind}. "
                "Name another folder with --out, or replace what is there with --overwrite."
            )
        differing = differences(self.settings, wanted)
        if differing:
            raise PivotalError(
                f"{self.path} holds another {self.kind}: {'; '.join(differing)}. "
                f"Name another folder with --out, or replace that {self.kind} with --overwrite."
            )
        # A comparison repeats nothing that is there, so that it can be gone on with for its report alone.
        if self.finished and (self.kind == "run" or self.report.is_file()):
            raise PivotalError(
                f"This very {self.kind} is finished: see {self.result} and {self.report.name} beside it. "
                "To run it again use --overwrite, or another folder with --out."
            )

    @staticmethod
    def _clear(path: Path) -> None:
        """Removes what a run makes, nothing else; run.json last: until then the folder is known as ours."""
        for folder in (path / INTERVENTIONS, path / FIGURES):
            if folder.is_dir() and not folder.is_symlink():
                for entry in folder.iterdir():
                    if entry.suffix == ".svg" and folder.name == FIGURES:
                        entry.unlink()
                    elif folder.name == INTERVENTIONS and _holds_interventions(entry):
                        shutil.rmtree(entry)
                if not any(folder.iterdir()):
                    folder.rmdir()
        for name in (
            CERTIFICATE,
            ABLATION,
            SUMMARY,
            TRACES,
            COMPARE,
            *COMPARED,
            REPORT,
            HISTORY,
            CHECKPOINT,
            RUN,
        ):
            (path / name).unlink(missing_ok=True)

    def discard(self) -> None:
        with disk(self.path):
            self._clear(self.path)
            if not any(self.path.iterdir()):
                self.path.rmdir()

    # -- what is found -------------------------------------------------------------------------------------

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        self.write_text(name, text)

    def write_text(self, name: str, text: str) -> None:
        target = self.path / name
        with disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, lambda partial: Path(partial).write_text(text, encoding="utf-8"))

    def summary(self) -> dict[str, Any]:
        return read_json(
            self.result,
            missing=f"The {self.kind} in {self.path} is not finished: it has no {self.result.name}. "
            f"Go on with it: {self.info.get('command', 'repeat its command')}",
        )

    def certificate(self) -> dict[str, Any] | None:
        """What `pivotal certify` wrote, if it was asked."""
        path = self.path / CERTIFICATE
        return read_json(path, missing="") if path.is_file() else None

    def traces(self) -> Traces | None:
        """What became of the held-out pairs; runs of earlier versions do not have it."""
        path = self.path / TRACES
        return Traces.of(read_json(path, missing=""), str(path)) if path.is_file() else None

    def history(self) -> list[dict[str, Any]]:
        """The rows written so far; a row cut off by a kill is left out."""
        path = self.path / HISTORY
        if not path.is_file():
            return []
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def save_interventions(self, interventions: Sequence[Intervention], under: str = "") -> None:
        """Those of the runs; a comparison has them `under` a folder for each search and number of units."""
        with disk(self.path / INTERVENTIONS):
            for r, intervention in enumerate(interventions):
                try:
                    intervention.save(self.path / INTERVENTIONS / under / str(r))
                except SafetensorError as error:  # how safetensors reports a full disk
                    raise OSError(str(error)) from None

    def intervention(self, run: int | None = None) -> Intervention:
        """That of one run; by default of the best run, or of run 0 while there is no summary."""
        count = self.runs_saved()
        if not count:
            raise PivotalError(f"The run in {self.path} has saved no intervention yet. Go on with it first.")
        if run is None:
            run = int(self.summary()["best"]) if self.finished else 0
        if not 0 <= run < count:
            raise PivotalError(
                f"The run in {self.path} has the runs 0 to {count - 1}; there is no run {run}."
            )
        return Intervention.load(self.path / INTERVENTIONS / str(run))

    def runs_saved(self) -> int:
        folder = self.path / INTERVENTIONS
        return sum(1 for entry in folder.iterdir() if entry.name.isdigit()) if folder.is_dir() else 0


class History:
    """history.jsonl, open for appending and locked: two processes must not write one run."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / HISTORY
        with disk(self._path):
            self._file: TextIO = self._path.open("a+", encoding="utf-8")
        lock(self._file, folder.path)
        self.rows = 0

    def keep(self, rows: int) -> None:
        """Cuts off what was written after the checkpoint that has `rows` rows."""
        with disk(self._path):
            self._file.seek(0)
            kept = [len(line.encode()) for _, line in zip(range(rows), self._file, strict=False)]
            self._file.truncate(sum(kept))
        self.rows = len(kept)

    def append(self, row: Mapping[str, Any]) -> None:
        with disk(self._path):
            self._file.write(json.dumps(plain(row), allow_nan=False) + "\n")
            self._file.flush()
        self.rows += 1

    def close(self) -> None:
        self._file.close()


def default_path(phenomenon: str, steps: str, model: str, settings: Mapping[str, Any]) -> Path:
    """`runs/<phenomenon>-<steps>-<model>`, numbered if another run or another's files have that name."""
    name = "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in (phenomenon, steps, model))
    wanted = json.loads(json.dumps(plain(settings)))
    number = 1
    while True:
        path = Path("runs") / (name if number == 1 else f"{name}-{number}")
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return path
        if (path / RUN).is_file() and not differences(RunFolder.open(path).settings, wanted):
            return path
        number += 1


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


def _holds_interventions(entry: Path) -> bool:
    """An intervention of ours, or a folder of them and of nothing else."""
    if entry.is_symlink() or not entry.is_dir():
        return False
    return entry.name.isdigit() or all(child.name.isdigit() and child.is_dir() for child in entry.iterdir())


def _few(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
