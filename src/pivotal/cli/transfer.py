"""The transfer of an intervention to other questions, with any labels: `pivotal evaluate RUN QUESTION`."""

from __future__ import annotations

from collections.abc import Mapping

from pivotal.cli import terminal
from pivotal.errors import PivotalError
from pivotal.evidence.side_effects import effect_on
from pivotal.models import LanguageModel
from pivotal.problem.examples import Examples
from pivotal.problem.prepare import as_read
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.questions.readers import Part
from pivotal.questions.relabel import relabelled
from pivotal.records.evidence import Transfer, TransferRow
from pivotal.records.intervention import Intervention
from pivotal.report.evidence import effects_table
from pivotal.report.tables import counted


def score_transfer(
    intervention: Intervention,
    lm: LanguageModel,
    question: Question,
    parts: list[Part],
    labels: Mapping[str, str],
    trained: frozenset[str] | None = None,
) -> Transfer:
    """Every question with the intervention applied. `trained` are the prefixes of the run's training pairs, if they are
    known."""

    def row(part: Part) -> TransferRow:
        if part.pairs is None:
            return TransferRow(question=part.name, reason=part.reason)
        known = {label: to for label, to in labels.items() if label in part.pairs.labels}
        pairs = relabelled(part.pairs, intervention.directions, known) or part.pairs
        try:
            asked = Examples.of(lm, as_read(question, lm, pairs), intervention.steps)
            effect = effect_on(intervention, lm, asked)
        except PivotalError as error:
            return TransferRow(question=part.name, reason=str(error))
        seen = None if trained is None else count_trained(asked.pairs, trained)
        return TransferRow(question=part.name, effect=effect, prefix_in_training=seen)

    return Transfer(
        model=lm.name,
        phenomenon=intervention.phenomenon,
        directions=intervention.directions,
        rows=tuple(map(row, parts)),
    )


def count_trained(pairs: PairSet, trained: frozenset[str]) -> int:
    """The number of pairs whose prefix is one of those of the training pairs."""
    return sum(pair.prefix in trained for pair in pairs)


def trained_sentence(count: int, asked: int) -> str:
    """Says that some of the scored pairs are not new."""
    return f"Prefixes of the run's training pairs occur in {count:,} of these {asked:,} pairs, so not all are new."


def print_transfer(transfer: Transfer) -> None:
    """A table of the questions that could be asked, and the reasons for the others."""
    effects = [row.effect for row in transfer.rows if row.effect is not None]
    terminal.line(
        f"The intervention of {transfer.phenomenon} in {transfer.model} on {counted(len(effects), 'other question')}.",
        style="bold",
    )
    if (listed := effects_table(effects)) is not None:
        terminal.table(listed)
    if effects and not any(effect.related for effect in effects):
        first, second = transfer.directions
        terminal.line(
            f"No labels are {first} and {second}, so accuracy is shown and no flips. Map labels with --labels "
            f"LABEL={first},LABEL={second}."
        )
    for row in transfer.rows:
        if row.effect is None:
            terminal.line(f"{row.question}: {row.reason}")
        elif row.prefix_in_training:
            terminal.line(f"{row.question}: {trained_sentence(row.prefix_in_training, row.effect.pairs)}")
