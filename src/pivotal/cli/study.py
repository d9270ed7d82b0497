"""`pivotal study`: many runs, collected in one file of results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import command_line, complete, shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.study.job import Executor, Studied, StudyPlan
    from pivotal.jobs.study.recipe import Recipe, Resources

FAILED = 1
"""The exit code if some runs failed. The other results are saved, and the same command tries the failed runs again."""


Only = Annotated[
    str | None,
    shared_options.in_question(
        "Run only cells whose name contains this text or matches it (* and ? are wildcards).",
        metavar="CELLS",
    ),
]
Seeds = Annotated[
    int | None,
    shared_options.in_question("Number of runs of each cell. Default: the recipe's.", min=1, metavar="N"),
]
OnThisMachine = Annotated[
    bool, shared_options.in_machine("Run on Ray on this machine, several batches at a time.", "--ray")
]
RayAddress = Annotated[
    str | None, shared_options.in_machine("Run on the Ray cluster at this address.", metavar="ADDRESS")
]
Cpus = Annotated[
    int | None,
    shared_options.in_machine(
        "CPU cores per batch. Default: the recipe's, otherwise all, or 1 on Ray.", min=1
    ),
]
Gpus = Annotated[float | None, shared_options.in_machine("GPUs per batch on Ray; may be a fraction.", min=0)]
Out = Annotated[
    str | None,
    shared_options.in_output(
        "The folder of the study. Default: runs/study-NAME. An unfinished study is resumed.",
        metavar="DIR",
    ),
]
DryRun = Annotated[
    bool,
    shared_options.in_output("Show what would run and how long it may take, and run nothing.", "--dry-run"),
]


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
    only: Only = None,
    seeds: Seeds = None,
    device: shared_options.Device = None,
    ray: OnThisMachine = False,
    ray_address: RayAddress = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    out: Out = None,
    dry_run: DryRun = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Run all cells of a recipe (models, phenomena, settings) with all seeds, and collect the results in one file.

    Finished runs are not repeated: after Ctrl-C, after a kill, or with more seeds, the same command continues. A run
    that fails is recorded with its error, and the next call tries it again.
    """
    from pivotal.jobs.study.recipe import read_recipe

    chosen = read_recipe(recipe)
    studied = carry_out(
        chosen, only, seeds, device, (ray, ray_address, cpus, gpus), out, dry_run, json, quiet
    )
    if studied is not None:
        finish(studied, json)


def finish(studied: Studied, json: bool, *more: str) -> None:
    """Print how a study ended, and exit with an error code if a run failed."""
    from pivotal.jobs.study.messages import ending

    if json:
        terminal.as_json(_studied(studied))
    else:
        for text in (ending(studied), *more):
            terminal.line(text)
    if studied.failed:
        raise typer.Exit(FAILED)


def carry_out(
    recipe: Recipe,
    only: str | None,
    seeds: int | None,
    device: str | None,
    machines: tuple[bool, str | None, int | None, float | None],
    out: str | None,
    dry_run: bool,
    json: bool,
    quiet: bool,
    check: bool = False,
) -> Studied | None:
    """Run the study of a recipe; with `dry_run`, print the plan and return None. With `check`, search nothing.

    `machines` are the options --ray, --ray-address, --cpus and --gpus.
    """
    from pivotal.jobs.study.job import dry_run as plan_of
    from pivotal.jobs.study.job import study as solve
    from pivotal.watch import display

    ray, ray_address, cpus, gpus = machines
    if gpus is not None and not ray and ray_address is None:
        raise PivotalError(
            f"--gpus reserves GPUs on Ray, but it is {gpus:g} and the study does not run on Ray. Add --ray or "
            "--ray-address, or leave --gpus out and choose a GPU with --device, such as cuda or cuda:1."
        )
    asks = recipe.resources
    asks = replace(asks, cpus=asks.cpus if cpus is None else cpus, gpus=asks.gpus if gpus is None else gpus)
    recipe = replace(recipe, resources=asks)
    executor = _executor(asks, ray, ray_address)
    if dry_run:
        plan = plan_of(recipe, out=out, only=only, runs=seeds, device=device, executor=executor, check=check)
        if plan.note:
            terminal.error(plan.note)
        if json:
            terminal.as_json(_planned(plan))
        else:
            _print(plan)
        return None
    with display(quiet) as watching:
        return solve(
            recipe,
            out=out,
            only=only,
            runs=seeds,
            device=device,
            executor=executor,
            command=command_line.command(),
            watch=watching,
            check=check,
        )


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
    return {"folder": str(plan.folder), "cells": cells, "seconds": plan.seconds}


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
