"""`pivotal compare`: several searches on one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import show, typed

if TYPE_CHECKING:
    from pivotal.comparing import Comparison

_QUESTION, _SEARCH, _OUTPUT = "What is asked", "What is compared", "Where it goes"


def compare(
    model: Annotated[
        str, typer.Argument(help="A name of `pivotal list models`, or the folder of a model.")
    ] = "wiki-lstm",
    phenomenon: Annotated[
        str,
        typer.Argument(
            help="A name of `pivotal list phenomena`, `name:PATH`, or a pairs file (.jsonl, .csv, .tsv)."
        ),
    ] = "number-agreement",
    searches: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Names of `pivotal list searches`, each with a preset if wanted, e.g. learned,learned@paper. "
            "Default: all of them.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    max_units: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="At most so many units: 1..10, 5, or 1,3,5.",
            rich_help_panel=_SEARCH,
        ),
    ] = "1..5",
    runs: Annotated[
        int,
        typer.Option(min=1, help="Runs of each search with seeds S, S+1, …", rich_help_panel=_SEARCH),
    ] = 3,
    mode: Annotated[
        Literal["converged", "equal", "both"],
        typer.Option(
            help="Each search to its own end, all within one budget, or (for a paper; twice the time) both.",
            rich_help_panel=_SEARCH,
        ),
    ] = "converged",
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Node evaluations of all runs together for each number of units, in the mode equal. "
            "Default: what learned, or else the first search listed, takes.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    max_kl: Annotated[
        float | None,
        typer.Option(
            help="Keep the KL to the untouched model at most here; for every search that can.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    kl_weight: Annotated[
        float | None,
        typer.Option(
            help="Weight of the KL in the loss, for every search that has one.", rich_help_panel=_SEARCH
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="SEARCH.NAME=VALUE",
            help="Any option of one search, e.g. learned@paper.updates=400; repeat for several.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    steps: Annotated[
        Literal["every", "single"],
        typer.Option(
            help="Set the units at every step of the prefix, or at the cue only.", rich_help_panel=_QUESTION
        ),
    ] = "every",
    sites: Annotated[
        str,
        typer.Option(
            help="Where to look: all, hidden, hidden.1, hidden.0-1, or several with commas.",
            rich_help_panel=_QUESTION,
        ),
    ] = "all",
    split: Annotated[
        Literal["random", "lexical"],
        typer.Option(
            help="Hold out pairs at random, or whole nouns and verbs that are unseen in training.",
            rich_help_panel=_QUESTION,
        ),
    ] = "random",
    test: Annotated[
        float | None,
        typer.Option(
            help="Held-out pairs: a number, or a fraction below 1. Default: as in the paper, else a fifth.",
            rich_help_panel=_QUESTION,
        ),
    ] = None,
    priming: Annotated[
        str | None,
        typer.Option(
            help="Text that a recurrent model reads before every sentence. Default: the model's own.",
            rich_help_panel=_QUESTION,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=2**53, help="Decides the split and all that is drawn.", rich_help_panel=_QUESTION
        ),
    ] = 0,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, cuda:1 … Default: a GPU if there is one.", rich_help_panel=_QUESTION),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float64", "bfloat16", "float16"] | None,
        typer.Option(
            help="What the model computes in; half types need a GPU. Default: the model's own.",
            rich_help_panel=_QUESTION,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Its folder. Default: runs/compare-PHENOMENON-STEPS-MODEL. An unfinished comparison goes on.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the comparison that the folder holds.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print compare.json and nothing else.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress, no tables: the result in one sentence.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
) -> None:
    """Compare searches: what each finds with so many units, on held-out pairs, and what that costs.

    Every row is saved when it is there: after Ctrl-C or a kill the same command goes on. The folder gets
    compare.json, report.html, and the table and the figure as .md, .csv, .tex, .svg and .png.
    """
    from pivotal.cli.progress import watch
    from pivotal.comparing import Plan, contenders, sizes_of
    from pivotal.comparing import compare as solve
    from pivotal.finding import Question
    from pivotal.report.comparison import write_comparison

    common = {"max_kl": max_kl, "kl_weight": kl_weight}
    plan = Plan(
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
        test=int(test) if test is not None and test >= 1 and test == int(test) else test,
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
