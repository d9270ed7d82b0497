"""`pivotal fit-basis`: a basis of a site, fitted to text."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.errors import PivotalError


def fit_basis(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="The model: a name from `pivotal list models`, a folder, or hf:ORG/NAME.",
            show_default=False,
            autocompletion=complete.models,
        ),
    ],
    site: Annotated[str, typer.Argument(help="One site, such as resid.12 or hidden.0.", show_default=False)],
    kind: Annotated[
        Literal["pca", "whitened", "sae"],
        typer.Option(
            help="Principal components, the same in units of their standard deviations, or a sparse autoencoder."
        ),
    ] = "pca",
    out: Annotated[
        str | None,
        typer.Option(help="The folder to write. Default: bases/MODEL-SITE-KIND.", metavar="DIR"),
    ] = None,
    sentences: Annotated[
        str | None,
        typer.Option(
            help="A text with one sentence per line. Default: the bundled text, about 1,300 words.",
            metavar="FILE",
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens to read.", min=2)] = 200_000,
    features: Annotated[
        int,
        typer.Option(help="sae: number of features. 0: eight for every coordinate of the site.", min=0),
    ] = 0,
    top_k: Annotated[
        int, typer.Option(help="sae: number of features that may be active in a state.", min=1)
    ] = 16,
    updates: Annotated[int, typer.Option(help="sae: number of optimisation steps.", min=1)] = 2000,
    seed: Annotated[int, typer.Option(help="sae: seed of the training.", min=0)] = 0,
    device: shared_options.Device = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Fit a basis of a site to text, so that a search can use its coordinates as units.

    The sites of a search then name the folder: `--sites resid.12@pca:FOLDER`. An autoencoder is written in the layout
    of SAELens.
    """
    import re
    from pathlib import Path

    from pivotal.jobs.fit_basis import fit_basis as fit
    from pivotal.jobs.fit_basis import one_site
    from pivotal.models import load_model
    from pivotal.models.bases.train_sae import SAESettings
    from pivotal.records.run import Progress
    from pivotal.watch import display

    for option in ("features", "top_k", "updates", "seed"):
        if kind != "sae" and not shared_options.is_default(ctx, option):
            raise PivotalError(
                f"--{option.replace('_', '-')} is an option of --kind sae, but --kind is {kind}. Leave it out."
            )
    lm = load_model(model, device=device)
    name = "-".join(
        re.sub(r"[^\w.]+", "-", part).strip("-") for part in (lm.name, one_site(lm, site).name, kind)
    )

    def show(what: str, done: int, total: int) -> None:
        watching.progress(Progress(what, done, total))

    with display(quiet) as watching:
        made = fit(
            lm,
            site,
            kind=kind,
            corpus=sentences,
            out=Path(out) if out is not None else Path("bases") / name,
            sae=SAESettings(features, top_k, updates),
            tokens=tokens,
            seed=seed,
            overwrite=overwrite,
            progress=show,
        )
    if json:
        terminal.as_json({**vars(made), "folder": str(made.folder)})
        return
    about = (
        ""
        if made.unexplained is None
        else f" It leaves {made.unexplained:.0%} of the variance unexplained; {made.dead:,} features are never active."
    )
    terminal.line(
        f"{made.coordinates:,} coordinates of {made.site}, fitted to {made.states:,} states.{about}"
    )
    terminal.line(f"Written to {made.folder}; search it with --sites {made.site}@{made.kind}:{made.folder}")
