"""The cross table: what the intervention of each phenomenon does to the others."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pivotal.records.study_rows import CrossScore
from pivotal.report.atlas.entries import Entry
from pivotal.report.html import paragraph


def cross_table(entries: Sequence[Entry]) -> str:
    """A heat map as a table: a row for each intervention, a column for each phenomenon that was asked."""
    scored = [(entry, {score.phenomenon: score for score in _scores(entry)}) for entry in entries]
    scored = [(entry, scores) for entry, scores in scored if scores]
    if not scored:
        return paragraph("No intervention was tested on the other phenomena.")
    names = dict.fromkeys(entry.phenomenon for entry in entries)
    names |= dict.fromkeys(name for _, scores in scored for name in scores)
    asked = [name for name in names if any(name in scores for _, scores in scored)]
    several = len({(entry.steps, entry.variant) for entry, _ in scored}) > 1
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in asked)
    rows = []
    for entry, scores in scored:
        beside = ", ".join(filter(None, (entry.steps, entry.variant))) if several else ""
        name = f"{entry.phenomenon}{f' ({beside})' if beside else ''}"
        cells = "".join(_cell(scores.get(column), column == entry.phenomenon) for column in asked)
        rows.append(f"<tr><th scope=row>{escape(name)}</th>{cells}</tr>")
    note = paragraph(
        "A row is an intervention, and a column is a phenomenon that it was tested on. The number is the largest "
        "change in accuracy over the two directions, in points. F marks phenomena with the same labels, where flips "
        "are expected: the number is the share of preferences that flip, in percent."
    )
    return (
        '<div class=scroll tabindex=0 role=group aria-label="Cross table"><table class=heat>'
        f"<thead><tr><th scope=col>intervention</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        + note
    )


def _scores(entry: Entry) -> Sequence[CrossScore]:
    return entry.row.judged.cross if entry.row is not None and entry.row.judged is not None else ()


def _cell(score: CrossScore | None, own: bool) -> str:
    if score is None:
        return "<td>·</td>" if own else "<td></td>"
    if score.flipped is not None:
        return f'<td style="background:rgba(59,130,214,{0.7 * score.flipped:.2f})">F{100 * score.flipped:.0f}</td>'
    strength = min(1.0, score.moved / 0.5)
    return f'<td style="background:rgba(224,123,57,{0.7 * strength:.2f})">{100 * score.moved:.0f}</td>'
