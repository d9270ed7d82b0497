"""Python files that set the units, for transformers itself and for libraries that run its models.

Each target renders `assets/exports/<target>.py.jinja`, and `<target>.md.jinja` for the README.
"""

from __future__ import annotations

import pprint
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.templates import render
from pivotal.exports.weights import write_weights
from pivotal.files import write_text

ARRAYS = "bases.safetensors"


class CodeTarget(Target):
    """Writes a Python file that has the values in it. Arrays of bases are beside it."""

    file: ClassVar[str]
    place: ClassVar[str] = "the module, the side of it"

    def where(self, edit: SiteEdit) -> tuple[str, ...]:
        """How the library names the place of an edit."""
        return edit.path, edit.tap.side

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        every = portable.intervention.steps == "every"
        edits = {
            label: [
                (*self.where(edit), edit.held, _numbers(edit.values), edit.site if edit.basis else None)
                for edit in portable.edits(label)
            ]
            for label in portable.directions
        }
        bases = {name: (basis.activation, basis.top_k) for name, basis in portable.bases.items()}
        code = render(
            f"{self.name}.py",
            every=every,
            first=portable.first,
            place=self.place,
            edits=pprint.pformat(edits, width=110, compact=True, sort_dicts=False),
            bases=pprint.pformat(bases, width=110) if bases else "",
        )
        write_text(folder / self.file, code + "\n")
        if bases:
            _write_arrays(portable, folder)
        use = render(
            f"{self.name}.md",
            base=portable.base,
            text=portable.text,
            label=portable.directions[0],
            position="" if every else ", position=1",
            every=every,
            first=portable.first,
        )
        return ExportNotes(use)


class SnippetTarget(CodeTarget):
    """Writes code that needs torch only. It works for every site and for both kinds of steps."""

    name: ClassVar[str] = "snippet"
    summary: ClassVar[str] = "a Python file that sets the units with PyTorch hooks; needs transformers only"
    file: ClassVar[str] = "intervene.py"


class PyveneTarget(CodeTarget):
    """Writes code for pyvene 0.1.8. pyvene reaches any module by its path, so every site can be exported."""

    name: ClassVar[str] = "pyvene"
    summary: ClassVar[str] = "a Python file with interventions for pyvene"
    file: ClassVar[str] = "pyvene_intervention.py"


class NnsightTarget(CodeTarget):
    """Writes code for nnsight 0.8. nnsight reaches any module by its path, so every site can be exported."""

    name: ClassVar[str] = "nnsight"
    summary: ClassVar[str] = "a Python file that sets the units inside a trace of nnsight"
    file: ClassVar[str] = "nnsight_intervention.py"


class TransformerLensTarget(CodeTarget):
    """Writes code for the TransformerBridge of transformer-lens 3 and 4, which keeps the weights as they are.

    A HookedTransformer folds and centres weights by default, so its residual stream has other values.
    """

    name: ClassVar[str] = "transformer-lens"
    summary: ClassVar[str] = "a Python file with hooks for TransformerLens"
    file: ClassVar[str] = "transformer_lens_intervention.py"
    place: ClassVar[str] = "the hook point"
    hooks: ClassVar[dict[str, str]] = {
        "mlp": "mlp.hook_post",
        "attn": "attn.hook_z",
        "head": "attn.hook_z",
        "resid": "hook_resid_post",
    }
    """The hook point of each kind of site, within its block."""

    def where(self, edit: SiteEdit) -> tuple[str, ...]:
        if edit.kind not in self.hooks:
            raise PivotalError(f"transformer-lens has no hook point for {edit.site}. Use snippet or nnsight.")
        return (f"blocks.{edit.layer}.{self.hooks[edit.kind]}",)


def _numbers(values: tuple[float, ...]) -> list[float]:
    """The shortest decimals that give the same float32."""
    return [float(str(np.float32(value))) for value in values]


def _write_arrays(portable: Portable, folder: Path) -> None:
    arrays: dict[str, Tensor] = {}
    for name, basis in portable.bases.items():
        threshold = basis.bias.new_zeros(len(basis.bias)) if basis.threshold is None else basis.threshold
        parts = {
            "encoder": basis.encoder,
            "decoder": basis.decoder,
            "bias": basis.bias,
            "threshold": threshold,
        }
        arrays |= {f"{name}.{part}": tensor.contiguous() for part, tensor in parts.items()}
    write_weights(folder / ARRAYS, arrays)
