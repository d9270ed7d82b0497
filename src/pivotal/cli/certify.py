"""`pivotal certify`: examine the units that a run found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import in_search
from pivotal.errors import PivotalError
from pivotal.records.certificate import Effort

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.records.certificate import Certificate


EFFORT = Effort()


@shared_options.takes_fields(Effort, "epsilon", "candidates", "sample", "finalists", declare=in_search)
def certify(
    ctx: typer.Context,
    run_folder: shared_options.Run,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    exact: Annotated[
        bool,
        in_search(
            "Try every swap of one unit, not only the promising ones; on a GPU every pair of units too.",
            "--exact",
        ),
    ] = False,
    unit_pairs: Annotated[
        Literal["screened", "all", "none"] | None,
        in_search(
            "Sets of two units to try: promising ones, all of them (hours on a CPU), or none. "
            f"Default: {EFFORT.pairs}."
        ),
    ] = None,
    device: shared_options.Device = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **effort: Any,
) -> None:
    """Certify the units of a run: does every unit matter, would a swap be better, would fewer units be enough?

    Writes certificate.json to the run folder and adds it to the report.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.jobs.certify import certify_run
    from pivotal.models import device_named
    from pivotal.report import certified
    from pivotal.watch import display

    if exact and not shared_options.is_default(ctx, "candidates"):
        raise PivotalError(
            f"--exact tries every unit, but --candidates is {effort['candidates']}. Leave one of them out."
        )
    if unit_pairs is None:
        unit_pairs = "all" if exact and device_named(device).type != "cpu" else EFFORT.pairs
    if exact:
        effort["candidates"] = 0
    with display(quiet) as watching, Saved.locked(run_folder, run, model=model) as saved:
        saved.note_pairs()
        made = certify_run(
            saved.intervention,
            saved.question,
            saved.folder,
            run=saved.run,
            effort=Effort(**effort, pairs=unit_pairs),
            device=device,
            download=model is not None,
            watch=watching,
        )
        written = _write(saved, made)
    if json:
        terminal.as_json(made)
        return
    units = None if quiet else certified.units_table(made)
    place = f"\nWritten to {written}" if written else ""
    terminal.result(certified.verdict(made), *certified.sentences(made), units, place)


def _write(saved: Saved, made: Certificate) -> str:
    """Write the certificate to the run folder and its report, if there is one. Returns where it was
    written."""
    from pivotal.jobs.run_folder import CERTIFICATE
    from pivotal.report.page import write_report

    if saved.folder is None:
        return ""
    saved.folder.write_json(CERTIFICATE, made)
    if not saved.folder.finished:
        return str(saved.folder.path / CERTIFICATE)
    return f"{saved.folder.path}; read {write_report(saved.folder)}"
