"""`pivotal fit-basis`: a basis of a site, fitted to text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument
from pivotal.options import check_least


@dataclass(frozen=True)
class BasisOptions:
    help_panel: ClassVar[str] = "Text"

    sentences: str | None = None
    """A text file with one sentence per line. Default: the bundled text, about 1,300 words."""
    tokens: int = 200_000
    """Maximum number of tokens to read."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    out: str | None = None
    """The folder to write. Default: bases/MODEL-SITE."""
    overwrite: bool = False
    """Replace the content of the folder."""

    def __post_init__(self) -> None:
        check_least(self, tokens=2)


@shared_options.takes_options
def fit_basis(
    model: Annotated[
        str,
        argument(
            "The model: a name from `pivotal list models`, a folder, or hf:ORG/NAME.",
            autocompletion=complete.models,
        ),
    ],
    site: Annotated[str, argument("One site, such as resid.12 or hidden.0.")],
    options: BasisOptions,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Fit the principal components of a site to text, so that a search can use them as units.

    Then search it with `--sites resid.12@pca:FOLDER`.
    """
    from pathlib import Path

    from pivotal.files import slug
    from pivotal.jobs.fit_basis import fit_basis as fit
    from pivotal.jobs.fit_basis import one_site
    from pivotal.models import load_model
    from pivotal.records.run import Progress
    from pivotal.records.serial import plain
    from pivotal.watch import display

    lm = load_model(model, device=options.device)
    folder = Path(options.out or f"bases/{slug(lm.name, one_site(lm, site).name)}")
    with display(quiet) as watching:
        made = fit(
            lm,
            site,
            corpus=options.sentences,
            out=folder,
            tokens=options.tokens,
            overwrite=options.overwrite,
            progress=lambda done, total: watching.progress(Progress("reading", done, total)),
        )
    if json:
        terminal.as_json({"folder": str(folder), **plain(made)})
        return
    terminal.line(f"{made.basis.coordinates:,} coordinates of {made.site}, fitted to {made.states:,} states.")
    terminal.line(f"Written to {folder}; search it with --sites {made.site}@pca:{folder}")
