"""The rows of a study by cell, and its tables, with the paper's numbers beside ours."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pivotal.files import asset
from pivotal.jobs.study.recipe import Recipe
from pivotal.printing import counted
from pivotal.records.study import UNKNOWN, FoundUnit, StudyRow
from pivotal.report.tables import Table, mean_and_spread, signed, table

PAPER = "paper"
ALL = "all"

Spread = tuple[float, float | None]
"""Mean, and standard deviation if there are several runs or the paper reports one."""

# -- rows by cell ------------------------------------------------------------------------------------------


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


# -- the paper ---------------------------------------------------------------------------------------------


Printed = Mapping[str, Any]
"""One line of the paper: a row of scores, or a table of units. `beside` has, by study, the labels of the line that it
is compared with."""


@cache
def printed_in(kind: str) -> tuple[Printed, ...]:
    """All lines of a kind that the paper reports: `scores` or `units`."""
    return tuple(json.loads(asset("paper.json").read_text(encoding="utf-8"))[kind])


def printed_beside(kind: str, study: str, cell: Mapping[str, str]) -> Printed | None:
    """The line of the paper that is compared with a cell."""
    return next((line for line in printed_in(kind) if line["beside"].get(study) == cell), None)


# -- tables ------------------------------------------------------------------------------------------------

_SCORES_NOTE = (
    "Mean ± standard deviation over the runs, on held-out pairs. {cost}, forward and backward, are those of all runs "
    "of a line together."
)
_COST, _TIMED_COST = "Million node evaluations", "Seconds of searching and million node evaluations"
_PAPER_NOTE = "The columns “paper” are what the paper prints for its own LSTM ({sources})."


def study_tables(recipe: Recipe, rows: Sequence[StudyRow]) -> list[Table]:
    """The tables that the recipe asks for."""
    lines = lines_of(recipe, rows)
    across = recipe.table.across
    if across is not None and recipe.table.kind == "frontier":
        return _frontier_tables(lines, across)
    shown = [_scores_table(recipe, lines) if across is None else _flips_table(lines, across)]
    if recipe.table.kind == "units":
        for line in filter(_comparable, lines):
            shown.append(_units_table(line, recipe.table.least))
            if printed := printed_beside("units", recipe.name, line.label):
                shown.append(_paper_units(line.name, printed))
    return shown


def lines_of(recipe: Recipe, rows: Sequence[StudyRow]) -> list[CellRows]:
    """The cells, with pooled lines if the recipe pools an axis."""
    found, pool = cells(recipe, rows), recipe.table.pool
    return found if pool is None else pooled(found, pool)


# -- scores ------------------------------------------------------------------------------------------------


def _scores_table(recipe: Recipe, lines: Sequence[CellRows]) -> Table:
    axes = list(dict.fromkeys(axis for cell in lines for axis in cell.label))
    beside = [printed_beside("scores", recipe.name, cell.label) or {} for cell in lines]
    columns = [
        (axis, [cell.label.get(axis, ALL if axis == cell.over else "") for cell in lines]) for axis in axes
    ]
    columns.append(("runs", [_count(cell) for cell in lines]))
    for metric in _METRICS:
        ours = [metric.of_cell(cell) for cell in lines]
        if metric is _FIDELITY and set(ours) == {"–"}:
            continue  # pairs without counterfactual prefixes
        columns.append((metric.title, ours))
        theirs = [printed.get(metric.name) for printed in beside]
        if any(theirs):
            columns.append((PAPER, [metric.text((*given, None)[:2]) if given else "" for given in theirs]))
    timed = [cell.seconds if cell.done else None for cell in lines]
    any_timed = any(second is not None for second in timed)
    if any_timed:
        columns.append(("seconds", ["–" if second is None else f"{second:,.1f}" for second in timed]))
    hours = [printed.get("hours") for printed in beside]
    if any(hours):
        columns.append((PAPER, [f"{spent:g} h" if spent else "" for spent in hours]))
    columns.append(("M nodes", [f"{cell.nodes / 1e6:,.2f}" if cell.done else "–" for cell in lines]))
    cost = _TIMED_COST if any_timed else _COST
    notes = _SCORES_NOTE.format(cost=cost), _sources(beside), unknown(lines), failures(lines)
    return table(
        "",
        [title for title, _ in columns],
        list(zip(*(texts for _, texts in columns), strict=True)),
        text=len(axes),
        note=" ".join(filter(None, notes)),
    )


def _across(
    lines: Sequence[CellRows],
    across: str,
    text: Callable[[CellRows], str],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    right: bool = False,
) -> Table:
    """A table with a column for each value of the axis `across`. `right` adds the accuracy of the untouched model."""
    axes = list(dict.fromkeys(axis for cell in lines for axis in cell.label if axis != across))
    by_line: dict[tuple[str, ...], dict[str, CellRows]] = defaultdict(dict)
    for cell in lines:
        line = tuple(cell.label.get(axis, ALL if axis == cell.over else "") for axis in axes)
        by_line[line][cell.label.get(across, ALL if across == cell.over else "")] = cell
    values = list(dict.fromkeys(value for line in by_line.values() for value in line))
    rows = [
        (
            *line,
            *([_right(found.values())] if right else []),
            *(text(found[v]) if v in found else "" for v in values),
        )
        for line, found in by_line.items()
    ]
    columns = [*axes, *([_RIGHT.title] if right else []), *values]
    return table(title, columns, rows, text=len(axes), note=" ".join(filter(None, notes)))


def _flips_table(lines: Sequence[CellRows], across: str) -> Table:
    note = (
        "Preferences flipped, in %, on held-out pairs: mean over the runs, ± standard deviation if there are several. "
        f"The columns are {across}; “{_RIGHT.title}” is the accuracy of the untouched model."
    )
    notes = (note, unknown(lines), failures(lines))
    return _across(lines, across, _METRICS[0].of_cell, notes=notes, right=True)


def _frontier_tables(lines: Sequence[CellRows], across: str) -> list[Table]:
    """Flips, KL and cost."""
    flipped, *_, kl = _METRICS
    note = "Mean ± standard deviation over the runs, on held-out pairs. Cost is that of all runs together."
    return [
        _across(lines, across, flipped.of_cell, title=f"Flipped %, by {across}"),
        _across(lines, across, kl.of_cell, title=f"KL, by {across}"),
        _across(
            lines,
            across,
            lambda cell: f"{cell.seconds or 0:,.1f} ({cell.nodes / 1e6:,.2f})" if cell.done else "–",
            title=f"Seconds (million node evaluations), by {across}",
            notes=(note, unknown(lines), failures(lines)),
        ),
    ]


@dataclass(frozen=True)
class _Metric:
    title: str
    name: str
    """Its key in the numbers of the paper."""
    of: Callable[[StudyRow], float | None]
    digits: int
    scale: int = 1

    def of_cell(self, cell: CellRows) -> str:
        return self.text(cell.spread(self.of))

    def text(self, spread: Spread | None) -> str:
        """Mean ± standard deviation, but never "100.0" for less than all."""
        if spread is None:
            return "–"
        mean, sd = self.scale * spread[0], spread[1]
        digits = self.digits + (self.scale == 100 and mean < 100 and f"{mean:.{self.digits}f}" == "100.0")
        return f"{mean:.{digits}f}" + ("" if sd is None else f" ± {self.scale * sd:.{digits}f}")


_FIDELITY = _Metric("fidelity %", "fidelity", lambda row: row.fidelity, digits=1, scale=100)
_METRICS = (
    _Metric("flipped %", "flip_accuracy", lambda row: row.accuracy, digits=1, scale=100),
    _FIDELITY,
    _Metric("units", "units", lambda row: row.units, digits=1),
    _Metric("KL", "kl", lambda row: row.kl, digits=3),
)


_RIGHT = _Metric("right %", "clean_accuracy", lambda row: row.clean_accuracy, digits=1, scale=100)


def _right(line: Iterable[CellRows]) -> str:
    """The accuracy of the untouched model, which does not depend on the run."""
    there = CellRows({}, tuple(row for cell in line for row in cell.rows)).spread(_RIGHT.of)
    return _RIGHT.text(None if there is None else (there[0], None))


def _count(cell: CellRows) -> str:
    done, all_runs = len(cell.done), len(cell.rows)
    return str(done) if done == all_runs else f"{done} of {all_runs}"


def _sources(beside: Sequence[Printed]) -> str:
    sources = list(dict.fromkeys(printed["source"] for printed in beside if printed))
    return _PAPER_NOTE.format(sources=", ".join(sources)) if sources else ""


def unknown(found: Sequence[CellRows]) -> str:
    """The cells whose model does not know the phenomenon; empty if there are none."""
    names = dict.fromkeys(row.name for cell in found for row in cell.rows if row.status == UNKNOWN)
    return f"Not searched, because the model does not know it: {'; '.join(names)}." if names else ""


def failures(found: Sequence[CellRows]) -> str:
    """The failed runs with their errors; empty if there are none."""
    failed = {row.run: row for cell in found for row in cell.rows if row.failed}
    if not failed:
        return ""
    cells: dict[str, dict[str, None]] = defaultdict(dict)
    for row in failed.values():
        # An error may have several lines, but a note must be one line, e.g. in a LaTeX comment.
        cells[" ".join(str(row.error).split())][row.name] = None
    reasons = [f"{'; '.join(names)}: {error.rstrip('.')}." for error, names in cells.items()]
    return f"{counted(len(failed), 'run')} failed. {' '.join(reasons)}"


# -- units -------------------------------------------------------------------------------------------------


def _comparable(line: CellRows) -> bool:
    """Whether all runs have the same model and phenomenon. Otherwise units and values cannot be compared."""
    return len({(row.model, row.phenomenon) for row in line.done}) <= 1


def _units_table(cell: CellRows, least: float) -> Table:
    units: dict[tuple[str, int], list[FoundUnit]] = defaultdict(list)
    for row in cell.done:
        for unit in row.found:
            units[unit.site, unit.index].append(unit)
    labels = list(dict.fromkeys(label for row in cell.done for unit in row.found for label in unit.values))
    runs = len(cell.done)
    often = [having for _, having in sorted(units.items()) if len(having) >= least * runs]
    rows = [
        (
            str(having[0]),
            *(mean_and_spread([unit.values.get(label) for unit in having]) for label in labels),
            f"{len(having) / runs:.0%}",
            _yes_or_no(having[0].by_ablation),
        )
        for having in often
    ]
    rare = len(units) - len(often)
    notes = (
        "" if runs else "No run has finished yet.",
        f"{counted(rare, 'further unit')} in fewer than {least:.0%} of the runs." if rare else "",
        failures([cell]),
    )
    return _units(f"{cell.name}: {counted(runs, 'run')}", labels, rows, " ".join(filter(None, notes)))


def _paper_units(name: str, printed: Printed) -> Table:
    labels = printed["labels"]
    rows = [
        (
            unit["unit"],
            *(f"{signed(unit['values'][label][0])} ± {unit['values'][label][1]:.2f}" for label in labels),
            f"{unit['prevalence']:.0%}",
            _yes_or_no(unit.get("found_by_ablation")),
        )
        for unit in printed["units"]
    ]
    title = f"{name}, the paper's LSTM: {counted(printed['runs'], 'run')} ({printed['source']})"
    return _units(title, labels, rows, "")


def _units(title: str, labels: Sequence[str], rows: Sequence[tuple[str, ...]], note: str) -> Table:
    columns = ("unit", *(f"→ {label}" for label in labels), "prevalence", "found by ablation")
    return Table(title, columns, tuple(rows), frozenset(range(1, len(columns) - 1)), note)


def _yes_or_no(found: bool | None) -> str:
    return "–" if found is None else "yes" if found else "no"
