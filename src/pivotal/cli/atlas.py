"""`pivotal atlas`: many phenomena in several models, and a site that shows them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pivotal.cli import complete, terminal
from pivotal.cli import study as studies
from pivotal.cli.shared_options import in_question


@studies.takes_study_options
def atlas(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or the name of a recipe: small for the example, atlas for all bundled phenomena.",
            autocompletion=complete.recipes,
        ),
    ] = "atlas",
    check: Annotated[
        bool, in_question("Only test which phenomena the models know, and search nothing.", "--check")
    ] = False,
    **asked: Any,
) -> None:
    """Search many phenomena in several models, apply each intervention to the others, and write a site.

    An atlas is a study whose recipe sets `known` and `cross`. It resumes like a study. Phenomena that a model does not
    know are listed and not searched; `--check` lists them before any search. The site is one folder of pages that open
    from disk.
    """
    from pivotal.jobs.study.recipe import read_recipe
    from pivotal.report.atlas.entries import atlas_of
    from pivotal.report.atlas.findings import what_is_known
    from pivotal.report.atlas.site import INDEX, SITE, write_site
    from pivotal.report.study import StudyFolder

    chosen = read_recipe(recipe, prefix="atlas-")
    studied = studies.carry_out(chosen, report=write_site, check=check, **asked)
    if studied is None:
        return
    folder, page = StudyFolder.open(studied.folder), studied.folder / SITE / INDEX
    if check and not asked["json"]:
        terminal.table(what_is_known(atlas_of(folder.recipe, folder.rows)))
    studies.finish(studied, asked["json"], f"The site is {page}.", site=str(page))
