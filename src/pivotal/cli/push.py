"""`pivotal push`: share an intervention on the Hugging Face hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import shared_options, terminal
from pivotal.cli.export import hub_name

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.exports.hub import Shared

Repository = Annotated[
    str, typer.Argument(metavar="ORG/NAME", help="The repository on the hub.", show_default=False)
]


def push(
    run_folder: shared_options.Run,
    repository: Repository,
    *,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    priming: shared_options.RunPriming = None,
    any_model: shared_options.AnyModel = False,
    base_model: Annotated[
        str | None,
        shared_options.in_run(
            "The name of the model on the hub. Default: the run's model, if it came from there."
        ),
    ] = None,
    license: Annotated[
        str | None,
        shared_options.in_run("The licence, such as apache-2.0. Default: that of the base model on the hub."),
    ] = None,
    device: shared_options.Device = None,
    dtype: shared_options.RunDtype = None,
    private: Annotated[bool, shared_options.in_output("Create a private repository.", "--private")] = False,
    dry_run: Annotated[
        bool, shared_options.in_output("Write the folder, print the card, and upload nothing.", "--dry-run")
    ] = False,
    out: Annotated[
        str | None, shared_options.in_output("With --dry-run: the folder to write. Default: shared/ORG-NAME.")
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """Share an intervention on the Hugging Face hub: its card, values, certificate, report and adapters."""
    from pivotal.cli.run_argument import Saved
    from pivotal.errors import PivotalError
    from pivotal.exports import hub

    hub.check_name(repository)
    if out is not None and not dry_run:
        raise PivotalError(
            "--out is the folder of --dry-run, but --dry-run was not given. Add it, or leave --out out."
        )
    saved = Saved.read(run_folder, run)
    folder = Path(out) if out is not None else Path("shared") / repository.replace("/", "-")
    if dry_run and (folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise PivotalError(
            f"{folder} exists already, and nothing was written. Name another folder with --out."
        )
    based = base_model or hub_name(saved.question(model).model)
    shared, notes = _shared(saved, repository, based, license, (model, priming, dtype, device, any_model))
    if shared.base_model is None:
        notes.append("The card names no base model: give its name on the hub with --base-model.")
    if shared.license is None:
        notes.append("The card states no licence: give that of the base model with --license.")
    if dry_run:
        notes += hub.write_shared(shared, folder)
        where = str(folder)
        card = (folder / "README.md").read_text(encoding="utf-8")
    else:
        with tempfile.TemporaryDirectory() as made:
            notes += hub.write_shared(shared, Path(made) / "repository")
            card = (Path(made) / "repository" / "README.md").read_text(encoding="utf-8")
            where = hub.push(Path(made) / "repository", repository, private=private)
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


def _shared(
    saved: Saved,
    repository: str,
    base_model: str | None,
    license: str | None,
    loading: tuple[str | None, str | None, str | None, str | None, bool],
) -> tuple[Shared, list[str]]:
    """What is shared, and what is missing, a sentence each."""
    from pivotal.errors import PivotalError
    from pivotal.exports import Portable, hub
    from pivotal.exports.hub import Shared
    from pivotal.jobs.run_folder import CERTIFICATE

    model, priming, dtype, device, any_model = loading
    files: list[Path] = []
    pairs = None
    if saved.folder is not None:
        certificate = saved.folder.certificate()
        if certificate is not None and certificate.intervention == saved.intervention.fingerprint():
            files.append(saved.folder.path / CERTIFICATE)
        files += [saved.folder.report] if saved.folder.report.is_file() else []
        if saved.folder.finished:
            pairs = saved.folder.summary().pairs.test
    question = saved.question(model, priming, dtype)  # type: ignore[arg-type]
    lm = saved.load_model(question, device, any_model, download=model is not None)
    portable, notes = None, []
    try:
        # Never the path of a folder of this machine: the adapters are published.
        portable = Portable.of(lm, saved.intervention, base=base_model or lm.name)
    except PivotalError as error:
        notes.append(f"There are no adapters: {error}")
    known = license or (hub.licence_of(base_model) if base_model else None)
    return Shared(saved.intervention, repository, base_model, known, pairs, tuple(files), portable), notes
