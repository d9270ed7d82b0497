"""The cross table: what the intervention of each phenomenon does to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

from pivotal.records.study import CrossScore
from pivotal.report.atlas.entries import OTHER, Entry
from pivotal.report.html import paragraph

QUIET = 0.05
"""Changes in accuracy that are smaller are not shown, so that the table of a large atlas can be read."""
_SHADES = 7


def cross_table(entries: Sequence[Entry], families: Mapping[str, str]) -> str:
    """A heat map as a table: a row for each intervention, a column for each phenomenon that was asked.

    Rows and columns are sorted by `families`, the families of the phenomena in the order in which they are shown.
    """
    scored = [(entry, {score.phenomenon: score for score in entry.cross}) for entry in entries]
    scored = [(entry, scores) for entry, scores in scored if scores]
    if not scored:
        return paragraph("No intervention was tested on the other phenomena.")
    names = dict.fromkeys((*families, *(name for _, scores in scored for name in scores)))
    asked = [name for name in names if any(name in scores for _, scores in scored)]
    shown = [name for name in asked if any(_is_shown(scores.get(name)) for _, scores in scored)]
    place = {name: i for i, name in enumerate(names)}
    scored.sort(key=lambda pair: place.get(pair[0].phenomenon, len(place)))
    several = len({(entry.steps, entry.variant) for entry, _ in scored}) > 1
    blocks = [
        (family, list(group)) for family, group in groupby(shown, key=lambda name: families.get(name, OTHER))
    ]
    first = {group[0] for _, group in blocks[1:]}
    bodies = []
    for _, group in groupby(scored, key=lambda pair: families.get(pair[0].phenomenon, OTHER)):
        rows = [_row(entry, scores, shown, first, several) for entry, scores in group]
        bodies.append(f"<tbody>{''.join(rows)}</tbody>")
    return (
        '<p class=reading role=status></p><div class="scroll tall" tabindex=0 role=group aria-label="Cross table">'
        f"<table class=heat>{_head(blocks, first)}{''.join(bodies)}</table></div>"
        + _note([name for name in asked if name not in shown])
    )


def _head(blocks: Sequence[tuple[str, Sequence[str]]], first: set[str]) -> str:
    families = "".join(
        f"<th scope=colgroup colspan={len(group)}{' class=b' if i else ''}>{escape(family)}</th>"
        for i, (family, group) in enumerate(blocks)
    )
    names = "".join(
        f"<th scope=col{' class=b' if name in first else ''}><span>{escape(name)}</span></th>"
        for _, group in blocks
        for name in group
    )
    above = f"<tr class=families><td></td>{families}</tr>" if len(blocks) > 1 else ""
    return f"<thead>{above}<tr><th scope=col>intervention</th>{names}</tr></thead>"


def _row(
    entry: Entry, scores: Mapping[str, CrossScore], shown: Sequence[str], first: set[str], several: bool
) -> str:
    beside = ", ".join(filter(None, (entry.steps, entry.variant))) if several else ""
    name = f"{entry.phenomenon}{f' ({beside})' if beside else ''}"
    cells = "".join(
        _cell(scores.get(column), column == entry.phenomenon, column in first) for column in shown
    )
    return f"<tr><th scope=row>{escape(name)}</th>{cells}</tr>"


def _is_shown(score: CrossScore | None) -> bool:
    return score is not None and (score.flipped is not None or score.moved >= QUIET)


def _cell(score: CrossScore | None, own: bool, begins: bool) -> str:
    """A cell. `begins` draws the line on the left of a family. The end tag may be left out in HTML."""
    line = "b" if begins else ""
    if score is None or not _is_shown(score):
        return f"<td{f' class={line}' * bool(line)}>{'·' * own}"
    if score.flipped is not None:
        look, text = f"f{round(_SHADES * score.flipped)}", f"F{100 * score.flipped:.0f}"
    else:
        look, text = f"o{round(_SHADES * min(1.0, score.moved / 0.5))}", f"{100 * score.moved:.0f}"
    return f'<td class="{look} {line}">{text}' if line else f"<td class={look}>{text}"


def _note(left_out: Sequence[str]) -> str:
    quiet = f" No intervention changes {', '.join(left_out)} by as much." if left_out else ""
    return paragraph(
        "A row is an intervention, and a column is a phenomenon that it was tested on. The number is the largest "
        "change in accuracy over the two directions, in points; changes below "
        f"{100 * QUIET:.0f} points are not shown. F marks phenomena with the same labels, where flips are expected: "
        "the number is the share of preferences that flip, in percent. Phenomena with the same labels stand "
        f"together.{quiet}"
    )
