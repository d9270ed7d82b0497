"""A Python file for the package pyvene: interventions with constant sources."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pivotal.exports.base import ExportNotes, Portable, Target
from pivotal.exports.setting import code_with
from pivotal.exports.texts import about_positions, literal, python_block
from pivotal.files import write_text

FILE = "pyvene_intervention.py"

_CODE = '''"""Set a few units of a language model with pyvene. README.md says which, and how to use this file."""

import re
{imports}
import pyvene
from pyvene.models.interventions import ConstantSourceIntervention

# Whether the units are set at every position or at one position only, and the number of tokens at the start
# of a text that are left alone.
{steps}
# For each direction: the module, the side of it, the coordinates, their values, and their basis, if any.
{edits}
{set_units}

class SetUnits(ConstantSourceIntervention):
    """Sets some coordinates of an activation to fixed values."""

    def __init__(self, *setting, **kwargs):
        super().__init__(keep_last_dim=True, **kwargs)
        self.setting = setting

    def forward(self, base, source=None, subspaces=None, **kwargs):
        return set_units(base, *self.setting)


def intervenable(model, direction):
    """The model with the interventions of a direction."""
    parts = [
        {{"component": re.sub(r"\\.(\\d+)", r"[\\1]", path) + "." + side, "intervention": SetUnits(*setting)}}
        for path, side, *setting in EDITS[direction]
    ]
    return pyvene.IntervenableModel(parts, model)


def locations(direction, input_ids, position=None):
    """The unit_locations of a forward pass over these tokens."""
    if EVERY_STEP != (position is None):
        raise ValueError("position is needed" if position is None else "the units are set at every position")
    if position is not None:
        return {{"base": position}}
    if FIRST == 0:
        return None
    rows, length = input_ids.shape
    return {{"base": [[list(range(FIRST, length))] * rows] * len(EDITS[direction])}}
'''


class PyveneTarget(Target):
    """Writes code for pyvene 0.1.8. pyvene reaches any module by its path, so every site can be exported."""

    name: ClassVar[str] = "pyvene"
    summary: ClassVar[str] = "a Python file with interventions for pyvene"

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        write_text(folder / FILE, code_with(_CODE, portable, folder))
        at = "" if portable.intervention.steps == "every" else ", position=1"
        base, label = literal(portable.base), literal(portable.directions[0])
        use = python_block(
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f"from {FILE.removesuffix('.py')} import intervenable, locations",
            "",
            f"model = AutoModelForCausalLM.from_pretrained({base}, dtype='float32').eval()",
            f"tokenizer = AutoTokenizer.from_pretrained({base})",
            "inputs = tokenizer('Your text', return_tensors='pt')",
            f"edited = intervenable(model, {label})",
            f"where = locations({label}, inputs['input_ids']{at})",
            "before, after = edited(inputs, unit_locations=where, output_original_output=True)",
            "print(before.logits[0, -1], after.logits[0, -1])",
        )
        return ExportNotes(
            f"Run this in the folder. It was tested with pyvene 0.1.8.\n\n{use}\n\n{about_positions(portable)}"
        )
