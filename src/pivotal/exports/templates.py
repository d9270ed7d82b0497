"""Renders code and Markdown from the templates in `assets/exports`.

Names and labels come from files that somebody else may have written. In code they stand as Python literals only, so
that they stay data.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pivotal.files import asset
from pivotal.records.intervention import Intervention


def render(template: str, **values: Any) -> str:
    """The text of a template, without a line end."""
    return _environment().get_template(f"{template}.jinja").render(values).rstrip()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(asset("exports")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inline": inline, "literal": literal}
    return environment


def inline(text: object, most: int = 200) -> str:
    """Text of somebody else within a line of Markdown."""
    return re.sub(r"[`|<>\[\]*\\]|\s+|[\x00-\x1f\x7f-\x9f]", " ", str(text)).strip()[:most]


def code(text: str) -> str:
    """Text of somebody else as code within a line of Markdown, such as `<s>`."""
    shown = re.sub(r"[`\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()[:200]
    return f"`{shown}`"


def literal(text: str) -> str:
    """Text as a Python literal that also stays inside a block of Markdown."""
    return repr(text).replace("`", "\\x60")


def about(intervention: Intervention, pairs: int | None = None, verdict: str = "") -> dict[str, Any]:
    """What every text says about an intervention. `pairs` is the number of held-out pairs behind its scores."""
    scores = intervention.scores
    flips, interval, kl = (scores.get(name) for name in ("flip_accuracy", "interval", "kl"))
    text = ""
    if isinstance(flips, int | float):
        text = f"On {pairs:,} held-out pairs" if pairs else "On held-out pairs"
        text += f" the intervention flips {flips:.1%} of the preferences"
        match interval:
            case [int() | float() as low, int() | float() as high]:
                text += f" (95% interval {low:.1%} to {high:.1%})"
        text += f", with a KL of {kl:.3g}." if isinstance(kl, int | float) else "."
    units = "one unit" if len(intervention) == 1 else f"{len(intervention)} units"
    measured = "\n\n".join(filter(None, (text, inline(verdict, 2000))))
    return {"i": intervention, "units": units, "scores": measured}
