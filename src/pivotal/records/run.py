"""What a run writes while it searches: run.json, the rows of history.jsonl, and the JSON part of checkpoint.pt."""

from __future__ import annotations

from typing import Any

from pivotal.records.serial import Number, Record


class RunRecord(
    Record, frozen=True, omit_defaults=True, kw_only=True, tag_field="format", tag="pivotal-run-1"
):
    """run.json: the settings of a run, and how it was started."""

    settings: dict[str, Any]
    """Everything that decides the result: the question, the search with its options, and the fingerprints of all that
    they name: the model, the pairs, what must stay, bases in files, and an intervention to start from. Equal settings
    make it the same run."""
    versions: dict[str, str] = {}
    """Of Python, pivotal, torch and numpy."""
    started: str = ""
    """Date and time, UTC."""
    command: str | None = None
    """The command that starts or resumes it; empty if it was started from Python."""
    model: str | None = None
    """A description of the model."""
    in_memory: bool = False
    """Whether the model was made from a module in memory, so that no name loads it."""
    device: str | None = None
    machine: str | None = None
    """The processor, or the GPU if one was used."""
    seeds: tuple[int, ...] | None = None
    """The seed of each run."""


class Progress(Record, frozen=True):
    """The progress of a job, for a progress bar and as a row of history.jsonl. Lists have one number per run."""

    phase: str
    """What the job is doing, such as `learn`, `refit` or the name of a stage."""
    update: int
    """Updates done in this phase."""
    updates: int
    """All updates of this phase; 0 if their number is not known."""
    loss: list[Number] = []
    units: list[Number] = []
    """Units in the mask; the expected number while the mask is relaxed."""
    accuracy: list[Number] = []
    """Share of flipped preferences on the training pairs of the batch."""
    extra: dict[str, list[Number]] = {}
    """Further series by name, such as `multiplier`."""


class CheckpointRecord(Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-checkpoint-1"):
    """The JSON in checkpoint.pt: the progress of a search. The file also holds the state of the search, as tensors."""

    rows: int
    """The number of rows in history.jsonl when the checkpoint was saved."""
    forward: int
    """Node evaluations so far."""
    backward: int
    seconds: float
    """Time spent on the search, including earlier processes."""
    stages: tuple[dict[str, dict[str, Number]], ...] | None = None
    """The scores of each run at each stage; null until the search has finished."""
