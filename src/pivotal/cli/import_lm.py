"""`pivotal import-lm`: convert a checkpoint to a model folder, without running any code in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, panel

_in_text = panel("Text")


def import_lm(
    checkpoint: Annotated[
        Path, argument("A pickled RNNModel (PyTorch 0.2 or later), or its state_dict.", metavar="FILE.pt")
    ],
    vocabulary: Annotated[
        Path,
        _in_text(
            "The vocabulary, one word per line, in the order of the embedding.", "--vocab", metavar="FILE"
        ),
    ],
    out: Annotated[
        Path | None,
        in_output(
            "The model folder to write. Default: a local model with the name of the file.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
) -> None:
    """Import the checkpoint of a recurrent language model, such as the paper's.

    The file is a pickle, which can contain code; pivotal reads it without running any.
    """
    from pivotal.files import models_home
    from pivotal.lm.import_checkpoint import import_checkpoint

    if out is None:
        _check_name(checkpoint.stem)
    folder = models_home() / checkpoint.stem if out is None else out
    command = terminal.command()
    model, summary = import_checkpoint(checkpoint, vocabulary, folder, replace=overwrite, command=command)
    name = folder.name if out is None else str(folder)
    if json:
        told = {"model": name, "folder": str(folder), "summary": summary, "fingerprint": model.fingerprint()}
        terminal.as_json(told)
    else:
        terminal.line(f"{summary}.", style="bold")
        terminal.line(f"Written to {folder}. Try it: pivotal eval-lm {name}, pivotal find {name}")


def _check_name(name: str) -> None:
    """PivotalError if the name is taken by a bundled model, or hidden."""
    from pivotal.errors import PivotalError
    from pivotal.files import models_home
    from pivotal.models import list_models

    local = (models_home() / name / "config.json").is_file()
    if name.startswith(".") or [known for known, _ in list_models()].count(name) > local:
        raise PivotalError(
            f"A local model gets the name of its file, but {name!r} is the name of a bundled model, or hidden. "
            "Rename the file, or give --out."
        )
