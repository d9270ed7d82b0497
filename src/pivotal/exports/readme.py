"""README.md of an exported folder."""

from __future__ import annotations

from pivotal.exports.base import ExportNotes, Portable, Target
from pivotal.exports.texts import inline, read_before

_LISTED = 40
"""The most units in the table."""


def readme(portable: Portable, target: Target, notes: ExportNotes) -> str:
    """What the export does, how to use it, and how exact it is."""
    i = portable.intervention
    units = "one unit" if len(i) == 1 else f"{len(i)} units"
    when = "at every position" if i.steps == "every" else "at one position"
    parts = [
        f"# {inline(i.phenomenon)} in {inline(i.model)}: an intervention for {target.name}",
        f"The intervention sets {units} of {inline(i.model)} to fixed values {when}, to flip the preference of the "
        f"model between the labels {inline(i.directions[0])} and {inline(i.directions[1])} of {inline(i.phenomenon)}. "
        f"The direction is the label to flip to. `pivotal export --to {target.name}` wrote this folder.",
        "## Use",
        notes.use,
        "## How exact it is",
        *(notes.approximate or ("Exact: the logits are those of pivotal, up to rounding.",)),
        "## The model",
        f"The values belong to one model: {inline(i.model)}, fingerprint `{inline(i.model_fingerprint)}`. "
        f"They mean nothing in another one. {_reads(portable)} pivotal computed in "
        f"{str(portable.model.network.dtype)[6:]}; other number formats give slightly different logits.",
        "## The units",
        _table(portable),
    ]
    if scores := _scores(portable):
        parts += ["## Measured by pivotal", scores]
    return "\n\n".join(parts) + "\n"


def _reads(portable: Portable) -> str:
    if not portable.first:
        return "It reads nothing before a sentence, not even BOS."
    return f"It reads {read_before(portable)} before every sentence. Units are not set there."


def _table(portable: Portable) -> str:
    i = portable.intervention
    rows = [f"| unit | {' | '.join(f'→ {inline(label)}' for label in i.directions)} |"]
    rows.append("|---|" + "---:|" * len(i.directions))
    shown = i.shown_values
    for n, unit in enumerate(i.units[:_LISTED]):
        values = [shown[label][n] for label in i.directions]
        cells = " | ".join("not set" if value is None else f"{value:.4g}" for value in values)
        rows.append(f"| {inline(str(unit))} | {cells} |")
    text = "\n".join(rows)
    if len(i) > _LISTED:
        text += f"\n\nand {len(i) - _LISTED} more units."
    if any(unit.size > 1 for unit in i.units):
        text += "\n\nOf an attention head, the table has the root mean square of its coordinates."
    return text


def _scores(portable: Portable) -> str:
    """The scores on held-out pairs that the run stored on the card."""
    scores = portable.intervention.scores
    flips, kl = scores.get("flip_accuracy"), scores.get("kl")
    said = []
    if isinstance(flips, int | float):
        said.append(f"On held-out pairs the intervention flips {flips:.1%} of the preferences.")
    if isinstance(kl, int | float):
        said.append(f"Its KL divergence from the untouched model is {kl:.3g} nats per position.")
    return " ".join(said)
