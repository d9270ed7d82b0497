"""A Python file for the package nnsight."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pivotal.exports.base import ExportNotes, Portable, Target
from pivotal.exports.setting import code_with
from pivotal.exports.texts import about_positions, literal, python_block
from pivotal.files import write_text

FILE = "nnsight_intervention.py"

_CODE = '''"""Set a few units of a language model with nnsight. README.md says which, and how to use this file."""

{imports}
# Whether the units are set at every position or at one position only, and the number of tokens at the start
# of a text that are left alone.
{steps}
# For each direction: the module, the side of it, the coordinates, their values, and their basis, if any.
{edits}
{set_units}

def edit(model, direction, position=None):
    """Set the units. Call this inside a trace: `with model.trace(...): edit(model, "...")`."""
    if EVERY_STEP != (position is None):
        raise ValueError("position is needed" if position is None else "the units are set at every position")
    at = slice(FIRST, None) if position is None else slice(position, position + 1)
    for path, side, *setting in EDITS[direction]:
        module = model
        for name in path.split("."):
            module = module[int(name)] if name.isdigit() else getattr(module, name)
        out = module.input if side == "input" else module.output
        h = out[0] if isinstance(out, tuple) else out
        h = h.clone()
        h[:, at] = set_units(h[:, at], *setting)
        if side == "input":
            module.input = h
        else:
            module.output = (h, *out[1:]) if isinstance(out, tuple) else h
'''


class NnsightTarget(Target):
    """Writes code for nnsight 0.8. nnsight reaches any module by its path, so every site can be exported."""

    name: ClassVar[str] = "nnsight"
    summary: ClassVar[str] = "a Python file that sets the units inside a trace of nnsight"

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        write_text(folder / FILE, code_with(_CODE, portable, folder))
        at = "" if portable.intervention.steps == "every" else ", position=1"
        base, label = literal(portable.base), literal(portable.directions[0])
        use = python_block(
            "from nnsight import TransformersModel",
            "",
            f"from {FILE.removesuffix('.py')} import edit",
            "",
            f"model = TransformersModel({base}, task='text-generation', dtype='float32')",
            "with model.trace('Your text'):",
            f"    edit(model, {label}{at})",
            "    logits = model.output.logits.save()",
            "print(logits[0, -1])",
        )
        return ExportNotes(
            f"Run this in the folder. It was tested with nnsight 0.8.1.\n\n{use}\n\n{about_positions(portable)}"
        )
