"""The rows of a study grouped by cell, for its tables and sentences."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pivotal.jobs.study.recipe import Recipe
from pivotal.records.study_rows import StudyRow
from pivotal.report.study_paper import Spread


@dataclass(frozen=True)
class CellRows:
    """A cell with its rows, or a pooled line: the rows of several cells, and the labels that they share."""

    label: Mapping[str, str]
    rows: tuple[StudyRow, ...]
    over: str | None = None
    """For a pooled line, the axis in which its cells differ."""

    @property
    def name(self) -> str:
        return ", ".join(self.label.values())

    @property
    def done(self) -> tuple[StudyRow, ...]:
        return tuple(row for row in self.rows if row.done)

    def spread(self, of: Callable[[StudyRow], float | None]) -> Spread | None:
        """Mean and standard deviation over the runs; None while there is no run."""
        there = [value for row in self.done if (value := of(row)) is not None]
        if not there:
            return None
        return statistics.fmean(there), statistics.stdev(there) if len(there) > 1 else None

    @property
    def seconds(self) -> float | None:
        """The search time of all runs together; None if a run was not timed."""
        timed = [row.search_seconds for row in batches(self.done)]
        return None if None in timed else sum(second for second in timed if second is not None)

    @property
    def nodes(self) -> int:
        """Node evaluations, forward and backward, of all runs together."""
        return sum((row.forward_nodes or 0) + (row.backward_nodes or 0) for row in batches(self.done))


def cells(recipe: Recipe, rows: Iterable[StudyRow]) -> list[CellRows]:
    """The cells in the order of the recipe, then cells that it no longer has. If the settings of a cell were changed,
    only the rows with the last settings are taken."""
    by_label: dict[tuple[tuple[str, str], ...], list[StudyRow]] = defaultdict(list)
    for draft in recipe.drafts:
        by_label[tuple(draft.label.items())] = []
    for row in rows:
        by_label[tuple(row.cell.items())].append(row)
    found = []
    for label, of_cell in by_label.items():
        current = tuple(row for row in of_cell if row.key == of_cell[-1].key)
        found.append(CellRows(dict(label), tuple(sorted(current, key=lambda row: row.seed))))
    return found


def pooled(of: Sequence[CellRows], axis: str) -> list[CellRows]:
    """The cells. Cells that differ only in `axis` are followed by a line that pools them."""
    groups: dict[tuple[bool, tuple[tuple[str, str], ...]], list[CellRows]] = defaultdict(list)
    for cell in of:
        shared = tuple((key, value) for key, value in cell.label.items() if key != axis)
        groups[axis in cell.label, shared].append(cell)
    lines: list[CellRows] = []
    for (_, shared), parts in groups.items():
        lines += parts
        if len(parts) > 1:
            lines.append(CellRows(dict(shared), tuple(row for cell in parts for row in cell.rows), axis))
    return lines


def batches(rows: Iterable[StudyRow]) -> list[StudyRow]:
    """One row of each batch, because seconds and nodes are those of the whole batch."""
    return list({(row.key, tuple(row.batch) or row.seed): row for row in rows}.values())
