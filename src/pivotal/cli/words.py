"""`pivotal words`: how a model reads words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import complete, shared_options, terminal

if TYPE_CHECKING:
    from pivotal.models import LanguageModel


def words(
    model: Annotated[
        str,
        typer.Argument(
            help="A name from `pivotal list models`, a folder, a .gguf file, or hf:ORG/NAME.",
            autocompletion=complete.models,
            show_default=False,
        ),
    ],
    asked: Annotated[list[str], typer.Argument(metavar="WORD...", help="The words.", show_default=False)],
    json: shared_options.Json = False,
) -> None:
    """Show how a model reads words: whether it knows them, their tokens after another word, and similar words."""
    from pivotal.models import load_model

    lm = load_model(model, device="cpu")
    known = lm.whole_words()
    rows = [_row(lm, word, known) for word in asked]
    if json:
        terminal.as_json(rows)
        return
    from pivotal.report.tables import Table

    lines = [(row["word"], _told(row), ", ".join(row["near"])) for row in rows]
    terminal.table(Table("", ("word", f"in {lm.name}", "similar words"), tuple(lines)))


def _row(lm: LanguageModel, word: str, known: Sequence[str]) -> dict[str, Any]:
    from pivotal.errors import PivotalError
    from pivotal.problem.unknown import near_words

    try:
        tokens = [lm.word(token).strip() or " " for token in lm.tokens_of(word)]
    except PivotalError:
        tokens = []
    return {"word": word, "known": bool(tokens), "tokens": tokens, "near": near_words(word, known)}


def _told(row: dict[str, Any]) -> str:
    if not row["known"]:
        return "not in the vocabulary"
    return (
        "one token" if len(row["tokens"]) == 1 else f"{len(row['tokens'])} tokens: {'·'.join(row['tokens'])}"
    )
