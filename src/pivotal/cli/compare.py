"""`pivotal compare`: several searches on one question, as a study over searches and numbers of units."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pivotal.cli import shared_options, terminal
from pivotal.cli import study as studies
from pivotal.cli.shared_options import in_search
from pivotal.questions.question import Question


@shared_options.takes_question
def compare(
    ctx: typer.Context,
    searches: Annotated[
        str | None,
        in_search(
            "Names from `pivotal list searches`, with @PRESET if wanted, e.g. learned,learned@paper. A preset that "
            "states values, as paper does, uses them unless --values is given. Default: all searches.",
            metavar="A,B,…",
        ),
    ] = None,
    max_units: Annotated[
        str, in_search("Numbers of units to compare at: 1..10, 5, or 1,3,5.", metavar="SIZES")
    ] = "1..5",
    runs: Annotated[int, in_search("Number of runs of each search, with consecutive seeds.", min=1)] = 3,
    max_kl: shared_options.MaxKL = None,
    kl_weight: shared_options.KLWeight = None,
    option: Annotated[
        list[str] | None,
        in_search(
            "Any option of one search, e.g. learned@paper.updates=400. May be repeated.",
            "--option",
            "-o",
            metavar="SEARCH.NAME=VALUE",
        ),
    ] = None,
    device: shared_options.Device = None,
    out: studies.Out = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **question: Any,
) -> None:
    """Compare searches: what each one finds with a given number of units, on held-out pairs, and what it costs.

    A comparison is a study whose recipe is written for you (recipe.yaml in its folder): after Ctrl-C or a kill the same
    command continues, and `pivotal show FOLDER --page` makes its tables and figures again.
    """
    from pivotal.jobs.run_folder import REPORT
    from pivotal.jobs.study.comparison import comparison, sizes_of
    from pivotal.report.study import StudyFolder, write_study
    from pivotal.report.study_tables import study_tables
    from pivotal.searches import SEARCHES

    asked = Question(**question).checked()
    # Only what the user states: a preset may state other values.
    stated = [name for name in question if not shared_options.is_default(ctx, name) and name != "seed"]
    settings = {name: getattr(asked, name) for name in ("model", "phenomenon", "steps", *stated)}
    settings |= {"max_kl": max_kl, "kl_weight": kl_weight}
    recipe = comparison(
        SEARCHES.names() if searches is None else [name.strip() for name in searches.split(",")],
        sizes_of(max_units),
        {name: value for name, value in settings.items() if value is not None},
        options=option or [],
        runs=runs,
        seed=asked.seed,
    )
    asks: dict[str, Any] = {"device": device, "out": out, "json": json, "quiet": quiet}
    studied = studies.carry_out(recipe, **asks, report=write_study)
    assert studied is not None
    folder = StudyFolder.open(studied.folder)
    if not json and not quiet:
        for shown in study_tables(folder.recipe, folder.rows):
            terminal.table(shown)
    studies.finish(studied, json, f"Read {folder.path / REPORT}.")
