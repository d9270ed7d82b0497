"""`pivotal certify`: examine the units that a run found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import typer

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import RunOptions
from pivotal.errors import PivotalError
from pivotal.records.certificate import Effort

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.records.certificate import Certificate


@dataclass(frozen=True)
class CertifyOptions:
    help_panel: ClassVar[str] = shared_options.SEARCH

    exact: bool = False
    """Try every swap of one unit, not only the promising ones; on a GPU every pair of units too."""
    unit_pairs: Literal["screened", "all", "none"] | None = None
    """Sets of two units to try: promising ones (screened), all of them (hours on a CPU), or none. Default: screened."""


@shared_options.takes_options
@shared_options.takes_fields(RunOptions, "run", "model", "device")
@shared_options.takes_fields(
    Effort, "epsilon", "candidates", "sample", "finalists", help_panel=shared_options.SEARCH
)
def certify(
    ctx: typer.Context,
    path: shared_options.Run,
    options: CertifyOptions,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **given: Any,
) -> None:
    """Certify the units of a run: is every unit needed, would a swap be better, would fewer units suffice?

    Takes minutes, or longer in a large model. Writes certificate.json to the run folder and adds it to the report.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.jobs.certify import certify_run
    from pivotal.models import device_named
    from pivotal.report import certified
    from pivotal.watch import display

    run = RunOptions(**{name: given.pop(name) for name in ("run", "model", "device")})
    if options.exact and not shared_options.is_default(ctx, "candidates"):
        raise PivotalError(f"--exact tries all units, not --candidates {given['candidates']}. Leave one out.")
    everything = options.exact and device_named(run.device).type != "cpu"
    effort = Effort(**given, pairs=options.unit_pairs or ("all" if everything else Effort().pairs))
    if options.exact:
        effort = replace(effort, candidates=0)
    with display(quiet) as watching, Saved.locked(path, run) as saved:
        saved.note_pairs()
        made = certify_run(
            saved.intervention,
            saved.question,
            saved.folder,
            run=saved.run,
            effort=effort,
            device=run.device,
            download=run.model is not None,
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
