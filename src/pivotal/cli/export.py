"""`pivotal export`, `pivotal push` and `pivotal pull`: an intervention for another library, or on the hub."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import RunOptions, argument
from pivotal.errors import PivotalError
from pivotal.files import slug

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.problem.problem import Problem


@dataclass(frozen=True)
class ExportOptions:
    help_panel: ClassVar[str] = shared_options.OUTPUT

    to: str
    """The format or library: peft, transformers, snippet, pyvene, nnsight, transformer-lens, control-vector."""
    direction: str | None = None
    """The label to flip to. Default: both."""
    out: str | None = None
    """The folder to write. Default: exports/PHENOMENON-STEPS-MODEL-TARGET."""
    overwrite: bool = False
    """Replace the content of the folder."""


@shared_options.takes_options
def export(
    path: shared_options.Run, run: RunOptions, options: ExportOptions, json: shared_options.Json = False
) -> None:
    """Write an intervention in the format of another library, with a README that says how to use it.

    Only interventions in Transformers models can be exported, not those in LSTMs, GRUs and RNNs.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.exports import TARGETS, Portable, check_free
    from pivotal.exports import export as write
    from pivotal.exports.hub import hub_name
    from pivotal.records import serial

    saved, to, direction = Saved.read(path, run), options.to, options.direction
    target, i = TARGETS.get(to)(), saved.intervention
    target.check_steps(i.steps)
    if direction is not None:
        i.direction(direction)
    folder = Path(options.out or f"exports/{slug(i.phenomenon, i.steps, i.model, to)}")
    check_free(folder, overwrite=options.overwrite)
    train, test = problems(saved) if target.needs_pairs else (None, None)
    portable = Portable.of(
        saved.lm, i, base=hub_name(saved.question.model), direction=direction, train=train, test=test
    )
    pairs, verdict, _ = _evidence(saved)
    portable = replace(portable, pairs=pairs, verdict=verdict)
    record = write(portable, to, folder, overwrite=options.overwrite)
    if json:
        terminal.as_json({"folder": str(folder), **serial.plain(record)})
        return
    terminal.line(f"Written to {folder}: {target.summary}. Read {folder / 'README.md'}.")
    for sentence in record.approximate:
        terminal.line(f"Approximate: {sentence}")
    if verdict:
        terminal.line(verdict)


def problems(saved: Saved) -> tuple[Problem, Problem]:
    """Some training pairs and the held-out pairs of the run, at the sites of the intervention."""
    from pivotal.problem.problem import Problem

    train, test = saved.divided("Give its run folder, or run again.")
    some = train[:: max(1, len(train) // _PAIRS)]
    problem = Problem(saved.lm, some, sites=saved.intervention.sites, steps=saved.question.steps)
    return problem, problem.on(test)


_PAIRS = 1000
"""About how many training pairs the activations are averaged over."""


# -- the Hugging Face hub -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PushOptions:
    help_panel: ClassVar[str] = shared_options.RUN

    base_model: str | None = None
    """The name of the model on the hub. Default: the run's model, if it came from there."""
    license: str | None = None
    """The licence, such as apache-2.0. Default: that of the base model on the hub."""
    private: bool = False
    """Create a private repository."""
    dry_run: bool = False
    """Write the folder shared/ORG-NAME and print the card, but upload nothing."""
    out: str | None = None
    """Write this folder instead, and upload nothing."""


@shared_options.takes_options
def push(
    path: shared_options.Run,
    repository: Annotated[str, argument("The repository on the hub.", metavar="ORG/NAME")],
    run: RunOptions,
    options: PushOptions,
    json: shared_options.Json = False,
) -> None:
    """Share an intervention on the Hugging Face hub: its card, values, certificate, report and adapters."""
    from pivotal.cli.run_argument import Saved
    from pivotal.exports import hub
    from pivotal.exports.base import check_folder

    hub.check_name(repository)
    saved, dry_run = Saved.read(path, run), options.dry_run or options.out is not None
    folder = Path(options.out or f"shared/{repository.replace('/', '-')}")
    if dry_run:
        check_folder(folder, lambda there: ())
    based = options.base_model or hub.hub_name(saved.question.model)
    about = (repository, based, options.license, *_evidence(saved))
    out = folder if dry_run else None
    where, card, notes = hub.share(
        hub.Shared(saved.intervention, saved.lm, *about), out=out, private=options.private
    )
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


def _evidence(saved: Saved) -> tuple[int | None, str, dict[str, bytes]]:
    """The number of held-out pairs of the run, its verdict in a sentence, if it is about this intervention, and the
    content of its files that belong to the intervention."""
    from pivotal.jobs.run_folder import CERTIFICATE, REPORT, RunFolder
    from pivotal.jobs.runs import read_run

    if saved.folder is None:
        return None, "", {}

    def of(folder: RunFolder) -> tuple[int | None, str, dict[str, bytes]]:
        if folder.intervention(saved.run) != saved.intervention:
            raise PivotalError(f"The run in {folder.path} has changed meanwhile. Repeat the command.")
        certificate = folder.certificate()
        certified = certificate is not None and certificate.intervention == saved.intervention.fingerprint()
        names = [REPORT] * folder.report.is_file() + [CERTIFICATE] * certified
        files = {name: (folder.path / name).read_bytes() for name in names}
        if not folder.finished:
            return None, "", files
        summary = folder.summary()
        told = summary.verdict if saved.run == summary.best else None
        return summary.pairs.test, told.sentence if told else "", files

    return read_run(saved.folder.path, of)


@dataclass(frozen=True)
class PullOptions:
    help_panel: ClassVar[str] = shared_options.RUN

    revision: str | None = None
    """A commit, tag or branch. Default: the newest commit."""
    offline: bool = False
    """Use only what was downloaded before."""
    out: str | None = None
    """The folder to write. Default: interventions/ORG-NAME."""
    overwrite: bool = False
    """Replace the content of the folder."""


@shared_options.takes_options
def pull(
    repository: Annotated[
        str, argument("The repository on the hub, or a folder from push.", metavar="ORG/NAME")
    ],
    options: PullOptions,
    json: shared_options.Json = False,
) -> None:
    """Download an intervention from the Hugging Face hub: JSON and safetensors only, from one commit."""
    from pivotal.exports import hub
    from pivotal.records import serial

    pulled = hub.pull(repository, options.revision, offline=options.offline)
    commit = pulled.source.commit
    name = Path(repository).resolve().name if commit is None else repository.replace("/", "-")
    folder = Path(options.out or f"interventions/{name}")
    hub.keep(pulled, folder, overwrite=options.overwrite)
    if json:
        terminal.as_json({"folder": str(folder), **serial.plain(pulled.source)})
        return
    terminal.line(repr(pulled.intervention))
    terminal.line(f"Written to {folder}" + (f", commit {commit}." if commit else "."))
