"""The interface of every export target, and what a target is given: an intervention and where its units are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.hooks import Tap
from pivotal.models.transformers.lm import TransformersLM
from pivotal.problem.problem import Problem
from pivotal.records.intervention import Intervention
from pivotal.units import Steps


@dataclass(frozen=True, slots=True)
class SiteEdit:
    """The coordinates of one site that an intervention sets in one direction."""

    tap: Tap
    path: str
    """The name of the module within the model, such as `model.layers.3.mlp.down_proj`."""
    ids: tuple[int, ...]
    """The coordinates, from 0 within the activation."""
    values: tuple[float, ...]
    """One value per coordinate."""

    @property
    def site(self) -> str:
        return self.tap.site.name

    @property
    def kind(self) -> str:
        """`mlp`, `attn`, `head`, `resid` …"""
        return self.tap.site.kind

    @property
    def layer(self) -> int:
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
    train: Problem | None = None
    test: Problem | None = None
    """Training pairs and held-out pairs at the sites of the intervention, for targets that need them."""

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
        model = model.plain
        for unit in intervention.units:
            if unit.site in intervention.bases:
                raise PivotalError(
                    f"Exports set coordinates of the model's own activations, but units of {unit.site} are in another "
                    "basis. Apply this intervention with pivotal, or find units of the site itself (--sites "
                    f"{unit.site.partition('@')[0]})."
                )
        model = model.plain
        if not isinstance(model, TransformersLM):
            raise PivotalError(
                f"Exports are for models of transformers, but {model.name} is a {type(model).__name__}, which other "
                "libraries cannot load. Apply the intervention with pivotal: `pivotal generate`, or "
                "model.intervened(…) in Python."
            )
        model.unit_space(",".join(dict.fromkeys(unit.site for unit in intervention.units)))  # the sites exist
        if direction is not None:
            wanted: tuple[str, ...] = (intervention.directions[intervention.direction(direction)],)
        else:
            wanted = intervention.directions
        for label in wanted:
            if not intervention.active[intervention.direction(label)].any():
                others = [d for d in intervention.directions if d != label]
                raise PivotalError(
                    f"An export sets at least one unit, but this intervention sets none to flip to {label}. "
                    f"Export the other direction only: --direction {others[0]}."
                )
        named = base or model.network.name_or_path or model.name
        return Portable(model, intervention, named, wanted, train, test)

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
            if pairs := sorted(found.get(tap.site.name, ())):
                ids = tuple(place for place, _ in pairs)
                edits.append(SiteEdit(tap, self._paths[tap.module], ids, tuple(value for _, value in pairs)))
        return edits

    @property
    def first(self) -> int:
        """The number of tokens before a sentence that are not edited, such as BOS."""
        return len(self.model.priming_tokens)


@dataclass(frozen=True, slots=True)
class Passport:
    """What a target wrote, for the README of the folder."""

    use: str
    """How to load and apply it, in Markdown."""
    approximate: tuple[str, ...] = ()
    """How it differs from the intervention, a sentence each. None if it is exact."""


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
    def write(self, portable: Portable, folder: Path) -> Passport:
        """Write the files into an empty folder."""

    def check_steps(self, steps: Steps) -> None:
        """Raise PivotalError if the target cannot express when the units are set."""
        if steps not in self.steps:
            raise PivotalError(
                f"A single-step intervention sets its units at one word of a sentence, but {self.name} changes every "
                "position. Export it to snippet, pyvene, nnsight or transformer-lens, which take the position, or "
                "find units with --steps every."
            )


def check_inputs_only(target: str, edits: list[SiteEdit]) -> None:
    """Raise PivotalError unless every edited activation is the input of a projection, whose weights can hold the
    edit."""
    for edit in edits:
        if edit.tap.side != "input":
            raise PivotalError(
                f"{target} changes the weights of projections, and {edit.site} is the output of a whole block, which "
                "enters no projection of its own. Export it to snippet, pyvene, nnsight or transformer-lens, or find "
                "units of other sites (--sites mlp, attn or head)."
            )


def folder_names(labels: tuple[str, ...]) -> dict[str, str]:
    """A name for the folder of each direction. A label may be any text."""
    names: dict[str, str] = {}
    for label in labels:
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in label)[:40] or "-"
        while plain in names.values() or not plain.strip("-"):
            plain += f"{len(names)}"
        names[label] = plain
    return names
