"""`pivotal export`, `pivotal push` and `pivotal pull`: an intervention for another library, or on the hub."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, in_question, in_run
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.problem.problem import Problem
    from pivotal.records.intervention import Intervention


@shared_options.takes_run
def export(
    *,
    to: Annotated[
        str,
        in_output(
            "The format or library: peft, transformers, snippet, pyvene, nnsight, transformer-lens, control-vector.",
            metavar="TARGET",
            autocompletion=complete.exports,
            show_default=False,
        ),
    ],
    direction: Annotated[
        str | None, in_question("The label to flip to. Default: both.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, in_output("The folder to write. Default: exports/PHENOMENON-STEPS-MODEL-TARGET.")
    ] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Write an intervention in the format of another library, with a README that says how to use it.

    Only interventions in Transformers models can be exported, not those in LSTMs, GRUs and RNNs.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.exports import TARGETS, Portable, check_free
    from pivotal.exports import export as write
    from pivotal.records import serial

    saved = Saved.read(**chosen)
    target = TARGETS.get(to)()
    i = saved.intervention
    target.check_steps(i.steps)
    if direction is not None:
        i.direction(direction)
    folder = Path(out) if out is not None else default_folder(i.phenomenon, i.steps, i.model, to)
    check_free(folder, overwrite=overwrite)
    if target.needs_pairs and saved.folder is None:
        raise PivotalError(
            f"{to} needs the pairs of the run, but {saved.path} is an intervention without its run. Give the run "
            "folder."
        )
    train, test = problems(saved) if target.needs_pairs else (None, None)
    portable = Portable.of(
        saved.lm, i, base=hub_name(saved.question.model), direction=direction, train=train, test=test
    )
    record = write(portable, to, folder, overwrite=overwrite)
    if json:
        terminal.as_json({"folder": str(folder), **serial.plain(record)})
        return
    terminal.line(f"Written to {folder}: {target.summary}. Read {folder / 'README.md'}.")
    for sentence in record.approximate:
        terminal.line(f"Approximate: {sentence}")


def problems(saved: Saved) -> tuple[Problem, Problem]:
    """Some training pairs and the held-out pairs of the run, at the sites of the intervention."""
    from pivotal.problem.problem import Problem

    train, test = saved.divided("Run again.")
    some = train[:: max(1, len(train) // _PAIRS)]
    problem = Problem(saved.lm, some, sites=saved.intervention.sites, steps=saved.question.steps)
    return problem, problem.on(test)


_PAIRS = 1000
"""About how many training pairs the activations are averaged over."""


def default_folder(phenomenon: str, steps: str, model: str, to: str) -> Path:
    """`exports/<phenomenon>-<steps>-<model>-<target>`."""
    parts = (phenomenon, steps, model, to)
    return Path("exports") / "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts)


def hub_name(spec: str) -> str | None:
    """The name of a model on the Hugging Face hub, if the spec is one; else None."""
    if spec.startswith("hf:"):
        return spec.removeprefix("hf:")
    return spec if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", spec) and not Path(spec).exists() else None


# -- the Hugging Face hub -------------------------------------------------------------------------------------------


@shared_options.takes_run
def push(
    repository: Annotated[str, argument("The repository on the hub.", metavar="ORG/NAME")],
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
        bool, in_output("Write shared/ORG-NAME, print the card, and upload nothing.", "--dry-run")
    ] = False,
    out: Annotated[str | None, in_output("The same, to a folder of this name.", metavar="DIR")] = None,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Share an intervention on the Hugging Face hub: its card, values, certificate, report and adapters."""
    from pivotal.cli.run_argument import Saved
    from pivotal.exports import hub
    from pivotal.exports.base import check_folder
    from pivotal.files import disk

    hub.check_name(repository)
    saved = Saved.read(**chosen)
    dry_run, folder = dry_run or out is not None, Path(out or f"shared/{repository.replace('/', '-')}")
    if dry_run:
        check_folder(folder, lambda there: ())
    based = base_model or hub_name(saved.question.model)
    shared = hub.Shared(
        saved.intervention,
        saved.lm,
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


def pull(
    repository: Annotated[
        str, argument("The repository on the hub, or a folder from push.", metavar="ORG/NAME")
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
