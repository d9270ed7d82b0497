"""`pivotal study`: many runs, one file of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import asked, show, typed
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.study.job import Executor, StudyPlan
    from pivotal.jobs.study.recipe import Resources

FAILED = 1
"""The exit code where some runs have failed: the rest is there, the same command tries them again."""


def study(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of one that comes with pivotal.")
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="CELLS",
            help="Cells whose name has this in it, or fits it with * and ?.",
            rich_help_panel=asked.QUESTION,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Runs of each cell. Default: the recipe's.",
            rich_help_panel=asked.QUESTION,
        ),
    ] = None,
    device: asked.Device = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Run on Ray, on this machine: several batches at a time.",
            rich_help_panel=asked.MACHINE,
        ),
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="A", help="Run on the Ray cluster at this address.", rich_help_panel=asked.MACHINE
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU cores for a batch. Default: the recipe's, else all, or 1 on Ray.",
            rich_help_panel=asked.MACHINE,
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0, help="GPUs, or a share of one, for a batch on Ray.", rich_help_panel=asked.MACHINE
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Its folder. Default: runs/study-NAME. An unfinished study goes on; one with more seeds too.",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would run and how long it may take; run nothing.",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = False,
    quiet: asked.Quiet = False,
) -> None:
    """Run all cells of a recipe (models, phenomena, settings) with all seeds, into one file of rows.

    Whatever has finished is not run again: after Ctrl-C, a kill, or with more seeds, the same command goes on. A
    run that fails is recorded with its error and tried again by the next call.
    """
    from pivotal.cli.study_board import watch
    from pivotal.jobs.study.job import dry_run as plan_of
    from pivotal.jobs.study.job import study as solve
    from pivotal.jobs.study.recipe import read_recipe
    from pivotal.jobs.study.telling import ending

    if gpus is not None and not ray and ray_address is None:
        raise PivotalError(
            f"--gpus says what a batch asks Ray for, but it is {gpus:g} and the study is not to run on Ray. Add --ray "
            "or --ray-address; or leave it out and choose a GPU with --device, such as cuda or cuda:1."
        )
    chosen = read_recipe(recipe)
    asks = chosen.resources
    asks = replace(asks, cpus=asks.cpus if cpus is None else cpus, gpus=asks.gpus if gpus is None else gpus)
    chosen = replace(chosen, resources=asks)
    executor = _executor(asks, ray, ray_address)
    if dry_run:
        _print(plan_of(chosen, out=out, only=only, runs=seeds, device=device, executor=executor))
        return
    with watch(quiet) as looking_on:
        studied = solve(
            chosen,
            out=out,
            only=only,
            runs=seeds,
            device=device,
            executor=executor,
            command=typed.command(),
            watch=looking_on,
        )
    show.line(ending(studied))
    if studied.failed:
        raise typer.Exit(FAILED)


def _executor(resources: Resources, ray: bool, address: str | None) -> Executor | None:
    if not ray and address is None:
        return None
    from pivotal.jobs.study.ray import OnRay

    return OnRay(resources, address)


def _print(plan: StudyPlan) -> None:
    from pivotal.jobs.study.telling import seeds_left, total
    from pivotal.report.tables import table

    if plan.note:
        show.error(plan.note)
    rows = [
        (s.cell.name, f"{s.done} of {s.wanted}", seeds_left(plan, s.cell) or "none") for s in plan.standings()
    ]
    show.table(table("", ("cell", "done", "seeds to run"), rows))
    show.line(f"\n{total(plan)}")
