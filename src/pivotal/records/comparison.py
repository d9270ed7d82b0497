"""compare.json: searches compared on one question, a row for each search, mode and number of units."""

from __future__ import annotations

from typing import Any, Literal

from pivotal.records.serial import Number, Record
from pivotal.records.summary import PairCounts, Rejections
from pivotal.units import Steps, Values

Mode = Literal["converged", "equal"]

CONVERGED: Mode = "converged"
"""Each search runs to its own end."""
EQUAL: Mode = "equal"
"""Each search gets the same number of node evaluations."""


class RunSpread(Record, frozen=True, kw_only=True):
    """A score over the runs of a row."""

    mean: Number
    sd: Number | None
    """Null for a single run."""
    min: Number
    max: Number
    median: Number
    best: Number
    """The value of the run that is best on training pairs, which need not be the largest."""


class ComparedRun(Record, frozen=True, kw_only=True):
    """One run of a search with one number of units, scored on held-out pairs."""

    seed: int
    flip_accuracy: Number
    units: int
    kl: Number
    kl_after_edit: Number
    train_score: Number
    unit_ids: tuple[int, ...]
    unit_labels: tuple[str, ...]
    unit_numbers: tuple[int, ...]


class ComparisonRow(Record, frozen=True, omit_defaults=True, kw_only=True):
    """What a search found with one number of units, and its cost."""

    search: str
    """The label of the search: its name, or name@preset."""
    mode: Mode
    size: int
    """The most units allowed."""
    seeds: tuple[int, ...]
    best: int
    """The run with the best score on training pairs."""
    flip_accuracy: RunSpread
    units: RunSpread
    kl: RunSpread
    kl_after_edit: RunSpread
    max_kl: float | None = None
    """The bound on KL; absent if the search has none."""
    kl_bound_kept: int | None = None
    """The number of runs that keep the bound, up to a tenth."""
    forward_nodes: int
    """Node evaluations of all runs together."""
    backward_nodes: int
    seconds: Number
    runs: tuple[ComparedRun, ...]
    interventions: str = ""
    """The folder of the interventions, relative to the folder of the comparison."""
    budget: int | None = None
    """Node evaluations allowed, in the mode `equal`."""
    changed: dict[str, Any] | None = None
    """Settings that were changed to keep the budget, in the mode `equal`."""

    @property
    def key(self) -> tuple[Mode, str, int]:
        return self.mode, self.search, self.size

    @property
    def nodes(self) -> int:
        return self.forward_nodes + self.backward_nodes

    @property
    def bound_kept(self) -> bool:
        return self.kl_bound_kept is None or self.kl_bound_kept == len(self.runs)


class ComparisonRecord(Record, frozen=True, kw_only=True):
    """compare.json: the finished rows, and what they have in common."""

    finished: bool
    """Whether all rows are finished."""
    model: str
    phenomenon: str
    steps: Steps
    values: Values | None = None
    """What units could be set to, unless the preset of a search states other values; absent in earlier versions."""
    labels: tuple[str, str]
    all_units: int
    """The number of units searched."""
    clean_accuracy: Number | None
    """How often the untouched model prefers the expected word; null if no pair states one."""
    labelled: int | None = None
    """The held-out pairs that state an expected word."""
    pairs: PairCounts
    rejected: Rejections
    seed: int
    runs: int
    """Runs of each search."""
    sizes: tuple[int, ...]
    """The numbers of units allowed."""
    mode: Literal["converged", "equal", "both"]
    budget: int | None
    """Node evaluations for each number of units in the mode `equal`; null if the reference sets the budget."""
    reference: str | None
    """The search whose cost is the budget of the other searches; null if there is none."""
    searches: dict[str, dict[str, Any]]
    """The name, the preset and the options of each search, by label, with the values that its preset states."""
    rows: tuple[ComparisonRow, ...]
