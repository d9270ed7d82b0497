"""A Python file for the package transformer-lens: functions for its hook points."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.exports.base import ExportNotes, Portable, SiteEdit, Target
from pivotal.exports.setting import code_with
from pivotal.exports.texts import about_positions, literal, python_block
from pivotal.files import write_text

FILE = "transformer_lens_intervention.py"
_HOOKS = {"mlp": "mlp.hook_post", "attn": "attn.hook_z", "head": "attn.hook_z", "resid": "hook_resid_post"}
"""The hook point of each kind of site, within its block."""

_CODE = '''"""Set a few units of a language model with TransformerLens. README.md says which, and how to use it."""

{imports}
# Whether the units are set at every position or at one position only, and the number of tokens at the start
# of a text that are left alone.
{steps}
# For each direction: the hook point, the coordinates, their values, and their basis, if any.
{edits}
{set_units}

def hooks(direction, position=None):
    """Hooks for model.run_with_hooks(tokens, fwd_hooks=hooks("..."))."""
    if EVERY_STEP != (position is None):
        raise ValueError("position is needed" if position is None else "the units are set at every position")
    at = slice(FIRST, None) if position is None else slice(position, position + 1)

    def put(*setting):
        def hook(h, hook):
            flat = h.clone().reshape(*h.shape[:2], -1)  # hook_z has an axis of heads
            flat[:, at] = set_units(flat[:, at], *setting)
            return flat.reshape(h.shape)

        return hook

    return [(name, put(*setting)) for name, *setting in EDITS[direction]]
'''


class TransformerLensTarget(Target):
    """Writes code for the TransformerBridge of transformer-lens 3 and 4, which keeps the weights as they are.

    A HookedTransformer folds and centres weights by default, so its residual stream has other values.
    """

    name: ClassVar[str] = "transformer-lens"
    summary: ClassVar[str] = "a Python file with hooks for TransformerLens"

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        write_text(folder / FILE, code_with(_CODE, portable, folder, _hook))
        at = "" if portable.intervention.steps == "every" else ", position=1"
        base, label = literal(portable.base), literal(portable.directions[0])
        use = python_block(
            "from transformer_lens.model_bridge import TransformerBridge",
            "",
            f"from {FILE.removesuffix('.py')} import hooks",
            "",
            f"model = TransformerBridge.boot_transformers({base})",
            "tokens = model.tokenizer('Your text', return_tensors='pt').input_ids",
            f"logits = model.run_with_hooks(tokens, fwd_hooks=hooks({label}{at}))",
            "print(logits[0, -1])",
        )
        return ExportNotes(
            "Run this in the folder. It was tested with transformer-lens 4.3.0. Do not call "
            "`enable_compatibility_mode()`: it changes the weights, and so the values of the residual stream.\n\n"
            f"{use}\n\n{about_positions(portable)}"
        )


def _hook(edit: SiteEdit) -> tuple[str]:
    if edit.kind not in _HOOKS:
        raise PivotalError(
            f"transformer-lens has hook points for {', '.join(_HOOKS)}, but none for {edit.site}. Export it to "
            "snippet, pyvene or nnsight."
        )
    return (f"blocks.{edit.layer}.{_HOOKS[edit.kind]}",)
