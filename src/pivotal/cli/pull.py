"""`pivotal pull`: take an intervention from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import in_output, in_run

if TYPE_CHECKING:
    from pivotal.records.intervention import Intervention


def pull(
    repository: Annotated[
        str,
        typer.Argument(
            metavar="ORG/NAME", help="The repository on the hub, or a folder from push.", show_default=False
        ),
    ],
    *,
    revision: Annotated[str | None, in_run("A commit, tag or branch. Default: the newest commit.")] = None,
    offline: Annotated[bool, in_run("Use what was downloaded before, and no network.", "--offline")] = False,
    model: Annotated[
        str | None,
        in_run(
            "The model that the intervention is for. Its fingerprint is checked.",
            autocompletion=complete.models,
        ),
    ] = None,
    device: shared_options.Device = None,
    out: Annotated[str | None, in_output("The folder to write. Default: interventions/ORG-NAME.")] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
) -> None:
    """Download an intervention from the Hugging Face hub: JSON and safetensors only, from one commit."""
    from pivotal.exports import hub
    from pivotal.records import serial

    pulled = hub.pull(repository, revision, offline=offline)
    intervention, commit = pulled.intervention, pulled.source.commit
    checked = _check_fingerprint(intervention, model, device)
    name = Path(repository).resolve().name if commit is None else repository.replace("/", "-")
    folder = Path(out) if out is not None else Path("interventions") / name
    hub.keep(pulled, folder, overwrite=overwrite)
    if json:
        told = {"folder": str(folder), "fingerprint_checked": checked, "cached": pulled.cached}
        terminal.as_json({**told, **serial.plain(pulled.source)})
        return
    terminal.line(repr(intervention))
    if pulled.cached and not offline:
        terminal.note("The Hugging Face hub does not answer. These are files of an earlier download.")
    if not checked:
        terminal.note(
            f"The model was not checked: it must have the fingerprint {intervention.model_fingerprint}. Verbs that "
            "apply the intervention check it; --model checks it now."
        )
    terminal.line(f"Written to {folder}" + (f", commit {commit}." if commit else "."))


def _check_fingerprint(intervention: Intervention, model: str | None, device: str | None) -> bool:
    """Compare the model with the intervention's. Without `model`, that of the card if it is known by name here: a
    stranger's card may name anything, so nothing is downloaded and no path is opened because of it."""
    from pivotal.models import list_models, load_model

    if model is None and intervention.model not in dict(list_models()):
        return False
    lm = load_model(model or intervention.model, device=device, download=model is not None)
    weights = intervention.model_fingerprint.partition("+")[0]
    if lm.fingerprint().partition("+")[0] != weights:
        intervention.check_model(lm.name, lm.fingerprint())
    return True
