"""`pivotal compare`: several searches on one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import command_line, shared_options, terminal
from pivotal.questions.question import Question

if TYPE_CHECKING:
    from pivotal.jobs.compare import Comparison


@shared_options.takes_question
def compare(
    ctx: typer.Context,
    searches: Annotated[
        str | None,
        shared_options.in_search(
            "Names from `pivotal list searches`, with @PRESET if wanted, e.g. learned,learned@paper. A preset that "
            "states values, as paper does, uses them unless --values is given. Default: all searches.",
            metavar="A,B,…",
        ),
    ] = None,
    max_units: Annotated[
        str, shared_options.in_search("Numbers of units to compare at: 1..10, 5, or 1,3,5.", metavar="SIZES")
    ] = "1..5",
    runs: Annotated[
        int, shared_options.in_search("Number of runs of each search, with seeds S, S+1, …", min=1)
    ] = 3,
    mode: Annotated[
        Literal["converged", "equal", "both"],
        shared_options.in_search(
            "Run each search to its own end, or all with the same budget, or both (takes twice as long)."
        ),
    ] = "converged",
    budget: Annotated[
        int | None,
        shared_options.in_search(
            "With --mode equal: node evaluations of all runs together, for each number of units. "
            "Default: what `learned` takes or, without it, the first search.",
            min=1,
        ),
    ] = None,
    max_kl: shared_options.MaxKL = None,
    kl_weight: shared_options.KLWeight = None,
    option: Annotated[
        list[str] | None,
        shared_options.in_search(
            "Any option of one search, e.g. learned@paper.updates=400. May be repeated.",
            "--option",
            "-o",
            metavar="SEARCH.NAME=VALUE",
        ),
    ] = None,
    device: shared_options.Device = None,
    out: Annotated[
        str | None,
        shared_options.in_output(
            "The folder of the comparison. Default: runs/compare-PHENOMENON-STEPS-MODEL. An unfinished one "
            "is resumed.",
            metavar="DIR",
        ),
    ] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **question: Any,
) -> None:
    """Compare searches: what each one finds with a given number of units, on held-out pairs, and what it costs.

    Every row is saved as soon as it is finished; after Ctrl-C or a kill the same command resumes the comparison. The
    folder gets compare.json, report.html, and the table and the figure as .md, .csv, .tex, .svg and .png.
    """
    from pivotal.jobs.compare import ComparisonPlan, contenders, sizes_of
    from pivotal.jobs.compare import compare as solve
    from pivotal.report.comparison import write_comparison
    from pivotal.watch import display

    asking = Question(**question)
    common = {"max_kl": max_kl, "kl_weight": kl_weight}
    plan = ComparisonPlan(
        tuple(
            contenders(
                [] if searches is None else searches.split(","),
                common={name: value for name, value in common.items() if value is not None},
                options=option or [],
                same_values=not shared_options.is_default(ctx, "values"),
            )
        ),
        sizes_of(max_units),
        runs=runs,
        mode=mode,
        budget=budget,
    )
    with display(quiet) as watching:
        compared = solve(
            asking,
            plan,
            out=out,
            overwrite=overwrite,
            device=device,
            command=command_line.command(),
            watch=watching,
        )
    if not compared.already or not compared.folder.report.is_file():
        write_comparison(compared.folder)
    if compared.already:
        place = compared.folder.path
        terminal.note(f"This comparison was already finished: {place}. Use --overwrite to run it again.")
    if json:
        terminal.as_json(compared.result)
    else:
        _print(compared, quiet)


def _print(compared: Comparison, quiet: bool) -> None:
    from pivotal.report import comparison_tables as said

    result = compared.result
    terminal.line(said.sentence(result), style="bold")
    if not quiet:
        for mode in said.modes_of(result):
            for content in said.frontier_tables(result, mode):
                terminal.table(content)
        if text := said.budget_sentence(result):
            terminal.line(f"\n{text}")
        terminal.line("")
    terminal.line(f"Written to {compared.folder.path}; read {compared.folder.report}")
