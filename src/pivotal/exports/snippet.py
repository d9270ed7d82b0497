"""A Python file with hooks of torch, for any code that runs a model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pivotal.exports.base import ExportNotes, Portable, Target
from pivotal.exports.setting import code_with
from pivotal.exports.texts import about_positions, literal, python_block
from pivotal.files import write_text

FILE = "intervene.py"

_CODE = '''"""Set a few units of a language model while it runs. README.md says which, and how to use this file."""

from contextlib import contextmanager
{imports}

# Whether the units are set at every position or at one position only, and the number of tokens at the start
# of a text that are left alone.
{steps}
# For each direction: the module, the side of it, the coordinates, their values, and their basis, if any.
{edits}
{set_units}

@contextmanager
def intervene(model, direction, position=None):
    """Set the units within the block: `with intervene(model, "..."): model(...)`, or `model.generate(...)`."""
    if EVERY_STEP != (position is None):
        raise ValueError("position is needed" if position is None else "the units are set at every position")
    now = {{"seen": 0, "rows": 1}}

    def look(module, args, kwargs):
        past, inputs = kwargs.get("past_key_values"), kwargs.get("input_ids", args[0] if args else None)
        now["seen"] = 0 if past is None else past.get_seq_length()  # tokens that are in the cache
        now["rows"] = len(kwargs["inputs_embeds"] if inputs is None else inputs)

    def put(h, *setting):
        edited = h.clone().reshape(now["rows"], -1, h.shape[-1])
        start = (FIRST if position is None else position) - now["seen"]
        stop = edited.shape[1] if position is None else max(start + 1, 0)
        here = slice(max(start, 0), stop)
        edited[:, here] = set_units(edited[:, here], *setting)
        return edited.reshape(h.shape)

    def before(*setting):
        return lambda module, args: (put(args[0], *setting), *args[1:])

    def after(*setting):
        def hook(module, args, out):
            return (put(out[0], *setting), *out[1:]) if isinstance(out, tuple) else put(out, *setting)

        return hook

    handles = [model.register_forward_pre_hook(look, with_kwargs=True)]
    for path, side, *setting in EDITS[direction]:
        module = model.get_submodule(path)
        if side == "input":
            handles.append(module.register_forward_pre_hook(before(*setting)))
        else:
            handles.append(module.register_forward_hook(after(*setting)))
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()
'''


class SnippetTarget(Target):
    """Writes code that needs torch only. It works for every site and for both kinds of steps."""

    name: ClassVar[str] = "snippet"
    summary: ClassVar[str] = "a Python file that sets the units with hooks of torch; needs transformers only"

    def write(self, portable: Portable, folder: Path) -> ExportNotes:
        write_text(folder / FILE, code_with(_CODE, portable, folder))
        at = "" if portable.intervention.steps == "every" else ", position=1"
        base = literal(portable.base)
        use = python_block(
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f"from {FILE.removesuffix('.py')} import intervene",
            "",
            f"model = AutoModelForCausalLM.from_pretrained({base}, dtype='float32').eval()",
            f"tokenizer = AutoTokenizer.from_pretrained({base})",
            "inputs = tokenizer('Your text', return_tensors='pt')",
            f"with intervene(model, {literal(portable.directions[0])}{at}):",
            "    print(tokenizer.decode(model.generate(**inputs, max_new_tokens=20)[0]))",
        )
        return ExportNotes(f"Run this in the folder.\n\n{use}\n\n{about_positions(portable)}")
