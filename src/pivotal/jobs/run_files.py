"""The names of the files in a run folder, and which of the files in a folder the run wrote itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pivotal.records.intervention import BASES, CARD, VALUES
from pivotal.records.run import RunRecord

RUN, HISTORY, CHECKPOINT, SUMMARY, TRACES, CERTIFICATE, REPORT = (
    "run.json",
    "history.jsonl",
    "checkpoint.pt",
    "summary.json",
    "traces.json",
    "certificate.json",
    "report.html",
)
WHOLE_BASES = "bases.json"
"""The cards of the bases that were searched; their arrays are in bases.safetensors."""
UNITS = "units.json"
"""What each unit of the best run does in the untouched model."""
ABLATION = "ablation.json"
"""Single-unit ablation of the found units, if a study asked for it."""
INTERVENTIONS, FIGURES = "interventions", "figures"
FIGURE_NAMES = (
    "by-construction",
    "values",
    "drop-one",
    "control",
    "accuracy-kl",
    "learning",
    "stages",
    "cost",
    "natural",
    "dose",
)
"""The figures that the report draws."""


def own_files(folder: Path, info: RunRecord) -> Iterator[Path]:
    """The files in a folder that its run wrote; run.json last, because it marks the folder as a run.

    The user may keep files of their own in the folder, also in its `figures` and `interventions`.
    """
    for saved in _interventions(folder / INTERVENTIONS, info):
        yield from (saved / name for name in (CERTIFICATE, CARD, VALUES, BASES))
    yield from (folder / FIGURES / f"{name}.svg" for name in FIGURE_NAMES)
    for name in (
        *(CERTIFICATE, ABLATION, SUMMARY, TRACES, UNITS, REPORT, HISTORY, CHECKPOINT),
        *(WHOLE_BASES, BASES),
        RUN,
    ):
        yield folder / name


def remove_own_files(folder: Path, info: RunRecord) -> None:
    """Remove the files that the run wrote, and the folders that are then empty. Links are not followed."""
    for path in own_files(folder, info):
        within = [parent for parent in path.parents if folder in parent.parents]
        if any(parent.is_symlink() for parent in within):
            continue
        path.unlink(missing_ok=True)
        for parent in within:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def _interventions(home: Path, info: RunRecord) -> Iterator[Path]:
    """The folders of saved interventions, which have the numbers of the runs."""
    runs = info.settings.get("runs") if info.seeds is None else len(info.seeds)
    if not isinstance(runs, int) or not home.is_dir() or home.is_symlink():
        return
    for saved in sorted(entry for entry in home.iterdir() if entry.is_dir() and not entry.is_symlink()):
        if re.fullmatch("0|[1-9][0-9]{0,8}", saved.name) and int(saved.name) < runs:
            yield saved
