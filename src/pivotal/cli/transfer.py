"""The transfer of an intervention to other questions, with any labels: `pivotal evaluate RUN QUESTION`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.models import LanguageModel
    from pivotal.questions.question import Question
    from pivotal.questions.readers import Part
    from pivotal.records.intervention import Intervention
    from pivotal.records.transfer import Transfer, TransferRow


def score_transfer(
    intervention: Intervention,
    lm: LanguageModel,
    question: Question,
    parts: list[Part],
    labels: Mapping[str, str],
) -> Transfer:
    """Every question with the intervention applied."""
    from pivotal.records.transfer import Transfer

    return Transfer(
        model=lm.name,
        phenomenon=intervention.phenomenon,
        directions=intervention.directions,
        rows=tuple(_row(intervention, lm, question, part, labels) for part in parts),
    )


def _row(
    intervention: Intervention,
    lm: LanguageModel,
    question: Question,
    part: Part,
    labels: Mapping[str, str],
) -> TransferRow:
    from pivotal.evidence.checks.effects import effect_on
    from pivotal.problem.prepare import as_read
    from pivotal.questions.relabel import relabelled
    from pivotal.records.transfer import TransferRow

    if part.pairs is None:
        return TransferRow(question=part.name, reason=part.reason)
    known = {label: to for label, to in labels.items() if label in part.pairs.labels}
    pairs = relabelled(part.pairs, intervention.directions, known) or part.pairs
    try:
        effect = effect_on(intervention, lm, as_read(question, lm, pairs), most=len(pairs))
    except PivotalError as error:
        return TransferRow(question=part.name, reason=str(error))
    return TransferRow(question=part.name, effect=effect)


def print_transfer(found: Transfer) -> None:
    """A table of the questions that could be asked, and the reasons for the others."""
    from pivotal.cli import terminal
    from pivotal.report.evidence import effects_table
    from pivotal.report.tables import counted

    asked = [row.effect for row in found.rows if row.effect is not None]
    refused = [row for row in found.rows if row.effect is None]
    terminal.line(
        f"The intervention of {found.phenomenon} in {found.model} on {counted(len(asked), 'other question')}.",
        style="bold",
    )
    if (listed := effects_table(asked)) is not None:
        terminal.table(listed)
    if asked and not any(effect.related for effect in asked):
        terminal.line(
            f"No labels are {' and '.join(found.directions)}, so accuracy is shown and no flips. Map labels with "
            f"--labels LABEL={found.directions[0]},LABEL={found.directions[1]}."
        )
    for row in refused:
        terminal.line(f"{row.question}: {row.reason}")
