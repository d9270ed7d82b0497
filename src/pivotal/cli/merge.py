"""`pivotal merge`: the results of one study from several folders, in one folder."""

from __future__ import annotations

from typing import Annotated

import typer

from pivotal.cli import command_line, complete, shared_options, terminal
from pivotal.cli import study as studies


def merge(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or a name from `pivotal list recipes`.",
            autocompletion=complete.recipes,
            show_default=False,
        ),
    ],
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...", help="Folders of studies that have cells of the recipe.", show_default=False
        ),
    ],
    light: Annotated[
        bool,
        shared_options.in_output(
            "Copy only the interventions of the runs, not the rest of their run folders. Enough for tables and the "
            "site of an atlas.",
            "--light",
        ),
    ] = False,
    out: studies.Out = None,
    json: shared_options.Json = False,
) -> None:
    """Collect the finished runs of several study folders, e.g. of several machines, in one folder. Nothing is run.

    Runs are matched by the settings of their cells and their seed. If several folders have a run, that of --out counts,
    or else that of the first folder.
    """
    from pivotal.jobs.study.merge import merge as collect
    from pivotal.jobs.study.messages import merged
    from pivotal.jobs.study.recipe import read_recipe

    done = collect(read_recipe(recipe), folders, out=out, light=light, command=command_line.command())
    if done.warning:
        terminal.error(done.warning)
    if json:
        terminal.as_json(
            {
                "folder": str(done.folder),
                "taken": done.taken,
                "had": done.had,
                "foreign": done.foreign,
                "finished": done.finished,
                "runs": done.runs,
            }
        )
    else:
        terminal.line(merged(done))
