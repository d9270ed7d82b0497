"""An intervention: the units, their values in each direction, and the model and data they were found with."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import disk
from pivotal.printing import counted
from pivotal.records import serial
from pivotal.records.basis import BasisCard, StoredBasis, open_arrays, read_bases, write_arrays, write_bases
from pivotal.units import Steps, Unit, Values

if TYPE_CHECKING:
    from pivotal.models.base import LanguageModel
    from pivotal.records.exported import ExportRecord

CARD, VALUES, BASES = "card.json", "values.safetensors", "bases.safetensors"

_LISTED = 8
"""The most units that the repr lists."""


class Card(serial.Record, frozen=True, kw_only=True, tag_field="format", tag="pivotal-intervention-1"):
    """card.json: an intervention without its arrays, which are in values.safetensors in the same folder."""

    model: str
    """The name of the model in which the units were found."""
    model_fingerprint: str
    """Identifies the weights of the model and the text that it read first."""
    phenomenon: str
    data_fingerprint: str
    """Identifies the pairs on which the units were found: the training pairs that the model can score."""
    question_fingerprint: str = ""
    """Identifies all pairs of the question. Empty if no run wrote the card."""
    steps: Steps
    """Whether the units are set at every step of the prefix or at the cue only."""
    directions: tuple[str, str]
    """The two labels; the rows of the arrays are in this order."""
    units: tuple[Unit, ...]
    """The units, in the order of the arrays' columns."""
    found_with: Values = "unbounded"
    """What the search was allowed to set units to. With `interchange` it set them, pair by pair, to what they are in
    the counterfactual prefix; the values here are the means of those states."""
    scores: dict[str, Any] = {}
    """Scores on held-out pairs, for the reader."""
    bases: dict[str, BasisCard] = {}
    """The bases of sites such as `resid.12@pca`. Their arrays are in bases.safetensors in the same folder."""
    fingerprint: str = ""
    """Identifies the units and their values, so that the arrays of another card are noticed. Empty in older cards."""


_ON_CARD = tuple(name for name in Card.__struct_fields__ if name not in ("bases", "fingerprint"))
"""The fields that a card and an intervention share."""


@dataclass(frozen=True)
class Intervention:
    """Units, and the values that flip the model's preference when the units are set to them.

    `values[d]` are the values for flipping to direction d, one per coordinate. A unit has one coordinate, unless it is
    an attention head. Where `active[d, i]` is False, unit i is not set in direction d. Only a search with one mask per
    direction finds such units.
    """

    units: tuple[Unit, ...]
    directions: tuple[str, str]
    values: np.ndarray
    steps: Steps
    model: str
    model_fingerprint: str
    phenomenon: str
    data_fingerprint: str
    active: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    found_with: Values = "unbounded"
    """What the search was allowed to set units to. With `interchange`, `values` are means over the pairs."""
    question_fingerprint: str = ""
    """Identifies all pairs of the question; `data_fingerprint` is of the training pairs. Empty if it is not known."""
    scores: dict[str, Any] = field(default_factory=dict)
    """Scores on held-out pairs, for the reader; nothing here uses them."""
    bases: Mapping[str, StoredBasis] = field(default_factory=dict)
    """The bases of sites such as `resid.12@pca`, so that the intervention can be applied elsewhere."""

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        shape = (len(self.directions), len(self.units))
        active = np.array(self.active, dtype=bool) if np.size(self.active) else np.ones(shape, dtype=bool)
        if not self.units:
            raise PivotalError("An intervention has at least one unit, but its mask is empty. Allow more.")
        if self.steps not in get_args(Steps):
            raise PivotalError(f"Steps are single or every, not {self.steps!r}.")
        if twice := [unit for unit, n in Counter(map(str, self.units)).items() if n > 1]:
            raise PivotalError(f"An intervention has each unit once, but {twice[0]} occurs more often.")
        if len(set(self.directions)) < len(self.directions):
            raise PivotalError(f"The two directions must differ, but both are {self.directions[0]!r}.")
        coordinates = sum(unit.size for unit in self.units)
        if values.shape != (len(self.directions), coordinates) or active.shape != shape:
            raise PivotalError(
                f"An intervention needs a value per direction and unit, ({len(self.directions)}, {coordinates}), "
                f"but the values have the shape {values.shape} and the mask {active.shape}."
            )
        if not np.isfinite(values).all():
            raise PivotalError("The values of an intervention must be finite, but some are NaN or infinite.")
        values.setflags(write=False)
        active.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "active", active)

    def __len__(self) -> int:
        return len(self.units)

    @property
    def sites(self) -> str:
        """The sites of its units, separated by commas."""
        return ",".join(dict.fromkeys(unit.site for unit in self.units))

    def __repr__(self) -> str:
        listed = ", ".join(map(str, self.units[:_LISTED])) + (", …" if len(self) > _LISTED else "")
        step = "every step" if self.steps == "every" else "a single step"
        units = counted(len(self), "unit")
        return f"Intervention({self.phenomenon} in {self.model}, {step}, {units}: {listed})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import intervention_html

        return intervention_html(self)

    def plot(self) -> Any:
        """The values of its units, as an altair chart."""
        from pivotal.report.notebook import plot_interventions

        return plot_interventions([self])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Intervention)
            and self.card() == other.card()
            and np.array_equal(self.values, other.values)
            and np.array_equal(self.active, other.active)
        )

    __hash__ = None  # type: ignore[assignment]

    def direction(self, label: str) -> int:
        """The index of a direction by its label. Raises PivotalError if there is no such direction."""
        if label not in self.directions:
            raise PivotalError(
                f"This intervention flips to {' or '.join(self.directions)}, not to {label!r}."
                + did_you_mean(label, list(self.directions))
            )
        return self.directions.index(label)

    @property
    def shown(self) -> np.ndarray:
        """One number per direction and unit, for tables: the value, or the root mean square of several coordinates."""
        ends = np.cumsum([unit.size for unit in self.units])[:-1]
        parts = np.split(self.values, ends, axis=1)
        return np.stack(
            [p[:, 0] if p.shape[1] == 1 else np.sqrt(np.square(p).mean(1)) for p in parts], axis=1
        )

    @property
    def shown_values(self) -> dict[str, tuple[float | None, ...]]:
        """`shown` by direction, with None for a unit that is left alone."""
        return {
            label: tuple(float(v) if on else None for v, on in zip(values, active, strict=True))
            for label, values, active in zip(self.directions, self.shown, self.active, strict=True)
        }

    def without(self, unit: int) -> Intervention:
        """The intervention without its i-th unit."""
        keep = [i for i in range(len(self.units)) if i != unit]
        owner = np.repeat(np.arange(len(self.units)), [u.size for u in self.units])
        units = tuple(self.units[i] for i in keep)
        values, active = self.values[:, owner != unit], self.active[:, keep]
        return replace(self, units=units, values=values, active=active, scores={})

    def fingerprint(self) -> str:
        """16 hex digits that depend on the units, their bases and their values. Names and scores are not in it."""
        units = [(unit.site, unit.index, unit.size) for unit in self.units]
        bases = {name: basis.card.fingerprint for name, basis in sorted(self.bases.items())}
        digest = hashlib.sha256(json.dumps([units, bases, self.directions, self.steps]).encode())
        for array in (self.values, self.active):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def check_model(self, name: str, fingerprint: str, *, any_model: bool = False) -> None:
        """Raise PivotalError if the intervention was found in another model, unless `any_model` is set."""
        if any_model or fingerprint == self.model_fingerprint:
            return
        weights, _, priming = self.model_fingerprint.partition("+")
        if fingerprint.partition("+")[0] == weights:
            how = "another priming text" if priming else "the model's default priming"
            raise PivotalError(
                f"The intervention was found with {how} ({self.model_fingerprint}), but this model has "
                f"another ({fingerprint}). Load {self.model} with the same --priming, or allow any with --any-model."
            )
        raise PivotalError(
            f"An intervention belongs to the model that it was found in, {self.model} ({self.model_fingerprint}), but "
            f"this model is {name} ({fingerprint}). Load that model, or allow any with any_model=True (--any-model)."
        )

    def check_pairs(self, fingerprint: str, cure: str) -> None:
        """Raise PivotalError if the question's pairs are not those of the run that found the intervention. A card that
        does not identify them is not refused."""
        if self.question_fingerprint not in ("", fingerprint):
            raise PivotalError(
                f"An intervention without its run folder needs the pairs that it was found on "
                f"({self.question_fingerprint}), but '{self.phenomenon}' has others ({fingerprint}). {cure}"
            )

    # -- on disk ------------------------------------------------------------------------------------------------

    def card(self) -> Card:
        """The content of card.json: everything except the arrays."""
        bases = {name: basis.card for name, basis in self.bases.items()}
        same = {name: getattr(self, name) for name in _ON_CARD}
        return Card(**same, bases=bases, fingerprint=self.fingerprint())

    @staticmethod
    def of(
        card: Card, values: np.ndarray, active: np.ndarray, bases: Mapping[str, StoredBasis] | None = None
    ) -> Intervention:
        """The intervention that a card and its arrays describe."""
        same = {name: getattr(card, name) for name in _ON_CARD}
        return Intervention(values=values, active=active, bases=bases or {}, **same)

    def save(self, folder: str | Path) -> Path:
        """Write card.json, values.safetensors and, for units in other bases, bases.safetensors; the card last, so that
        a folder with a card is complete."""
        folder = Path(folder)
        with disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_arrays(folder / VALUES, {"values": self.values, "active": self.active.astype(np.uint8)})
        if self.bases:
            write_bases(folder / BASES, self.bases)
        serial.write(folder / CARD, self.card())
        return folder

    @staticmethod
    def load(folder: str | Path) -> Intervention:
        """Read an intervention from the folder that `save` wrote."""
        folder = Path(folder)
        card = serial.read(
            folder / CARD,
            Card,
            missing=f"An intervention is a folder with {CARD} and {VALUES}, but there is no {folder / CARD}. "
            "Give the folder that was saved, e.g. RUN/interventions/0.",
        )
        path = folder / VALUES
        wanted = {"values": [2, sum(unit.size for unit in card.units)], "active": [2, len(card.units)]}
        with open_arrays(path) as file:
            # The shapes are compared with the card before anything is read: the file may be larger than the memory.
            names = list(file.keys())
            shapes = {name: file.get_slice(name).get_shape() for name in names}
            if shapes != wanted:
                raise PivotalError(
                    f"The card says that {path} holds arrays of the shapes {wanted}, but they are {str(shapes)[:200]}."
                )
            values, active = file.get_tensor("values"), file.get_tensor("active").astype(bool)
        if not active.any():
            raise PivotalError(f"{path} must set at least one unit, but its mask is empty. Copy it again.")
        bases = read_bases(folder / BASES, card.bases) if card.bases else {}
        found = Intervention.of(card, values, active, bases)
        if card.fingerprint not in ("", found.fingerprint()):
            raise PivotalError(
                f"{path} does not belong to the card beside it. Copy the folder again, or repeat what writes it."
            )
        return found

    # -- in other libraries and on the Hugging Face hub ---------------------------------------------------------

    def export(
        self,
        model: LanguageModel,
        to: str,
        folder: str | Path,
        *,
        direction: str | None = None,
        overwrite: bool = False,
    ) -> ExportRecord:
        """Write it to a folder in the format of another library (`pivotal list exports`), with a README that says how
        to use it. `model` is the model that it was found in. `direction` writes one direction instead of both."""
        from pivotal.exports import Portable, export, of_model

        portable = Portable.of(of_model(model, self), self, direction=direction)
        return export(portable, to, folder, overwrite=overwrite)

    def push_to_hub(
        self,
        repository: str,
        model: LanguageModel,
        *,
        base_model: str | None = None,
        license: str | None = None,
        private: bool = False,
    ) -> str:
        """Share it as ORG/NAME on the Hugging Face hub, and return the address of the commit. `model` is the model that
        it was found in, for the adapters. `base_model` is the name of the model on the hub, by default that of `model`
        if it came from there, and `license` by default the licence that the hub states for it."""
        from pivotal.exports import of_model
        from pivotal.exports.hub import Shared, hub_name, share

        model = of_model(model, self)
        shared = Shared(self, model, repository, base_model or hub_name(model.name), license)
        return share(shared, private=private)[0]

    @staticmethod
    def from_pretrained(repository: str | Path, revision: str | None = None) -> Intervention:
        """The intervention that was shared as ORG/NAME on the Hugging Face hub, of one commit, or is in a folder. Its
        files are data and are checked; nothing else is downloaded."""
        from pivotal.exports.hub import pull

        return pull(str(repository), revision).intervention


def given_intervention(given: Any) -> Intervention:
    """An intervention that somebody gave. Raises PivotalError if it is not one, such as its folder."""
    if not isinstance(given, Intervention):
        raise PivotalError(f"Give an Intervention, such as finding.intervention, not {str(given)[:60]!r}.")
    return given
