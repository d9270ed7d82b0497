"""`pivotal study`: many runs, collected in one file of results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import command_line, complete, shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.study.job import Executor, Studied, StudyPlan
    from pivotal.jobs.study.recipe import Resources

FAILED = 1
"""The exit code if some runs failed. The other results are saved, and the same command tries the failed runs again."""


def study(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or a name from `pivotal list recipes`.",
            autocompletion=complete.recipes,
            show_default=False,
        ),
    ],
    only: Annotated[
        str | None,
        shared_options.in_question(
            "Run only cells whose name contains this text or matches it (* and ? are wildcards).",
            metavar="CELLS",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        shared_options.in_question("Number of runs of each cell. Default: the recipe's.", min=1, metavar="N"),
    ] = None,
    device: shared_options.Device = None,
    ray: Annotated[
        bool, shared_options.in_machine("Run on Ray on this machine, several batches at a time.", "--ray")
    ] = False,
    ray_address: Annotated[
        str | None, shared_options.in_machine("Run on the Ray cluster at this address.", metavar="ADDRESS")
    ] = None,
    cpus: Annotated[
        int | None,
        shared_options.in_machine(
            "CPU cores per batch. Default: the recipe's, otherwise all, or 1 on Ray.", min=1
        ),
    ] = None,
    gpus: Annotated[
        float | None, shared_options.in_machine("GPUs per batch on Ray; may be a fraction.", min=0)
    ] = None,
    out: Annotated[
        str | None,
        shared_options.in_output(
            "The folder of the study. Default: runs/study-NAME. An unfinished study is resumed.",
            metavar="DIR",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        shared_options.in_output(
            "Show what would run and how long it may take, and run nothing.", "--dry-run"
        ),
    ] = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Run all cells of a recipe (models, phenomena, settings) with all seeds, and collect the results in one file.

    Finished runs are not repeated: after Ctrl-C, after a kill, or with more seeds, the same command continues. A run
    that fails is recorded with its error, and the next call tries it again.
    """
    from pivotal.cli.study_board import watch
    from pivotal.jobs.study.job import dry_run as plan_of
    from pivotal.jobs.study.job import study as solve
    from pivotal.jobs.study.messages import ending
    from pivotal.jobs.study.recipe import read_recipe

    if gpus is not None and not ray and ray_address is None:
        raise PivotalError(
            f"--gpus reserves GPUs on Ray, but it is {gpus:g} and the study does not run on Ray. Add --ray or "
            "--ray-address, or leave --gpus out and choose a GPU with --device, such as cuda or cuda:1."
        )
    chosen = read_recipe(recipe)
    asks = chosen.resources
    asks = replace(asks, cpus=asks.cpus if cpus is None else cpus, gpus=asks.gpus if gpus is None else gpus)
    chosen = replace(chosen, resources=asks)
    executor = _executor(asks, ray, ray_address)
    if dry_run:
        plan = plan_of(chosen, out=out, only=only, runs=seeds, device=device, executor=executor)
        if plan.note:
            terminal.error(plan.note)
        if json:
            terminal.as_json(_planned(plan))
        else:
            _print(plan)
        return
    with watch(quiet) as watching:
        studied = solve(
            chosen,
            out=out,
            only=only,
            runs=seeds,
            device=device,
            executor=executor,
            command=command_line.command(),
            watch=watching,
        )
    if json:
        terminal.as_json(_studied(studied))
    else:
        terminal.line(ending(studied))
    if studied.failed:
        raise typer.Exit(FAILED)


def _executor(resources: Resources, ray: bool, address: str | None) -> Executor | None:
    if not ray and address is None:
        return None
    from pivotal.jobs.study.ray import OnRay

    return OnRay(resources, address)


def _planned(plan: StudyPlan) -> dict[str, Any]:
    cells = [
        {
            "cell": s.cell.name,
            "key": s.cell.key,
            "runs": s.wanted,
            "done": s.done,
            "seeds_left": [seed for b in plan.batches if b.cell.key == s.cell.key for seed in b.seeds],
        }
        for s in plan.standings()
    ]
    return {"folder": str(plan.folder), "cells": cells, "seconds": plan.estimate.seconds}


def _studied(studied: Studied) -> dict[str, Any]:
    from pivotal.records.study_rows import RESULTS

    return {
        "folder": str(studied.folder),
        "results": str(studied.folder / RESULTS),
        "failed": [{"cell": row.name, "seed": row.seed, "error": row.error} for row in studied.failed],
        "rows": list(studied.rows),
    }


def _print(plan: StudyPlan) -> None:
    from pivotal.jobs.study.messages import seeds_left, total
    from pivotal.report.tables import table

    rows = [
        (s.cell.name, f"{s.done} of {s.wanted}", seeds_left(plan, s.cell) or "none") for s in plan.standings()
    ]
    terminal.table(table("", ("cell", "done", "seeds to run"), rows))
    terminal.line(f"\n{total(plan)}")
