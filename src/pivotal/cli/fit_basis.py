"""`pivotal fit-basis`: a basis of a site, fitted to text."""

from __future__ import annotations

from typing import Annotated, Literal

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, panel

_in_text = panel("Text")


def fit_basis(
    model: Annotated[
        str,
        argument(
            "The model: a name from `pivotal list models`, a folder, or hf:ORG/NAME.",
            autocompletion=complete.models,
        ),
    ],
    site: Annotated[str, argument("One site, such as resid.12 or hidden.0.")],
    kind: Annotated[
        Literal["pca", "whitened"],
        _in_text("Principal components, or the same in units of their standard deviations."),
    ] = "pca",
    out: Annotated[
        str | None, in_output("The folder to write. Default: bases/MODEL-SITE-KIND.", metavar="DIR")
    ] = None,
    sentences: Annotated[
        str | None,
        _in_text(
            "A text with one sentence per line. Default: the bundled text, about 1,300 words.", metavar="FILE"
        ),
    ] = None,
    tokens: Annotated[int, _in_text("Maximum number of tokens to read.", min=2)] = 200_000,
    device: shared_options.Device = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Fit a basis of a site to text, so that a search can use its coordinates as units.

    The sites of a search then name the folder: `--sites resid.12@pca:FOLDER`.
    """
    import re
    from pathlib import Path

    from pivotal.jobs.fit_basis import fit_basis as fit
    from pivotal.jobs.fit_basis import one_site
    from pivotal.models import load_model
    from pivotal.records.run import Progress
    from pivotal.watch import display

    lm = load_model(model, device=device)
    name = "-".join(
        re.sub(r"[^\w.]+", "-", part).strip("-") for part in (lm.name, one_site(lm, site).name, kind)
    )

    def show(done: int, total: int) -> None:
        watching.progress(Progress("reading", done, total))

    with display(quiet) as watching:
        made = fit(
            lm,
            site,
            kind=kind,
            corpus=sentences,
            out=Path(out) if out is not None else Path("bases") / name,
            tokens=tokens,
            overwrite=overwrite,
            progress=show,
        )
    if json:
        terminal.as_json({**vars(made), "folder": str(made.folder)})
        return
    terminal.line(f"{made.coordinates:,} coordinates of {made.site}, fitted to {made.states:,} states.")
    terminal.line(f"Written to {made.folder}; search it with --sites {made.site}@{made.kind}:{made.folder}")
