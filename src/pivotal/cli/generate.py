"""`pivotal generate`: continue a text, with the untouched model and with the units set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from pivotal.cli import shared_options, terminal
from pivotal.questions.question import check_seed

_in_text = shared_options.panel("Text")


def generate(
    run_folder: shared_options.Run,
    prompt: Annotated[
        str, typer.Argument(help="The text to continue, words separated by spaces.", show_default=False)
    ],
    *,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    priming: shared_options.RunPriming = None,
    any_model: shared_options.AnyModel = False,
    direction: Annotated[
        str, shared_options.in_question("The label to flip to, e.g. plural.", show_default=False)
    ],
    cue: Annotated[
        str | None,
        shared_options.in_question(
            "For a single-step intervention: the word to edit at, or its index from 0.", metavar="WORD|INDEX"
        ),
    ] = None,
    length: Annotated[int, _in_text("Number of words to generate.", min=1)] = 12,
    samples: Annotated[int, _in_text("Number of continuations from each side.", min=1)] = 1,
    temperature: Annotated[
        float, _in_text("Sampling temperature; 0 takes the likeliest word at every step.", min=0)
    ] = 0.0,
    seed: Annotated[int, _in_text("Seed of the samples, the same for both sides.", min=0)] = 0,
    top: Annotated[int, _in_text("Number of likeliest next words to show.", min=1)] = 6,
    device: shared_options.Device = None,
    dtype: shared_options.RunDtype = None,
    json: shared_options.Json = False,
) -> None:
    """Show the next words and continuations side by side: the untouched model, and with the units set."""
    from pivotal.cli.run_argument import Saved
    from pivotal.errors import PivotalError
    from pivotal.models.base import LanguageModel
    from pivotal.models.intervened import IntervenedModel

    check_seed(seed)
    saved = Saved.read(run_folder, run)
    if not prompt.split():
        raise PivotalError("The prompt must have at least one word, but it is empty.")
    saved.intervention.direction(direction)
    saved.note_means("The prompt")
    lm = saved.load_model(
        saved.question(model, priming, dtype), device, any_model, download=model is not None
    )
    try:
        lm.encode(prompt)
    except PivotalError as error:
        raise PivotalError(
            f"{lm.name} must know every word of the prompt, but it does not ({error}). Use other words."
        ) from None

    def both(lm: LanguageModel | IntervenedModel) -> tuple[list[tuple[str, float]], list[str]]:
        texts = lm.generate(prompt, words=length, samples=samples, temperature=temperature, seed=seed)
        return lm.next_words(prompt, k=top), texts

    untouched = both(lm)
    edited = both(lm.intervened(saved.intervention, direction, cue=cue, any_model=any_model))
    if json:
        sides = {"untouched": untouched, direction: edited}
        terminal.as_json({k: {"next_words": [list(w) for w in n], "texts": t} for k, (n, t) in sides.items()})
    else:
        _print(prompt, direction, untouched[0], edited[0], list(zip(untouched[1], edited[1], strict=True)))


def _print(
    prompt: str,
    direction: str,
    before: Sequence[tuple[str, float]],
    after: Sequence[tuple[str, float]],
    texts: Sequence[tuple[str, str]],
) -> None:
    from pivotal.report.tables import Table

    rows = tuple((a, f"{p:.3f}", b, f"{q:.3f}") for (a, p), (b, q) in zip(before, after, strict=True))
    columns = ("untouched", "p", f"→ {direction}", "p")
    terminal.table(Table(f"Next word after “{prompt}”", columns, rows, frozenset({1, 3})))
    for a, b in texts:
        terminal.line("")
        terminal.line(f"untouched   {a}")
        terminal.line(f"{'→ ' + direction:<11} {b}", style="bold")
