"""`pivotal atlas`: many phenomena in several models, and a site that shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli import study as studies


def atlas(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or the name of a recipe: small for the example, atlas for all bundled phenomena.",
            autocompletion=complete.recipes,
        ),
    ] = "atlas",
    only: studies.Only = None,
    seeds: studies.Seeds = None,
    device: shared_options.Device = None,
    ray: studies.OnThisMachine = False,
    ray_address: studies.RayAddress = None,
    cpus: studies.Cpus = None,
    gpus: studies.Gpus = None,
    out: studies.Out = None,
    check: Annotated[
        bool,
        shared_options.in_question(
            "Only test which phenomena the models know, and search nothing.", "--check"
        ),
    ] = False,
    dry_run: studies.DryRun = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Search many phenomena in several models, apply each intervention to the others, and write a site.

    An atlas is a study whose recipe sets `known` and `cross`. It resumes like a study. Phenomena that a model does not
    know are listed and not searched; `--check` lists them before any search. The site is one folder of pages that open
    from disk.
    """
    from pivotal.jobs.study.recipe import read_recipe
    from pivotal.report.atlas import write_site
    from pivotal.report.atlas.entries import atlas_of
    from pivotal.report.atlas.findings import what_is_known
    from pivotal.report.study import StudyFolder

    chosen = read_recipe(recipe, prefix="atlas-")
    machines = (ray, ray_address, cpus, gpus)
    studied = studies.carry_out(chosen, machines, only=only, seeds=seeds, device=device, out=out, dry_run=dry_run,
                                json=json, quiet=quiet, check=check)  # fmt: skip
    if studied is None:
        return
    folder = StudyFolder.open(studied.folder)
    page = write_site(folder)
    if check and not json:
        terminal.table(what_is_known(atlas_of(folder.recipe, folder.results.rows)))
    studies.finish(studied, json, f"The site is {page}.", site=str(page))
