"""Fit a basis to the states that a model has at one site while it reads a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.folders import check_no_other_files, locked
from pivotal.models.base import LanguageModel
from pivotal.models.bases.basis import pca
from pivotal.models.bases.files import ARRAYS, BASIS, write_folder
from pivotal.models.tree import PrefixTree
from pivotal.problem.activations import states_to_edit
from pivotal.problem.text import BUNDLED, mostly_unknown, sentences_of, tokens_of
from pivotal.records.basis import BasisRecord
from pivotal.units import Site, UnitSpace

_TOGETHER = 64
"""Sentences that are read at once."""


def fit_basis(
    model: LanguageModel,
    site: str,
    *,
    corpus: str | Path | None = None,
    out: str | Path,
    tokens: int = 200_000,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BasisRecord:
    """Fit principal components of a site to a text, one sentence per line, and write them to a folder.

    At most `tokens` tokens are read. By default the text is the bundled one, which is short. The folder is then named
    as `SITE@pca:FOLDER` among the sites of a search. `progress` is told how many sentences are read, of how many.
    """
    folder, fitted = Path(out), one_site(model, site)
    with locked(folder, "basis"):
        _check_free(folder, overwrite)
        states = text_states(model, fitted, sentences_of(corpus), tokens, progress)
        basis = pca(states)
        record = BasisRecord(
            model=model.name,
            model_fingerprint=model.fingerprint(),
            site=fitted.name,
            corpus=BUNDLED if corpus is None else Path(corpus).name,
            states=len(states),
            basis=basis.card(),
        )
        write_folder(folder, basis, record)
    return record


def one_site(model: LanguageModel, pattern: str) -> Site:
    """The site that a pattern selects. Raises PivotalError if it selects several."""
    sites = model.unit_space(pattern).sites
    if len(sites) > 1:
        raise PivotalError(f"{pattern!r} selects {len(sites)} sites. Name one, such as {sites[0].name}.")
    return sites[0]


def text_states(
    model: LanguageModel,
    site: Site,
    sentences: Sequence[str],
    tokens: int,
    progress: Callable[[int, int], None] | None = None,
) -> Float[Tensor, "states width"]:
    """The states of a site at every token of some sentences. Where a site has no bounds, the first tokens are left out:
    transformers have extreme states there."""
    chosen: list[tuple[int, ...]] = []
    read = 0
    for line in sentences:
        if len(ids := tokens_of(model, line)) < 2:
            continue
        if read + len(ids) > tokens and chosen:
            break
        chosen.append(ids)
        read += len(ids)
    if mostly_unknown(model, chosen):
        raise PivotalError(f"{model.name} does not know most words of the text. Give another (--sentences).")
    states, space = [], UnitSpace((site,))
    for start in range(0, len(chosen), _TOGETHER):
        part = chosen[start : start + _TOGETHER]
        tree = PrefixTree.build(part, directions=[0] * len(part), steps="every")
        states += states_to_edit(model, tree, space, 1)
        if progress is not None:
            progress(start + len(part), len(chosen))
    return torch.cat(states)


def _check_free(folder: Path, overwrite: bool) -> None:
    """Raise PivotalError if the folder holds something else, or a basis that must stay."""
    check_no_other_files(folder, "basis", (BASIS, ARRAYS))
    if (folder / BASIS).exists() and not overwrite:
        raise PivotalError(f"{folder} holds a basis. Name another with --out, or use --overwrite.")
