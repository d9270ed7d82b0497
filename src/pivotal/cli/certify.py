"""`pivotal certify`: what can be proved about what a run found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pivotal.cli import asked, show

if TYPE_CHECKING:
    from pivotal.cli.saved import Saved
    from pivotal.records.certificate import Certificate


def certify(
    run_folder: asked.Run,
    run: asked.WhichRun = None,
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
    model: asked.RunModel = None,
    device: asked.Device = None,
    json: asked.Json = False,
    quiet: asked.Quiet = False,
) -> None:
    """Certify what a run found: does every unit matter, does a swap help, would fewer units do?

    Writes certificate.json into the run's folder and puts it into its report (of a comparison's intervention: beside
    it).
    """
    from pivotal.cli.progress import watch
    from pivotal.cli.saved import Saved
    from pivotal.jobs.certify import certify_run, terms_of
    from pivotal.models import device_named
    from pivotal.records.certificate import Effort
    from pivotal.report import certified

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
    label = saved.label
    with watch(quiet or json) as looking_on:
        made = certify_run(
            saved.intervention,
            saved.question(model),
            saved.folder,
            run=saved.run,
            terms=None if label is None else terms_of(saved.folder.settings, label),  # type: ignore[union-attr]
            effort=effort,
            device=device,
            watch=looking_on,
        )
    written = _write(saved, made)
    if json:
        show.as_json(made)
        return
    show.line(certified.verdict(made), style="bold")
    for text in certified.sentences(made):
        show.line(text)
    if not quiet:
        show.table(certified.units_table(made))
    if written:
        show.line(f"\nWritten to {written}")


def _write(saved: Saved, made: Certificate) -> str:
    """Into the run's folder, and its report; beside the intervention where it belongs to a comparison; nowhere for one
    without a run, whose folder may be anybody's. Says where."""
    from pathlib import Path

    from pivotal.jobs.run_folder import CERTIFICATE
    from pivotal.report.page import write_report

    if saved.folder is None:
        return ""
    if saved.label is not None:
        name = Path(saved.path).resolve().relative_to(saved.folder.path.resolve()) / CERTIFICATE
        saved.folder.write_json(name.as_posix(), made)
        return str(saved.folder.path / name)
    saved.folder.write_json(CERTIFICATE, made)
    if not saved.folder.finished:
        return str(saved.folder.path / CERTIFICATE)
    return f"{saved.folder.path}; read {write_report(saved.folder)}"
