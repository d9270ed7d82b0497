"""study.json and results.jsonl: which study a folder holds, and its results, one row per run. All tables of a study are
made from these rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pivotal.files import reading, write_text
from pivotal.records.evidence import Level, Word
from pivotal.records.serial import Number, Record, decode, encode

STUDY, RECIPE, RESULTS = "study.json", "recipe.yaml", "results.jsonl"

Status = Literal["done", "failed", "unknown", "known"]
DONE: Status = "done"
FAILED: Status = "failed"
UNKNOWN: Status = "unknown"
"""The model does not know the phenomenon, so nothing was searched."""
KNOWN: Status = "known"
"""The model knows the phenomenon. Only this was checked; the search is still to be run."""


class StudyRecord(Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-study-1"):
    """study.json: the name of the study and how it was started. Its recipe is in recipe.yaml beside it."""

    name: str
    command: str = ""
    """The command that starts or resumes the study; empty if it was started from Python."""
    started: str = ""
    """Date and time, UTC."""


class FoundUnit(Record, frozen=True, forbid_unknown_fields=False):
    """A unit of the set that a run found."""

    site: str
    index: int
    values: dict[str, Number | None]
    """By direction, the label that is flipped to; null if the unit is not set in that direction."""
    by_ablation: bool | None = None
    """Whether single-unit ablation would have found it; null if ablation was not run."""

    def __str__(self) -> str:
        return f"{self.site}:{self.index}"


class CrossScore(Record, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """Another phenomenon with the intervention of a run applied."""

    phenomenon: str
    pairs: int
    related: bool = False
    """Whether it is expected to move."""
    flipped: Number | None = None
    """The share of preferences that flip; null if its labels are not those of the intervention."""
    untouched: Number
    """The share of pairs for which the untouched model prefers the expected word."""
    edited: dict[str, Number]
    """The same by direction, with the intervention applied."""

    @property
    def moved(self) -> float:
        """The largest change in accuracy; rounded, so that 5 points are not more than 5 points."""
        return round(max((abs(share - self.untouched) for share in self.edited.values()), default=0.0), 9)


class JudgedRow(Record, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """The evidence for the best run of a batch, in short. The summary of the run folder has all of it."""

    verdict: Word
    failed: list[str] = []
    """The checks that failed."""
    missing: list[str] = []
    """The checks that were not made, or could not decide."""
    level: Level = "quick"
    p_value: Number | None = None
    """Of the random control."""
    natural: Number | None = None
    """The share that flips with every value moved into its unit's natural range."""
    interchange: Number | None = None
    """The share that flips with the units' states in the counterfactual prefixes."""
    whole_site: Number | None = None
    """The same for all units of the sites."""
    direct: Number | None = None
    """The share of the effect that goes straight to the output projection."""
    text: Number | None = None
    """The factor by which the perplexity of ordinary text grows."""
    cue_kl: Number | None = None
    """The KL of a real change of the cue."""
    held: tuple[Number, Number, Number] | None = None
    """The model's accuracy untouched, with the units held at their mean, and the least with random units held."""
    cross: list[CrossScore] = []
    """The other phenomena of the study."""


class StudyRow(Record, frozen=True, forbid_unknown_fields=False, kw_only=True):
    """A row of results.jsonl: one run. A failed run has null where there is no number.

    Unlike in other records, unknown keys are skipped. Results are published, and files of later versions may have
    further keys.
    """

    study: str
    cell: dict[str, str]
    """The labels of the cell, by axis, as in the recipe."""
    key: str
    """Identifies the settings of the cell: rows with the same key differ in the seed only."""
    seed: int
    status: Status

    model: str
    phenomenon: str
    steps: str
    sites: str
    values: str = "unbounded"
    """What units might be set to."""
    objective: str = "flips"
    """What the edited model should do."""
    split: str
    test: int | float | str | None
    split_seed: int
    priming: str | None
    dtype: str | None
    lower: bool = False
    unknown: str = "skip"
    columns: str = ""
    skip_bad: bool = False
    labels: str = ""
    keep: str = ""
    search: str
    preset: str | None
    options: dict[str, Any]
    """All settings of the search, including defaults."""

    error: str | None = None
    """Why the run failed or, if the model does not know the phenomenon, what it lacks."""
    folder: str | None = None
    """The run folder of the batch, relative to the folder of the study."""
    batch: list[int] = []
    """The seeds that were run together; nodes and seconds are those of the whole batch."""

    accuracy: Number | None = None
    """Share of held-out pairs whose preference is flipped."""
    interval: tuple[Number, Number] | None = None
    """95% interval of the accuracy."""
    by_group: dict[str, Number] = {}
    by_direction: dict[str, Number] = {}
    kl: Number | None = None
    """Averaged over all positions, as in the paper."""
    kl_after_edit: Number | None = None
    fidelity: Number | None = None
    """The share of the gap to the counterfactual that is closed where the words are asked."""
    fidelity_from_cue: Number | None = None
    """The same, from the cue to the end."""
    kl_before: Number | None = None
    """KL before the cue, a pure side effect."""
    units: int | None = None
    found: list[FoundUnit] = []
    all_units: int | None = None
    clean_accuracy: Number | None = None
    judged: JudgedRow | None = None
    """The evidence, if this is the best run of its batch."""
    pairs: dict[str, int] = {}
    """The numbers of pairs: train, test, dropped."""

    search_seconds: Number | None = None
    total_seconds: Number | None = None
    """Includes preparing the pairs and evaluation, but not loading the model, which serves many batches."""
    forward_nodes: int | None = None
    backward_nodes: int | None = None
    model_fingerprint: str | None = None
    data_fingerprint: str | None = None
    device: str | None = None
    machine: str | None = None
    versions: dict[str, str] = {}

    @property
    def run(self) -> tuple[str, int]:
        """Identifies the run. If two rows have the same run, the later row counts."""
        return self.key, self.seed

    @property
    def name(self) -> str:
        """The cell in words."""
        return ", ".join(self.cell.values())

    @property
    def done(self) -> bool:
        return self.status == DONE

    @property
    def failed(self) -> bool:
        return self.status == FAILED


def read_results(path: Path) -> tuple[StudyRow, ...]:
    """The last row of every run, in the order of the file."""
    if not path.exists():
        return ()
    with reading(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    rows: dict[tuple[str, int], StudyRow] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line:
            row = decode(line, StudyRow, f"{path}, line {number}", cure=_CURE)
            rows.pop(row.run, None)
            rows[row.run] = row
    return tuple(rows.values())


_CURE = "Remove the line or the file: `pivotal study` makes lost rows again from their run folders."


def write_results(path: Path, rows: Iterable[StudyRow]) -> None:
    """Replace the file, atomically."""
    write_text(path, "".join(encode(row, indent=0) + "\n" for row in rows))


FLAT = (
    *("model", "phenomenon", "steps", "sites", "split", "priming", "search", "preset", "seed", "status"),
    *("accuracy", "units", "kl", "kl_after_edit", "clean_accuracy"),
    *("objective", "fidelity", "fidelity_from_cue", "kl_before"),
    *("search_seconds", "total_seconds", "forward_nodes", "backward_nodes", "device", "machine", "error"),
    *("unit_names", "batch", "verdict"),
)
"""The columns of a flat row, after those of its cell."""


def flat(rows: Sequence[StudyRow]) -> list[dict[str, Any]]:
    """The rows as a data frame and a CSV file have them."""
    axes = dict.fromkeys(axis for row in rows for axis in row.cell)
    return [
        {f"cell: {axis}": row.cell.get(axis, "") for axis in axes}
        | {name: getattr(row, name, None) for name in FLAT}
        | {"unit_names": " ".join(map(str, row.found)), "batch": len(row.batch)}
        | {"verdict": row.judged and row.judged.verdict}
        for row in rows
    ]
