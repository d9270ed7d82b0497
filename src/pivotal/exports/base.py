"""The interface of every export target, and what a target is given: an intervention and where its units are."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

from pivotal.errors import PivotalError
from pivotal.exports.templates import code, literal
from pivotal.files import disk
from pivotal.folders import LOCK, locked
from pivotal.models.base import LanguageModel
from pivotal.models.bases.basis import Basis
from pivotal.models.bases.edit import own_site
from pivotal.models.hooks import Tap
from pivotal.models.transformers.lm import TransformersLM
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.units import Steps


@dataclass(frozen=True, slots=True)
class SiteEdit:
    """The coordinates of one site that an intervention sets in one direction."""

    site: str
    """The site, such as `mlp.3` or `mlp.3@pca`."""
    tap: Tap
    path: str
    """The name of the module within the model, such as `model.layers.3.mlp.down_proj`."""
    ids: tuple[int, ...]
    """The coordinates, from 0 within the activation, or within the basis."""
    values: tuple[float, ...]
    """One value per coordinate."""
    basis: Basis | None = None
    """The basis of the coordinates, or the part of it that they need; None for the model's own units."""

    @property
    def held(self) -> list[int]:
        """Where the coordinates are in the arrays of the basis, which may hold a part of them only."""
        if self.basis is None or self.basis.units is None:
            return list(self.ids)
        place = {unit: n for n, unit in enumerate(self.basis.units.tolist())}
        return [place[one] for one in self.ids]

    @property
    def kind(self) -> str:
        """`mlp`, `attn`, `head`, `resid` …"""
        return self.tap.site.kind

    @property
    def layer(self) -> int:
        """The block of the model, counted from 0."""
        return self.tap.block


@dataclass(frozen=True)
class Portable:
    """An intervention in a model of `transformers`, in the terms of that model."""

    model: TransformersLM
    intervention: Intervention
    base: str
    """The model as `from_pretrained` loads it: a name on the Hugging Face hub, or a folder."""
    directions: tuple[str, ...]
    """The directions to export."""
    in_memory: bool = False
    """Whether the model was made in memory, so that `from_pretrained` cannot load it."""
    train: Problem | None = None
    test: Problem | None = None
    """Training pairs and held-out pairs at the sites of the intervention, for targets that need them."""
    pairs: int | None = None
    """The number of held-out pairs behind the scores."""
    verdict: str = ""
    """The verdict of the run in a sentence."""

    @staticmethod
    def of(
        model: LanguageModel,
        intervention: Intervention,
        *,
        base: str | None = None,
        direction: str | None = None,
        train: Problem | None = None,
        test: Problem | None = None,
    ) -> Portable:
        """Check that an intervention can be exported. Without `direction`, both directions are."""
        if not isinstance(model, TransformersLM):
            raise PivotalError(
                f"Only Transformers models can be exported; {model.name} is not one. Use `pivotal generate` instead."
            )
        # The sites exist, and the bases fit them.
        model.in_bases(intervention.bases).unit_space(intervention.sites)
        if direction is not None:
            wanted: tuple[str, ...] = (intervention.directions[intervention.direction(direction)],)
        else:
            wanted = intervention.directions
        for label in wanted:
            if not intervention.active[intervention.direction(label)].any():
                others = [d for d in intervention.directions if d != label]
                raise PivotalError(f"No unit is set to flip to {label}. Export --direction {others[0]}.")
        named = model.network.name_or_path or model.name
        # An export is used in its own folder, from which a relative path leads nowhere.
        if Path(named).is_dir():
            named = str(Path(named).resolve())
        in_memory = not (base or model.network.name_or_path)
        return Portable(model, intervention, base or named, wanted, in_memory, train, test)

    @cached_property
    def _paths(self) -> dict[nn.Module, str]:
        return {module: name for name, module in self.model.network.named_modules()}

    def edits(self, direction: str) -> list[SiteEdit]:
        """What is set in a direction, site by site in the order of computation."""
        i = self.intervention
        row = i.direction(direction)
        starts = np.cumsum([0, *(unit.size for unit in i.units)])
        found: dict[str, list[tuple[int, float]]] = {}
        for unit, start, active in zip(i.units, starts, i.active[row], strict=False):
            if active:
                values = i.values[row, start : start + unit.size].tolist()
                places = range(unit.index * unit.size, (unit.index + 1) * unit.size)
                found.setdefault(unit.site, []).extend(zip(places, values, strict=True))
        edits = []
        for tap in self.model.taps:
            for name in (name for name in found if own_site(name) == tap.site.name):
                ids, values = zip(*sorted(found[name]), strict=True)
                edits.append(SiteEdit(name, tap, self._paths[tap.module], ids, values, self.bases.get(name)))
        return edits

    @cached_property
    def bases(self) -> dict[str, Basis]:
        """The bases that the intervention carries, or the parts of them that its units need."""
        return {name: Basis.of(stored) for name, stored in self.intervention.bases.items()}

    @property
    def first(self) -> int:
        """The number of tokens before a sentence that are not edited, such as BOS."""
        return len(self.model.vocabulary.priming)

    @property
    def priming(self) -> str:
        """What the model reads before every sentence, as code in Markdown; empty if it reads nothing."""
        return code(self.model.tokenizer.decode(list(self.model.vocabulary.priming))) if self.first else ""

    @property
    def text(self) -> str:
        """The arguments with which its tokenizer reads some text as pivotal does, as code."""
        words = self.model.vocabulary
        if words.priming == words.added:
            return "'Your text'"
        before = self.model.tokenizer.decode(list(words.priming))
        return f"{literal(before + 'Your text')}, add_special_tokens=False"

    @property
    def names(self) -> dict[str, str]:
        """A name for the file or folder of each direction. A label may be any text."""
        labels = self.intervention.directions
        plain = [re.sub(r"[^A-Za-z0-9_-]", "-", label)[:40] for label in labels]
        if len(set(plain)) < len(plain) or not all(name.strip("-") for name in plain):
            plain = [f"{name}-{n}" for n, name in enumerate(plain)]
        return dict(zip(labels, plain, strict=True))

    def priming_notes(self) -> tuple[str, ...]:
        """How a target that changes every position differs if the model reads something before a sentence."""
        if not self.first:
            return ()
        return (
            f"The model reads {self.priming} before every sentence. pivotal does not edit this text, but this export "
            "changes every position, including those of this text. The code targets (snippet, pyvene, nnsight, "
            "transformer-lens) do not edit it either.",
        )


@dataclass(frozen=True, slots=True)
class ExportNotes:
    """What a target wrote, for the README of the folder."""

    use: str
    """How to load and apply it, in Markdown."""
    approximate: tuple[str, ...] = ()
    """How it differs from the intervention, a sentence each; empty if it is exact."""


class Target(ABC):
    """A format or library that an intervention is exported to. One file in `pivotal/exports/` adds a target."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line about what is written."""
    steps: ClassVar[tuple[Steps, ...]] = ("single", "every")
    """The steps that the target can express."""
    needs_pairs: ClassVar[bool] = False
    """Whether it needs the pairs of the run."""

    @abstractmethod
    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        """Write the files into an empty folder."""

    def check_steps(self, steps: Steps) -> None:
        """Raise PivotalError if the target cannot express when the units are set."""
        if steps not in self.steps:
            raise PivotalError(
                f"{self.name} changes every position, but a single-step intervention one word. Export it to snippet, "
                "pyvene, nnsight or transformer-lens, which take the position, or find units with --steps every."
            )


def check_folder(folder: Path, own: Callable[[set[str]], Collection[str]]) -> set[str]:
    """The paths of the files in a folder that is to be written. PivotalError if it is a file or a link, or if it holds
    files of somebody else; `own` says which files are those of an earlier command."""
    with disk(folder):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise PivotalError(f"{folder} must be a folder, not a file or a link. Name another with --out.")
        paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
        paths = [path for path in paths if path != folder / LOCK]
    files = {path.relative_to(folder).as_posix() for path in paths}
    if others := sorted(files - set(own(files))):
        raise PivotalError(f"{folder} holds other files ({others[0]}). Nothing was changed. Use --out.")
    return files


@contextmanager
def taken(folder: Path, own: Callable[[set[str]], Collection[str]] = lambda there: ()) -> Iterator[set[str]]:
    """The same with the lock of the folder, which is held within the block."""
    check_folder(folder, own)
    with locked(folder, "folder"):
        yield check_folder(folder, own)
