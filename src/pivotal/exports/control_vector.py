"""A control vector for llama.cpp: what the edit adds to the residual stream on average."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.templates import inline, render
from pivotal.exports.weights import projection
from pivotal.files import library_errors
from pivotal.models.tree import Span
from pivotal.problem.problem import Problem
from pivotal.units import Steps, Unit


class ControlVectorTarget(Target):
    """llama.cpp adds the tensor `direction.N` of a file to the output of block N, counted from 0, at every position. It
    refuses a tensor for block 0. Setting a unit from its activation x to v adds (v - x) w, where w is what the unit
    writes to the residual stream. x varies, so the vector has the mean of x where the untouched model prefers the other
    label.
    """

    name: ClassVar[str] = "control-vector"
    summary: ClassVar[str] = "a GGUF control vector for each direction, for llama.cpp; approximate"
    steps: ClassVar[tuple[Steps, ...]] = ("every",)
    needs_pairs: ClassVar[bool] = True

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        if portable.train is None:
            raise PivotalError("A control vector needs the pairs of the run. Export the run folder.")
        added = vectors(portable)
        files = {label: f"{portable.names[label]}.gguf" for label in portable.directions}
        for label, file in files.items():
            _write_gguf(folder / file, portable.model.network.config.model_type, added[label])
        listed = ", ".join(f"`{file}`" for file in files.values())
        use = render("control-vector.md", chosen=files[portable.directions[0]], files=listed)
        notes = (_ABOUT, *_about_attention(portable), *_measured(portable, added), *portable.priming_notes())
        return ExportNotes(use, notes)


_ABOUT = (
    "The intervention sets units to fixed values, whatever their activations are. A control vector adds the same "
    "vector at every position, the difference between the fixed values and the mean activations."
)


def _about_attention(portable: Portable) -> tuple[str, ...]:
    if not any(
        edit.kind in ("attn", "head") for label in portable.directions for edit in portable.edits(label)
    ):
        return ()
    return (
        "A control vector is added after a block. If the MLP of the block reads what the attention of the block "
        "writes, it does not see the change of attention units.",
    )


Vectors = dict[str, dict[int, Tensor]]
"""By direction, the vector to add to the output of each block."""


def vectors(portable: Portable) -> Vectors:
    """What the edit adds to the residual stream on average, by direction and block."""
    train = portable.train
    assert train is not None
    means = train.measure_activations().own.cpu()
    found: Vectors = {}
    for label in portable.directions:
        mean = means[portable.intervention.direction(label)]
        found[label] = {}
        for edit in portable.edits(label):
            _check(portable, edit)
            at = mean[train.space.coordinates_of(edit.site)][list(edit.ids)]
            moved = torch.tensor(edit.values) - at
            added = _activation(edit, moved)
            if edit.tap.side == "input":
                added = projection("control-vector", edit) @ added
            before = found[label].get(edit.layer)
            found[label][edit.layer] = added if before is None else before + added
    return found


def _activation(edit: SiteEdit, moved: Float[Tensor, " coordinates"]) -> Float[Tensor, " width"]:
    """What a change of the coordinates changes in the activation."""
    if edit.basis is not None:
        return moved @ edit.basis.decoder[edit.held]
    added = torch.zeros(edit.tap.site.coordinates)
    added[list(edit.ids)] = moved
    return added


def _check(portable: Portable, edit: SiteEdit) -> None:
    if edit.layer == 0:
        raise PivotalError(f"llama.cpp cannot change the first block, where {edit.site} is. Use peft.")
    if not any(tap.side == "output" and tap.block == edit.layer for tap in portable.model.taps):
        raise PivotalError(
            f"{portable.model.name} has no residual stream in block {edit.layer}. Use peft or snippet."
        )
    probe = next((tap.site for tap in portable.model.taps if tap.site.kind == "mlp"), None)
    straight = probe is not None and portable.model.writes((Unit(probe.name, 0),)) is not None
    if edit.tap.side == "input" and not straight:
        raise PivotalError(
            f"A control vector needs the direction in which a unit writes, but {portable.model.name} normalises or "
            f"scales what the projection after {edit.site} writes. Export it to peft or snippet."
        )


def _write_gguf(path: Path, architecture: str, added: dict[int, Tensor]) -> None:
    try:
        from gguf import GGUFWriter
    except ImportError:
        raise PivotalError("A control vector needs the package gguf. Install pivotal[hf].") from None
    with library_errors(path):
        writer = GGUFWriter(path, "controlvector")
        writer.add_string("controlvector.model_hint", architecture)
        writer.add_uint32("controlvector.layer_count", len(added))
        for layer, vector in sorted(added.items()):
            writer.add_tensor(f"direction.{layer}", vector.numpy().astype(np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


# -- what it flips ----------------------------------------------------------------------------------------------------


class _Add:
    """An edit that adds a vector to the outputs of blocks."""

    runs = 1

    def __init__(self, portable: Portable, added: Vectors) -> None:
        sites = {tap.block: tap.site.name for tap in portable.model.taps if tap.side == "output"}
        labels = portable.intervention.directions
        self._added = {
            (sites[layer], labels.index(label)): vector.to(portable.model.device)
            for label, by_layer in added.items()
            for layer, vector in by_layer.items()
        }
        self.sites = frozenset(site for site, _ in self._added)

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "nodes _ width"]
    ) -> Float[Tensor, "nodes _ width"]:
        h = h.clone()
        for span in spans:
            if (vector := self._added.get((site, span.direction))) is not None:
                h[span.start : span.stop] += vector.to(h.dtype)
        return h


@torch.no_grad()
def flips(portable: Portable, added: Vectors, problem: Problem) -> tuple[float, float, int]:
    """The share of preferences that the control vector flips, the share that the intervention flips, and the number
    of pairs, of those that are flipped to an exported direction."""
    rows = [portable.intervention.direction(label) for label in portable.directions]
    asked = np.isin(problem.direction, rows)
    states = problem.model.states(problem.tensors.prepared, _Add(portable, added))
    ours = problem.run_intervention(portable.intervention)
    by_vector = (problem.log_ratio_of(states)[0] < 0).cpu().numpy()
    by_units = ours.flipped()[0].cpu().numpy()
    return float(by_vector[asked].mean()), float(by_units[asked].mean()), int(asked.sum())


def _measured(portable: Portable, added: Vectors) -> tuple[str, ...]:
    if portable.test is None:
        return ()
    vector, units, pairs = flips(portable, added, portable.test)
    return (
        f"On {pairs:,} held-out pairs of {inline(portable.intervention.phenomenon)}, the control vector flips "
        f"{vector:.1%} of the preferences, and the intervention {units:.1%}. pivotal measured this by adding the "
        "vector at every position of a sentence"
        + (", but not at the tokens before it." if portable.first else "."),
    )
