"""Text of exported files: code with the values in it, and sentences that several targets share.

Names and labels come from files that somebody else may have written. In code they stand as Python literals only, so
that they stay data.
"""

from __future__ import annotations

import re

from pivotal.exports.base import Portable


def python_block(*lines: str) -> str:
    """Python code as a block of Markdown."""
    return "\n".join(("```python", *lines, "```"))


def inline(text: str) -> str:
    """Text of somebody else within a line of Markdown."""
    return re.sub(r"[`|<>\[\]*\\]|\s+|[\x00-\x1f\x7f-\x9f]", " ", text).strip()[:200]


def code(text: str) -> str:
    """Text of somebody else as code within a line of Markdown, such as `<s>`."""
    shown = re.sub(r"[`\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()[:200]
    return f"`{shown}`"


def literal(text: str) -> str:
    """Text as a Python literal that also stays inside a block of Markdown."""
    return repr(text).replace("`", "\\x60")


def read_before(portable: Portable) -> str:
    """What the model reads before every sentence, as code in Markdown."""
    return code(portable.model.tokenizer.decode(list(portable.model.vocabulary.priming)))


def about_priming(portable: Portable) -> tuple[str, ...]:
    """How a target that changes every position differs if the model reads something before a sentence."""
    if not portable.first:
        return ()
    return (
        f"The model reads {read_before(portable)} before every sentence. pivotal does not edit this text, but this "
        "export changes every position, including those of this text. The code targets (snippet, pyvene, nnsight, "
        "transformer-lens) do not edit it either.",
    )


def about_positions(portable: Portable) -> str:
    """How code that sets units takes positions, for a README."""
    where = (
        "The units are set at every position"
        + (f" from position {portable.first} on" if portable.first else "")
        if portable.intervention.steps == "every"
        else "The units are set at one position: `position` is the index of a token in `input_ids`, where tokens "
        "before the sentence such as BOS count. pivotal takes the last token of the cue word"
    )
    return f"{where}. Give texts of one length in a batch, without padding on the left."
