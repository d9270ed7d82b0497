"""`pivotal import-lm`: make a model folder of a checkpoint, running nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pivotal.cli import asked, show, typed


def import_lm(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.pt", help="A pickled RNNModel (PyTorch 0.2 and later), or its state_dict."
        ),
    ],
    vocabulary: Annotated[
        Path,
        typer.Option(
            "--vocab",
            metavar="FILE",
            help="The words, one per line, in the order of the embedding.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The model folder. Default: among the local models, by the name of the file.",
            show_default=False,
        ),
    ] = None,
    overwrite: asked.Overwrite = False,
    json: asked.Json = False,
) -> None:
    """Import the checkpoint of a recurrent language model, such as the one of the paper.

    The file is a pickle, which is a program; it is read without running any of it.
    """
    from pivotal.lm.importing import import_checkpoint
    from pivotal.models.recurrent.folder import models_home

    if out is None:
        _check_name(checkpoint.stem)
    folder = models_home() / checkpoint.stem if out is None else out
    found = import_checkpoint(checkpoint, vocabulary, folder, replace=overwrite, command=typed.command())
    name = folder.name if out is None else str(folder)
    if json:
        fingerprint = found.model.fingerprint()
        show.as_json(
            {"model": name, "folder": str(folder), "summary": found.summary, "fingerprint": fingerprint}
        )
    else:
        show.line(f"{found.summary}.", style="bold")
        show.line(f"Written to {folder}. Try it: pivotal eval-lm {name}, pivotal find {name}")


def _check_name(name: str) -> None:
    """A local model must not hide behind a bundled one, nor behind a dot."""
    from pivotal.errors import PivotalError
    from pivotal.models import list_models
    from pivotal.models.recurrent.folder import models_home

    local = (models_home() / name / "config.json").is_file()
    if name.startswith(".") or [known for known, _ in list_models()].count(name) > local:
        raise PivotalError(
            f"A local model is known by the name of its file, but {name!r} is the name of a bundled model, or hidden. "
            "Rename the file, or give --out."
        )
