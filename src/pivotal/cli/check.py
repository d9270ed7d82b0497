"""`pivotal check`: whether a model can score a question, before any search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError
from pivotal.options import check_least
from pivotal.questions.question import Question

BAD_QUESTION = 2
"""The exit code if `find` would refuse the question, with the same code."""

if TYPE_CHECKING:
    from pivotal.models import LanguageModel
    from pivotal.questions.readers import Part
    from pivotal.records.check import CheckReport


@dataclass(frozen=True)
class CheckOptions:
    sample: int | None = None
    """Maximum number of pairs to score; 0 scores all. Default: 2,000, or fewer in a large model."""
    words: str | None = None
    """Only look up these words in the model, e.g. criticizes,flurbs."""

    batch_nodes: int | None = None
    """Memory bound of a transformer: how many prefixes, times runs, are computed at once. Default: 4096, or
    fewer for a large model on a CPU."""

    def __post_init__(self) -> None:
        check_least(self, sample=0, batch_nodes=1)


@shared_options.takes_options
def check(
    question: Question,
    options: CheckOptions,
    device: shared_options.Device = None,
    json: shared_options.Json = False,
) -> None:
    """Check a question before a search: what the model can score, what it knows, and which words training and held-out
    pairs share.

    A folder with several questions, such as blimp:FOLDER, is checked one question at a time. --words only shows how the
    model reads some words: whether it knows them, their tokens after another word, and similar words.
    """
    if options.words is not None:
        _look_up(question.model, options.words, json)
        return
    from pivotal.problem.prepare import model_of
    from pivotal.report import check as report

    parts = question.checked().load_parts()  # files are read before the model is loaded, which may take long
    found = _checks(question, model_of(question, device, options.batch_nodes), parts, options.sample)
    if json:
        terminal.as_json(found[0] if len(found) == 1 else found)
    elif len(found) == 1:
        _print(found[0])
    else:
        terminal.table(report.overview(found))
        for one in found:
            if one.reason:
                terminal.line(f"{one.phenomenon}: {one.reason}")
    if all(one.reason for one in found):
        raise typer.Exit(BAD_QUESTION)


def _print(one: CheckReport) -> None:
    from pivotal.report import check as report

    terminal.result(*report.sentences(one), *report.tables(one))
    for warning in one.warnings:
        terminal.line(f"Warning: {warning}", style="yellow")


def _checks(
    question: Question, model: LanguageModel, parts: list[Part], most: int | None
) -> list[CheckReport]:
    from pivotal.evidence.check import check as examine
    from pivotal.records.check import CheckReport

    return [
        examine(question, model, part.pairs, most=most)
        if part.pairs is not None
        else CheckReport(model=model.name, phenomenon=part.name, steps=question.steps, reason=part.reason)
        for part in parts
    ]


def _look_up(model: str, words: str, json: bool) -> None:
    from pivotal.models import load_model
    from pivotal.report.tables import Table

    asked = [word.strip() for word in words.split(",") if word.strip()]
    if not asked:
        raise PivotalError(f"--words looks up words, but {words!r} has none. Separate them by commas.")
    lm = load_model(model, device="cpu")
    known = lm.vocabulary.whole_words()
    rows = [_word(lm, word, known) for word in asked]
    if json:
        terminal.as_json(rows)
        return
    lines = [(row["word"], _tokens(row["tokens"]), ", ".join(row["near"])) for row in rows]
    terminal.table(Table("", ("word", f"in {lm.name}", "similar words"), tuple(lines)))


def _word(lm: LanguageModel, word: str, known: Sequence[str]) -> dict[str, Any]:
    from pivotal.problem.text import near_words

    try:
        tokens = [lm.word(token).strip() or " " for token in lm.tokens_of(word)]
    except PivotalError:
        tokens = []
    return {"word": word, "known": bool(tokens), "tokens": tokens, "near": near_words(word, known)}


def _tokens(tokens: list[str]) -> str:
    number = {0: "not in the vocabulary", 1: "one token"}
    return number.get(len(tokens)) or f"{len(tokens)} tokens: {'·'.join(tokens)}"
