"""The parts that all exported code shares: what is set where, the function that sets it, and the file with bases."""

from __future__ import annotations

import pprint
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import Tensor

from pivotal.exports.base import Portable, SiteEdit, write_weights

FILE = "bases.safetensors"

_OWN = '''

def set_units(h, ids, values, basis=None):
    """The activation with some coordinates set."""
    h = h.clone()
    h[..., ids] = torch.tensor(values, dtype=h.dtype, device=h.device)
    return h
'''

_IN_BASES = '''
# For each basis: its activation function, and for topk the number of coordinates that may differ from zero.
{bases}
ARRAYS = load_file(Path(__file__).with_name("bases.safetensors"))


def set_units(h, ids, values, basis=None):
    """The activation with some coordinates set: its own, or those of a basis."""
    if basis is None:
        h = h.clone()
        h[..., ids] = torch.tensor(values, dtype=h.dtype, device=h.device)
        return h
    array = {{name: ARRAYS[basis + "." + name].to(h.device) for name in ("encoder", "decoder", "bias", "threshold")}}
    z = h.float() @ array["encoder"] + array["bias"]
    activation, top = BASES[basis]
    if activation == "topk":
        z = z.relu() * (z >= z.topk(min(top, z.shape[-1]), -1).values[..., -1:])
    elif activation == "jumprelu":
        z = z.relu() * (z > array["threshold"])
    elif activation == "relu":
        z = z.relu()
    change = (torch.tensor(values, device=h.device) - z[..., ids]) @ array["decoder"][ids]
    return h + change.to(h.dtype)
'''


Where = Callable[[SiteEdit], tuple[str, ...]]
"""How a target names the place of an edit."""


def code_with(template: str, portable: Portable, folder: Path, where: Where | None = None) -> str:
    """The code of a target: its template with the imports, the settings, the edits and the function `set_units`. For
    units in bases, the arrays are written to the folder. `where` says how the target names places; by default by the
    module and its side."""
    imports = "\nimport torch\n"
    if portable.bases:
        imports = "from pathlib import Path\n\nimport torch\nfrom safetensors.torch import load_file\n"
    every = portable.intervention.steps == "every"
    return template.format(
        imports=imports,
        steps=f"EVERY_STEP = {every}\nFIRST = {portable.first}",
        edits=_edits(portable, where or _module),
        set_units=_set_units(portable, folder) if portable.bases else _OWN,
    )


def _module(edit: SiteEdit) -> tuple[str, ...]:
    return edit.path, edit.tap.side


def _edits(portable: Portable, where: Where) -> str:
    """`EDITS = {…}`: for each direction a list of edits."""
    content = {
        label: [
            (*where(edit), edit.held, _numbers(edit.values), edit.site if edit.basis else None)
            for edit in portable.edits(label)
        ]
        for label in portable.directions
    }
    return f"EDITS = {pprint.pformat(content, width=110, compact=True, sort_dicts=False)}"


def _numbers(values: tuple[float, ...]) -> list[float]:
    """The shortest decimals that give the same float32."""
    return [float(str(np.float32(value))) for value in values]


def _set_units(portable: Portable, folder: Path) -> str:
    """The function `set_units` for units in bases, whose arrays are written to the folder."""
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
    write_weights(folder / FILE, arrays)
    listed = {name: (basis.activation, basis.top_k) for name, basis in portable.bases.items()}
    return _IN_BASES.format(bases=f"BASES = {pprint.pformat(listed, width=110)}")
