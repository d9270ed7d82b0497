"""`pivotal certify`: what can be proved about what a run found."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pivotal.cli import show


def certify(
    run_folder: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run folder, or an intervention folder such as RUN/interventions/0."
        ),
    ],
    run: Annotated[
        int | None, typer.Option(min=0, help="Which run of the folder. Default: the best on training pairs.")
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Try every swap instead of the promising ones; on a GPU every pair of units as well.",
        ),
    ] = False,
    pairs: Annotated[
        Literal["screened", "all", "none"] | None,
        typer.Option(help="Sets of two units: promising ones, every one (hours on a CPU), or none."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Flips that count as more, as a share of the training pairs.")
    ] = 0.005,
    candidates: Annotated[
        int, typer.Option(min=0, help="Units tried in the place of each unit; 0 tries all.")
    ] = 32,
    sample: Annotated[
        int, typer.Option(min=0, help="Training prefixes on which sets are tried; 0 takes all.")
    ] = 96,
    finalists: Annotated[
        int, typer.Option(min=1, help="Of the sets tried, so many have their values fitted.")
    ] = 12,
    model: Annotated[
        str | None, typer.Option(help="Where the model is, if not where the run found it.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda … Default: a GPU if there is one.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the certificate as JSON and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Certify what a run found: does every unit matter, does a swap help, would fewer units do?

    Writes certificate.json into the run's folder and puts it into its report.
    """
    from pivotal.certificate import Effort
    from pivotal.certifying import certify_run
    from pivotal.cli.progress import watch
    from pivotal.cli.saved import Saved
    from pivotal.models import device_named
    from pivotal.report import certified
    from pivotal.report.page import write_report

    saved = Saved.read(run_folder, run)
    if pairs is None:
        pairs = "all" if exact and device_named(device).type != "cpu" else "screened"
    effort = Effort(
        candidates=0 if exact else candidates,
        sample=sample,
        finalists=finalists,
        pairs=pairs,
        epsilon=epsilon,
    )
    with watch(quiet or json) as looking_on:
        made = certify_run(
            saved.intervention,
            saved.question(model),
            saved.folder,
            effort=effort,
            device=device,
            watch=looking_on,
        )
    if saved.folder is not None and saved.folder.finished:
        write_report(saved.folder)
    if json:
        show.as_json(made)
        return
    show.line(certified.verdict(made), style="bold")
    for text in certified.sentences(made):
        show.line(text)
    if not quiet:
        show.table(certified.units_table(made))
    if saved.folder is not None:
        show.line(f"\nWritten to {saved.folder.path}; read {saved.folder.report}")
