"""`pivotal check`: whether a question can be asked of a model, before any search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pivotal.cli import shared_options, terminal

if TYPE_CHECKING:
    from pivotal.models import LanguageModel
    from pivotal.questions.question import Question
    from pivotal.records.check import CheckReport


@shared_options.takes_question
def check(
    sample: Annotated[
        int | None,
        shared_options.in_question(
            "Maximum number of pairs to ask the model; 0 asks all. Default: 2,000, or fewer in a large model.",
            min=0,
        ),
    ] = None,
    device: shared_options.Device = None,
    batch_nodes: shared_options.BatchNodes = None,
    json: shared_options.Json = False,
    **asked: Any,
) -> None:
    """Check a question before a search: what can be asked, what the model knows, what the split shares.

    A folder with several questions, such as blimp:FOLDER, is checked question by question.
    """
    from pivotal.problem.prepare import model_of
    from pivotal.questions.question import Question
    from pivotal.report import check as report

    question = Question(**asked)
    model = model_of(question, device, batch_nodes)
    found = _checks(question, model, sample)
    if json:
        terminal.as_json(found[0] if len(found) == 1 else found)
        return
    if len(found) > 1:
        terminal.table(report.overview(found))
        for one in found:
            if one.knowledge is None:
                terminal.line(f"{one.phenomenon}: {one.reason}")
        return
    (one,) = found
    first, *others = report.sentences(one)
    terminal.line(first, style="bold")
    for sentence in others:
        terminal.line(sentence)
    for listed in report.tables(one):
        terminal.table(listed)
    for warning in one.warnings:
        terminal.line(f"Warning: {warning}", style="yellow")


def _checks(question: Question, model: LanguageModel, most: int | None) -> list[CheckReport]:
    from pivotal.evidence.check import check as examine
    from pivotal.questions.readers import ReadOptions, reader_of
    from pivotal.records.check import CheckReport
    from pivotal.records.summary import Rejections

    reader = reader_of(question.phenomenon, ReadOptions(question.columns, question.skip_bad))
    parts = [] if reader is None else reader.parts()
    if len(parts) < 2:
        return [examine(question, model, most=most)]
    found = []
    for part in parts:
        if part.pairs is not None:
            pairs = part.pairs.lower() if question.lower else part.pairs
            found.append(examine(question, model, pairs, most=most))
        else:
            found.append(
                CheckReport(
                    model=model.name,
                    phenomenon=part.name,
                    steps=question.steps,
                    labels=None,
                    pairs=0,
                    asked=0,
                    rejected=Rejections(total=0, reasons={}),
                    reason=part.reason,
                )
            )
    return found
