"""`pivotal push`: share an intervention on the Hugging Face hub."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import shared_options, terminal
from pivotal.cli.export import hub_name
from pivotal.cli.shared_options import in_output, in_run

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved

Repository = Annotated[
    str, typer.Argument(metavar="ORG/NAME", help="The repository on the hub.", show_default=False)
]


@shared_options.takes_run
def push(
    repository: Repository,
    *,
    base_model: Annotated[
        str | None,
        in_run("The name of the model on the hub. Default: the run's model, if it came from there."),
    ] = None,
    license: Annotated[
        str | None, in_run("The licence, such as apache-2.0. Default: that of the base model on the hub.")
    ] = None,
    private: Annotated[bool, in_output("Create a private repository.", "--private")] = False,
    dry_run: Annotated[
        bool, in_output("Write the folder, print the card, and upload nothing.", "--dry-run")
    ] = False,
    out: Annotated[
        str | None, in_output("With --dry-run: the folder to write. Default: shared/ORG-NAME.")
    ] = None,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Share an intervention on the Hugging Face hub: its card, values, certificate, report and adapters."""
    from pivotal.cli.run_argument import Saved
    from pivotal.errors import PivotalError
    from pivotal.exports import hub
    from pivotal.exports.base import check_folder
    from pivotal.files import disk

    hub.check_name(repository)
    if out is not None and not dry_run:
        raise PivotalError(
            "--out is the folder of --dry-run, but --dry-run was not given. Add it, or leave --out out."
        )
    saved = Saved.read(**chosen)
    folder = Path(out) if out is not None else Path("shared") / repository.replace("/", "-")
    if dry_run:
        check_folder(folder, lambda there: ())
    based = base_model or hub_name(saved.question.model)
    shared = hub.Shared(
        saved.intervention,
        saved.load_model(),
        repository,
        based,
        license or (hub.licence_of(based) if based else None),
        *_evidence(saved),
    )
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / "repository"
        notes = hub.write_shared(shared, made)
        card = (made / "README.md").read_text(encoding="utf-8")
        if dry_run:
            with disk(folder):
                shutil.copytree(made, folder, dirs_exist_ok=True)
        where = str(folder) if dry_run else hub.push(made, repository, private=private)
    if json:
        terminal.as_json(
            {"repository": repository, "written": where, "dry_run": dry_run, "notes": notes, "card": card}
        )
        return
    if dry_run:
        terminal.line(card)
    for note in notes:
        terminal.note(note)
    terminal.line(f"Written to {where}; nothing was uploaded." if dry_run else f"Pushed to {where}")


def _evidence(saved: Saved) -> tuple[int | None, tuple[Path, ...]]:
    """The number of held-out pairs of the run, and its files that belong to the intervention."""
    from pivotal.jobs.run_folder import CERTIFICATE

    if saved.folder is None:
        return None, ()
    files = [saved.folder.report] if saved.folder.report.is_file() else []
    certificate = saved.folder.certificate()
    if certificate is not None and certificate.intervention == saved.intervention.fingerprint():
        files.append(saved.folder.path / CERTIFICATE)
    return saved.folder.summary().pairs.test if saved.folder.finished else None, tuple(files)
