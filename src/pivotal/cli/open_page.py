"""`pivotal open`: the page of a folder in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError


def open_page(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="The folder of a run or a study.", show_default=False),
    ],
    json: shared_options.Json = False,
) -> None:
    """Open the report of a folder in the browser. A report that is missing is written first."""
    from pivotal.cli.report import write_page
    from pivotal.jobs.run_folder import REPORT

    path = Path(folder) / REPORT
    page = path if path.is_file() else write_page(folder)
    if not webbrowser.open(page.resolve().as_uri()):
        raise PivotalError(
            f"There is no browser that could be started here. Open this file in one: {page.resolve()}"
        )
    if json:
        terminal.as_json({"report": str(page)})
    else:
        terminal.line(f"Opened {page}")
