"""The messages of a study before it starts and after it ends, in plain lines."""

from __future__ import annotations

from pivotal.jobs.study.cells import Cell
from pivotal.jobs.study.job import Studied, StudyPlan
from pivotal.jobs.study.merge import Merged
from pivotal.jobs.study.standing import counted
from pivotal.printing import duration
from pivotal.records.study_rows import KNOWN, RESULTS, UNKNOWN, Status


def planned(plan: StudyPlan) -> list[str]:
    """A line for each cell, and the estimated time."""
    lines = [plan.note] if plan.note else []
    for standing in plan.standings():
        left = seeds_left(plan, standing.cell)
        would = f"would run the seeds {left}" if left else "nothing left to run"
        lines.append(f"{standing.cell.name}: {standing.done} of {standing.wanted} done; {would}")
    return [*lines, total(plan)]


def seeds_left(plan: StudyPlan, cell: Cell) -> str:
    """The batches that would run, by their seeds."""
    batches = [batch.seeds for batch in plan.batches if batch.cell.key == cell.key]
    return ", ".join(str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" for seeds in batches)


def total(plan: StudyPlan) -> str:
    runs, batches = sum(len(batch.seeds) for batch in plan.batches), len(plan.batches)
    done = sum(standing.done for standing in plan.standings())
    if not batches:
        return f"Everything is done ({counted(done)}): see {plan.folder / RESULTS}."
    left = f"Done: {counted(done)}. Left: {counted(runs)} in {batches} batch{'es' * (batches > 1)}"
    if plan.estimate is not None:
        left += f", about {duration(plan.estimate.seconds)} one after the other ({plan.estimate.source})"
    return f"{left}. Nothing was run."


def ending(studied: Studied) -> str:
    failed = studied.failed
    done = f"Done: {counted(sum(row.done for row in studied.rows))}, in {studied.folder / RESULTS}."
    if unknown := _cells(studied, UNKNOWN):
        done += f" Not searched: {unknown} whose model does not know the phenomenon."
    if known := _cells(studied, KNOWN):
        done += f" To be searched: {known} whose model knows it."
    if not failed:
        return done
    first = f"{failed[0].name}: {failed[0].error}"
    return f"{done} Failed: {counted(len(failed))}; the same command tries again. The first is {first}"


def _cells(studied: Studied, status: Status) -> str:
    """The number of cells with that status in words; empty if there are none."""
    cells = len({row.name for row in studied.rows if row.status == status})
    return f"{cells} cell{'s' * (cells > 1)}" if cells else ""


def merged(done: Merged) -> str:
    said = [f"Taken: {counted(done.taken)}."]
    if done.had:
        said.append(f"Left out: {counted(done.had)} that an earlier folder has.")
    if done.foreign:
        said.append(f"Left out: {counted(done.foreign)} of cells that the recipe does not have.")
    said.append(f"{done.folder / RESULTS} has {done.finished} of the {counted(done.runs)} of the recipe.")
    return " ".join(said)
