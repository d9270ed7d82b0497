"""The frozen result: which units, which values in which direction, found in which model on which data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import write_atomically
from pivotal.units import Steps, Unit

FORMAT = "pivotal-intervention-1"

_LISTED = 8
"""Units that its line of text names."""


@dataclass(frozen=True)
class Intervention:
    """Set these units to these values and the model's preference turns to the direction named.

    `values[d]` is what the units are set to when flipping to direction d, coordinate by coordinate, which is unit by
    unit unless some are attention heads; where `active[d, i]` is False unit i is left alone in that direction (only a
    search with one mask per direction makes such units).
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
    scores: dict[str, Any] = field(default_factory=dict)
    """Whatever was measured of it; carried along for the reader, never used."""

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float32)
        shape = (len(self.directions), len(self.units))
        active = np.array(self.active, dtype=bool) if np.size(self.active) else np.ones(shape, dtype=bool)
        if not self.units or not active.any():
            raise PivotalError(
                "An intervention must have at least one unit, but its mask is empty. Allow more units."
            )
        coordinates = sum(unit.size for unit in self.units)
        if values.shape != (len(self.directions), coordinates) or active.shape != shape:
            raise PivotalError(
                f"An intervention needs a value per direction and unit, ({len(self.directions)}, {coordinates}), "
                f"but the values have the shape {values.shape} and the mask {active.shape}."
            )
        if not np.isfinite(values).all():
            raise PivotalError(
                "An intervention's values must be finite numbers, but some are NaN or infinite."
            )
        if self.steps not in ("single", "every"):
            raise PivotalError(f"Steps are 'single' or 'every', not {self.steps!r}.")
        values.setflags(write=False)
        active.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "active", active)

    def __len__(self) -> int:
        return len(self.units)

    def __repr__(self) -> str:
        listed = ", ".join(map(str, self.units[:_LISTED])) + (", …" if len(self) > _LISTED else "")
        units = "1 unit" if len(self) == 1 else f"{len(self):,} units"
        step = "every step" if self.steps == "every" else "a single step"
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
        if label not in self.directions:
            raise PivotalError(
                f"This intervention flips to {' or '.join(self.directions)}, not to {label!r}."
                + did_you_mean(label, list(self.directions))
            )
        return self.directions.index(label)

    @property
    def shown(self) -> np.ndarray:
        """One number per direction and unit, for tables: the value, or of a unit with several coordinates the root mean
        square of its values."""
        ends = np.cumsum([unit.size for unit in self.units])[:-1]
        parts = np.split(self.values, ends, axis=1)
        return np.stack(
            [p[:, 0] if p.shape[1] == 1 else np.sqrt(np.square(p).mean(1)) for p in parts], axis=1
        )

    def without(self, unit: int) -> Intervention:
        """The intervention less its i-th unit."""
        keep = [i for i in range(len(self.units)) if i != unit]
        owner = np.repeat(np.arange(len(self.units)), [u.size for u in self.units])
        return Intervention(
            units=tuple(self.units[i] for i in keep),
            directions=self.directions,
            values=self.values[:, owner != unit],
            active=self.active[:, keep],
            steps=self.steps,
            model=self.model,
            model_fingerprint=self.model_fingerprint,
            phenomenon=self.phenomenon,
            data_fingerprint=self.data_fingerprint,
        )

    def check_model(self, name: str, fingerprint: str, *, any_model: bool = False) -> None:
        if any_model or fingerprint == self.model_fingerprint:
            return
        weights, _, priming = self.model_fingerprint.partition("+")
        if fingerprint.partition("+")[0] == weights:
            how = "another text" if priming else "the model's own beginning"
            raise PivotalError(
                f"An intervention belongs to what its model read first, which was {how} where it was found "
                f"({self.model_fingerprint}), and is something else here ({fingerprint}). Load {self.model} with the "
                "same priming (--priming), or insist with any_model=True (--any-model)."
            )
        raise PivotalError(
            f"An intervention belongs to the model that it was found in, {self.model} "
            f"({self.model_fingerprint}), but this model is {name} ({fingerprint}). "
            "Load that model, or insist with any_model=True (--any-model)."
        )

    # -- on disk ------------------------------------------------------------------------------------------------

    def card(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model,
            "model_fingerprint": self.model_fingerprint,
            "phenomenon": self.phenomenon,
            "data_fingerprint": self.data_fingerprint,
            "steps": self.steps,
            "directions": list(self.directions),
            "units": [_unit_row(unit) for unit in self.units],
            "scores": self.scores,
        }

    def save(self, folder: str | Path) -> Path:
        """Writes card.json and values.safetensors; the card last, so that a folder with a card is whole."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {"values": np.array(self.values), "active": self.active.astype(np.uint8)}
        write_atomically(folder / "values.safetensors", lambda path: save_file(tensors, path))
        text = json.dumps(self.card(), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / "card.json", lambda path: Path(path).write_text(text, encoding="utf-8"))
        return folder

    @staticmethod
    def load(folder: str | Path) -> Intervention:
        folder = Path(folder)
        card = _read_card(folder / "card.json")
        path = folder / "values.safetensors"
        try:
            tensors = load_file(path)
        except FileNotFoundError:
            raise PivotalError(
                f"An intervention folder holds card.json and values.safetensors, but {path} is missing."
            ) from None
        except (SafetensorError, OSError, ValueError) as error:
            raise PivotalError(
                f"{path} must be a whole safetensors file, but it cannot be read ({error}). "
                "It may have been cut off when it was copied: copy it again."
            ) from None
        if set(tensors) != {"values", "active"}:
            raise PivotalError(
                f"{path} must hold the tensors 'values' and 'active', but it holds "
                f"{', '.join(sorted(tensors)) or 'none'}. It belongs to something else than this card."
            )
        try:
            return Intervention(
                units=tuple(
                    Unit(u["site"], int(u["index"]), int(u["number"]), int(u.get("size", 1)))
                    for u in card["units"]
                ),
                directions=(card["directions"][0], card["directions"][1]),
                values=tensors["values"],
                active=tensors["active"].astype(bool),
                steps=card["steps"],
                model=card["model"],
                model_fingerprint=card["model_fingerprint"],
                phenomenon=card["phenomenon"],
                data_fingerprint=card["data_fingerprint"],
                scores=card.get("scores", {}),
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PivotalError(
                f"{folder / 'card.json'} is not a complete intervention card: {error!r} is missing or malformed."
            ) from None


def _unit_row(unit: Unit) -> dict[str, Any]:
    row: dict[str, Any] = {"site": unit.site, "index": unit.index, "number": unit.number}
    return row if unit.size == 1 else {**row, "size": unit.size}


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise PivotalError(
            f"An intervention is a folder with card.json and values.safetensors, but there is no {path}. "
            "Give the folder that was saved, e.g. RUN/interventions/0."
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PivotalError(f"{path} must be JSON, but it cannot be read: {error}.") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        found = card.get("format") if isinstance(card, dict) else type(card).__name__
        raise PivotalError(f"{path} must be a card of the format {FORMAT!r}, but it is {found!r}.")
    return card
