"""`pivotal compare`: several searches on one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import asked, show, typed

if TYPE_CHECKING:
    from pivotal.jobs.compare import Comparison


def compare(
    model: asked.Model = "wiki-lstm",
    phenomenon: asked.Phenomenon = "number-agreement",
    searches: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Names of `pivotal list searches`, each with a preset if wanted, e.g. learned,learned@paper. "
            "Default: all of them.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = None,
    max_units: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="At most so many units: 1..10, 5, or 1,3,5.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = "1..5",
    runs: Annotated[
        int,
        typer.Option(min=1, help="Runs of each search with seeds S, S+1, …", rich_help_panel=asked.SEARCH),
    ] = 3,
    mode: Annotated[
        Literal["converged", "equal", "both"],
        typer.Option(
            help="Each search to its own end, all within one budget, or (for a paper; twice the time) both.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = "converged",
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Node evaluations of all runs together for each number of units, in the mode equal. "
            "Default: what learned, or else the first search listed, takes.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = None,
    max_kl: asked.MaxKL = None,
    kl_weight: asked.KLWeight = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="SEARCH.NAME=VALUE",
            help="Any option of one search, e.g. learned@paper.updates=400; repeat for several.",
            rich_help_panel=asked.SEARCH,
        ),
    ] = None,
    steps: asked.Steps = "every",
    sites: asked.Sites = "all",
    split: asked.Split = "random",
    test: asked.Test = None,
    priming: asked.Priming = None,
    seed: asked.Seed = 0,
    device: asked.Device = None,
    dtype: asked.Dtype = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Its folder. Default: runs/compare-PHENOMENON-STEPS-MODEL. An unfinished comparison goes on.",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = None,
    overwrite: asked.Overwrite = False,
    json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Compare searches: what each finds with so many units, on held-out pairs, and what that costs.

    Every row is saved when it is there: after Ctrl-C or a kill the same command goes on. The folder gets
    compare.json, report.html, and the table and the figure as .md, .csv, .tex, .svg and .png.
    """
    from pivotal.cli.progress import watch
    from pivotal.jobs.compare import ComparisonPlan, contenders, sizes_of
    from pivotal.jobs.compare import compare as solve
    from pivotal.jobs.find import Question
    from pivotal.report.comparison import write_comparison

    common = {"max_kl": max_kl, "kl_weight": kl_weight}
    plan = ComparisonPlan(
        tuple(
            contenders(
                [] if searches is None else searches.split(","),
                common={name: value for name, value in common.items() if value is not None},
                options=option or [],
            )
        ),
        sizes_of(max_units),
        runs=runs,
        mode=mode,
        budget=budget,
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
        compared = solve(
            question,
            plan,
            out=out,
            overwrite=overwrite,
            device=device,
            command=typed.command(),
            watch=looking_on,
        )
    write_comparison(compared.folder)
    if json:
        show.as_json(compared.result)
    else:
        _print(compared, quiet)


def _print(compared: Comparison, quiet: bool) -> None:
    from pivotal.report import comparison_tables as said

    result = compared.result
    show.line(said.sentence(result), style="bold")
    if not quiet:
        for mode in said.modes_of(result):
            for content in said.frontier_tables(result, mode):
                show.table(content)
        if text := said.budget_sentence(result):
            show.line(f"\n{text}")
        show.line("")
    show.line(f"Written to {compared.folder.path}; read {compared.folder.report}")
