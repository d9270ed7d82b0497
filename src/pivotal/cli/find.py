"""`pivotal find`: the main job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import asked, show, typed
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.jobs.find import Finding
    from pivotal.searches.base import Search


def find(
    model: asked.Model = "wiki-lstm",
    phenomenon: asked.Phenomenon = "number-agreement",
    steps: asked.Steps = "every",
    sites: asked.Sites = "all",
    split: asked.Split = "random",
    test: asked.Test = None,
    priming: asked.Priming = None,
    max_units: Annotated[
        float | None,
        typer.Option(
            help="At most so many units, or a fraction of all. Default: 4 for every, 5 for single.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = None,
    max_kl: asked.MaxKL = None,
    kl_weight: asked.KLWeight = None,
    masks: Annotated[
        Literal["shared", "per-direction"] | None,
        typer.Option(help="One mask for both directions, or one each.", rich_help_panel=asked.SEARCH),
    ] = None,
    updates: Annotated[
        int | None, typer.Option(help="Steps of optimisation.", rich_help_panel=asked.SEARCH)
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Runs with seeds S, S+1, …, all at once.", rich_help_panel=asked.SEARCH)
    ] = 1,
    seed: asked.Seed = 0,
    search: Annotated[
        str, typer.Option(help="A name of `pivotal list searches`.", rich_help_panel=asked.SEARCH)
    ] = "learned",
    preset: Annotated[
        str | None,
        typer.Option(
            help="Start from a set of options of the search, e.g. paper.", rich_help_panel=asked.SEARCH
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="Any option of the search; repeat for several. `pivotal list searches` shows them.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = None,
    controls: Annotated[
        int,
        typer.Option(
            min=0,
            help="Random sets of as many units, their values learned alike, to compare the best run with; 0: none.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = 19,
    device: asked.Device = None,
    dtype: asked.Dtype = None,
    batch_nodes: asked.BatchNodes = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The run folder. Default: runs/PHENOMENON-STEPS-MODEL. An unfinished run goes on.",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = None,
    overwrite: asked.Overwrite = False,
    json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Find the units that decide a phenomenon, score them on held-out pairs, and write a report.

    With no arguments: number agreement in the bundled LSTM. Ctrl-C saves what was reached; the same command
    goes on.
    """
    from pivotal.cli.progress import watch
    from pivotal.jobs.find import Question
    from pivotal.jobs.find import find as solve
    from pivotal.report.page import write_report

    given = {
        "max_units": max_units,
        "max_kl": max_kl,
        "kl_weight": kl_weight,
        "masks": masks,
        "updates": updates,
    }
    chosen = build_search(
        search, preset, {k: v for k, v in given.items() if v is not None}, option or [], steps
    )
    question = Question(
        model=model,
        phenomenon=phenomenon,
        steps=steps,
        sites=sites,
        split=split,
        test=asked.held_out(test),
        seed=seed,
        priming=priming,
        dtype=dtype,
    )
    with watch(quiet) as looking_on:
        found = solve(
            question,
            chosen,
            runs=runs,
            controls=controls,
            out=out,
            overwrite=overwrite,
            device=device,
            batch_nodes=batch_nodes,
            command=typed.command(),
            watch=looking_on,
        )
    write_report(found.folder)
    if json:
        show.as_json(found.summary)
    else:
        _print(found, quiet)


def build_search(
    name: str, preset: str | None, given: dict[str, Any], options: Sequence[str], steps: str
) -> Search:
    """The search with its settings: a preset, over it the options, and a budget if none was named."""
    from pivotal.searches.choosing import choose

    for text in options:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise PivotalError(
                f"An option is written -o NAME=VALUE, e.g. -o max_units=3, but '{text}' was given."
            )
        if key in given:
            raise PivotalError(f"'{key}' was given twice, by -o or by an option of its own. Give it once.")
        given[key] = value
    return choose(name, preset, given, steps)


def _print(found: Finding, quiet: bool) -> None:
    from pivotal.report import tables

    summary = found.summary
    show.line(tables.sentence(summary), style="bold")
    if not quiet:
        show.table(tables.units_table(summary, most=12))
        if len(summary.runs) > 1:
            show.table(tables.runs_table(summary))
        which = f", run {summary.best}" if len(summary.runs) > 1 else ""
        show.table(tables.shares_table(summary.best_run, f"By construction and direction{which}"))
        show.line("")
        show.line(tables.control_sentence(summary))
        if text := tables.stages_sentence(summary):
            show.line(text)
        if text := tables.clean_sentence(summary):
            show.line(text)
        show.line("")
    show.line(f"Written to {found.folder.path}; read {found.folder.report}")
