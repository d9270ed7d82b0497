"""`pivotal study`, `pivotal compare` and `pivotal atlas`: many runs, collected in one file of results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_question, in_search
from pivotal.errors import PivotalError
from pivotal.questions.question import Question

if TYPE_CHECKING:
    from pivotal.jobs.study.job import Studied, StudyPlan
    from pivotal.jobs.study.recipe import Recipe

FAILED = 1
"""The exit code if some runs failed. The other results are saved, and the same command tries the failed runs again."""


@dataclass(frozen=True)
class StudyOptions:
    only: str | None = None
    """Run only cells whose name contains this text or matches it (* and ? are wildcards)."""
    seeds: int | None = None
    """Number of runs of each cell. Default: the recipe's."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    ray: str | None = None
    """Run several batches at a time on the Ray cluster at this address; `local` starts Ray on this machine."""
    cpus: int | None = None
    """CPU cores per batch. Default: the recipe's, otherwise all, or 1 on Ray."""
    gpus: float | None = None
    """GPUs per batch on Ray; may be a fraction."""
    out: str | None = None
    """The folder of the study. Default: runs/study-NAME. An unfinished study is resumed."""
    dry_run: bool = False
    """Show what would run, and run nothing."""
    json: bool = False
    """Print the result as JSON."""
    quiet: bool = False
    """Show no progress and no tables, only the result."""


def carry_out(
    recipe: Recipe,
    options: StudyOptions,
    *,
    report: Callable[[Path], object] | None = None,
    check: bool = False,
) -> Studied | None:
    """Run the study of a recipe; with `dry_run`, print the plan and return None. With `check`, search nothing."""
    from pivotal.jobs.study.job import dry_run as plan_of
    from pivotal.jobs.study.job import study as solve
    from pivotal.watch import display

    gpus = options.gpus
    if gpus is not None and options.ray is None:
        raise PivotalError("--gpus is for Ray. Add --ray local, or choose a GPU with --device, e.g. cuda:1.")
    stated: dict[str, Any] = {"cpus": options.cpus, "gpus": gpus}
    asks = replace(recipe.resources, **{name: value for name, value in stated.items() if value is not None})
    executor = None
    if options.ray is not None:
        from pivotal.jobs.study.ray import OnRay

        executor = OnRay(asks, options.ray)
    asked: dict[str, Any] = {"out": options.out, "only": options.only, "runs": options.seeds}
    asked |= {"device": options.device, "check": check, "executor": executor}
    if options.dry_run:
        _print(plan_of(recipe, **asked), options.json)
        return None
    with display(options.quiet) as watch:
        recipe = replace(recipe, resources=asks)
        return solve(recipe, **asked, command=terminal.command(), watch=watch, report=report)


@dataclass(frozen=True)
class MergeOptions:
    help_panel: ClassVar[str] = shared_options.OUTPUT

    merge: list[str] | None = None
    """Run nothing; copy the finished runs of this folder of the same study, e.g. from another machine. May be repeated.
    If several folders have a run, the one in --out is kept, otherwise the one named first."""
    light: bool = False
    """With --merge: copy the interventions of the runs, not their whole folders."""


@shared_options.takes_options
def study(
    options: StudyOptions,
    merging: MergeOptions,
    recipe: Annotated[
        str,
        argument(
            "A YAML file, or a name from `pivotal list recipes`.",
            metavar="RECIPE",
            autocompletion=complete.recipes,
        ),
    ],
) -> None:
    """Run all cells of a recipe (models, phenomena, settings) with all seeds, and collect the results in one file.

    Finished runs are never repeated: the same command resumes after Ctrl-C or a kill, and adds seeds. A run that fails
    is recorded with its error, and the same command tries it again.
    """
    from pivotal.jobs.study.recipe import read_recipe

    chosen = read_recipe(recipe)
    if merging.merge:
        asked = vars(replace(options, out=None, json=False, quiet=False))
        if idle := [
            f"--{name.replace('_', '-')}" for name, value in asked.items() if value not in (None, False)
        ]:
            raise PivotalError(f"--merge runs nothing. Leave {' and '.join(idle)} out.")
        _merge(chosen, merging.merge, options.out, merging.light, options.json)
    elif merging.light:
        raise PivotalError("--light applies to the folders of --merge. Name them, or leave --light out.")
    elif (studied := carry_out(chosen, options, report=_refresh)) is not None:
        finish(studied, options.json)


def _refresh(folder: Path, site: bool = False) -> None:
    """Write the page and the site again if they are there, and the site with `site`: they must show the new rows."""
    from pivotal.jobs.run_folder import REPORT
    from pivotal.report.atlas.site import INDEX, SITE, write_site
    from pivotal.report.study import write_study

    if (folder / REPORT).is_file():
        write_study(folder)
    if site or (folder / SITE / INDEX).is_file():
        write_site(folder)


@shared_options.takes_options
def atlas(
    options: StudyOptions,
    recipe: Annotated[
        str,
        argument(
            "A YAML file, or a bundled recipe: small (six phenomena, one model), atlas or blimp.",
            metavar="RECIPE",
            autocompletion=complete.recipes,
            show_default=True,
        ),
    ] = "atlas",
    check: Annotated[
        bool, in_question("Only test which phenomena each model knows, and search nothing.", "--check")
    ] = False,
) -> None:
    """Search many phenomena in several models, apply each intervention to the others, and write a site.

    An atlas is a study whose recipe sets `known` and `cross`, and resumes like a study. Phenomena that a model does not
    know are listed and not searched. The site is a folder of pages that open from disk.
    """
    from pivotal.jobs.study.recipe import read_recipe
    from pivotal.report.atlas.entries import atlas_of
    from pivotal.report.atlas.findings import standings
    from pivotal.report.atlas.site import INDEX, SITE
    from pivotal.report.study import StudyFolder

    chosen = read_recipe(recipe, prefix="atlas-")
    studied = carry_out(chosen, options, report=partial(_refresh, site=True), check=check)
    if studied is None:
        return
    folder, page = StudyFolder.open(studied.folder), studied.folder / SITE / INDEX
    if check and not options.json:
        terminal.table(standings(atlas_of(folder.recipe, folder.rows)))
    finish(studied, options.json, f"The site is {page}.", site=str(page))


@dataclass(frozen=True)
class CompareOptions:
    help_panel: ClassVar[str] = shared_options.SEARCH

    searches: str | None = None
    """Searches from `pivotal list searches`, each with an optional @PRESET, e.g. learned,learned@paper. If a preset
    states values, as paper does, it uses them unless you give --values. Default: all searches."""
    max_units: str = "1..5"
    """Numbers of units to compare at: 1..10, 5, or 1,3,5."""
    runs: int = 3
    """Number of runs of each search, with consecutive seeds."""
    max_kl: float | None = None
    """Upper bound on the KL divergence between the untouched and the edited predictions, averaged over all
    positions."""
    kl_weight: float | None = None
    """Weight of the KL divergence in the loss. --max-kl is a stricter alternative."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    out: str | None = None
    """The folder of the study. Default: runs/study-NAME. An unfinished study is resumed."""


@shared_options.takes_options
def compare(
    ctx: typer.Context,
    question: Question,
    options: CompareOptions,
    option: Annotated[
        list[str] | None,
        in_search(
            "Any option of one search, e.g. learned@paper.updates=400. May be repeated.",
            *("--option", "-o"),
            metavar="SEARCH.NAME=VALUE",
        ),
    ] = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Compare searches: what each one finds with a given number of units, scored on held-out pairs, and what it costs.

    A comparison is a study whose recipe is written for you (recipe.yaml in its folder). The same command resumes it.
    """
    from pivotal.jobs.run_folder import REPORT
    from pivotal.jobs.study.comparison import comparison, sizes_of
    from pivotal.problem.prepare import model_of
    from pivotal.report.study import StudyFolder, write_study
    from pivotal.report.study_tables import study_tables
    from pivotal.searches import SEARCHES

    asked = question.checked()
    # Only what the user states: a preset may state other values.
    stated = [name for name in vars(asked) if not shared_options.is_default(ctx, name) and name != "seed"]
    settings = {name: getattr(asked, name) for name in ("model", "phenomenon", "steps", *stated)}
    settings |= {"max_kl": options.max_kl, "kl_weight": options.kl_weight}
    recipe = comparison(
        SEARCHES.names() if options.searches is None else re.split(r"\s*,\s*", options.searches.strip()),
        sizes_of(options.max_units),
        {name: value for name, value in settings.items() if value is not None},
        options=option or [],
        runs=options.runs,
        seed=asked.seed,
    )
    model_of(asked, options.device)  # one that cannot be loaded is refused here, where every run would fail
    study = StudyOptions(device=options.device, out=options.out, json=json, quiet=quiet)
    studied = carry_out(recipe, study, report=write_study)
    assert studied is not None
    folder = StudyFolder.open(studied.folder)
    if not json and not quiet:
        for shown in study_tables(folder.recipe, folder.rows):
            terminal.table(shown)
    finish(studied, json, f"Read {folder.path / REPORT}.")


def finish(studied: Studied, json: bool, *more: str, **fields: str) -> None:
    """Print how a study ended, and exit with an error code if a run failed."""
    from pivotal.records.study import RESULTS

    if json:
        failed = [{"cell": row.name, "seed": row.seed, "error": row.error} for row in studied.failed]
        places = {"folder": str(studied.folder), "results": str(studied.folder / RESULTS), **fields}
        terminal.as_json({**places, "failed": failed, "rows": studied.rows})
    else:
        terminal.line("\n".join((repr(studied), *more)))
    if studied.failed:
        raise typer.Exit(FAILED)


def _print(plan: StudyPlan, json: bool) -> None:
    from pivotal.report.tables import table

    if plan.note:
        terminal.error(plan.note)
    cells: list[dict[str, Any]] = []
    rows = []
    for cell in plan.cells:
        runs, done, left = len(cell.seeds), plan.done(cell), plan.left(cell)
        cells.append({"cell": cell.name, "key": cell.key, "runs": runs, "done": done, "seeds_left": left})
        rows.append((cell.name, f"{done} of {runs}", " ".join(map(str, left)) or "none"))
    if json:
        terminal.as_json({"folder": str(plan.folder), "cells": cells, "seconds": plan.seconds})
        return
    terminal.table(table("", ("cell", "done", "seeds to run"), rows))
    terminal.line(f"\n{plan.total()}")


def _merge(recipe: Recipe, folders: list[str], out: str | None, light: bool, json: bool) -> None:
    from pivotal.jobs.study.merge import merge

    done = merge(recipe, folders, out=out, light=light, command=terminal.command())
    if done.warning:
        terminal.error(done.warning)
    if json:
        counts = ("taken", "finished", "runs")
        terminal.as_json({"folder": str(done.folder), **{name: getattr(done, name) for name in counts}})
    else:
        terminal.line(done.told())
