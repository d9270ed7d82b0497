"""`pivotal trace`: one sentence step by step, untouched and with the units set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError
from pivotal.records.serial import replace

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.models import LanguageModel
    from pivotal.questions.minimal_pair import MinimalPair
    from pivotal.questions.question import Question
    from pivotal.records.traces import Trace, Traces


def trace(
    run_folder: shared_options.Run,
    sentence: Annotated[
        str | None,
        typer.Argument(
            help="A sentence that ends with the word asked about, e.g. “The doctor near the cars admires”.",
            show_default=False,
        ),
    ] = None,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    priming: shared_options.RunPriming = None,
    any_model: shared_options.AnyModel = False,
    pair: Annotated[
        int | None,
        shared_options.in_question("Trace a held-out pair of the run instead, by its number from 0.", min=0),
    ] = None,
    direction: Annotated[
        str | None,
        shared_options.in_question(
            "The label to flip to, e.g. plural. Default: that of the word that the model does not prefer."
        ),
    ] = None,
    words: Annotated[
        str | None,
        shared_options.in_question(
            "The two words asked about, in the order of the labels. Default: the last word of the sentence and "
            "the word that the phenomenon pairs it with.",
            metavar="WORD,WORD",
        ),
    ] = None,
    cue: Annotated[
        str | None,
        shared_options.in_question(
            "The cue, or its index from 0. Default: the word that is a cue in the phenomenon.",
            metavar="WORD|INDEX",
        ),
    ] = None,
    device: shared_options.Device = None,
    dtype: shared_options.RunDtype = None,
    out: Annotated[
        str | None,
        shared_options.in_output(
            "Also write a figure (.svg, .png, .pdf), a page (.html) or the numbers (.json).", metavar="FILE"
        ),
    ] = None,
    overwrite: shared_options.OverwriteFile = False,
    json: shared_options.Json = False,
) -> None:
    """Follow one sentence through the model: units, word probabilities and KL, with and without the intervention."""
    from pivotal.cli.heatmap import show_trace
    from pivotal.cli.run_argument import Saved
    from pivotal.report.trace import check_path, write_trace

    saved = Saved.read(run_folder, run)
    if (sentence is None) == (pair is None):
        raise PivotalError(
            "Give either a sentence, such as “The doctor near the cars admires”, or a held-out pair, such as --pair 0."
        )
    if pair is not None and (words is not None or cue is not None):
        raise PivotalError("A held-out pair already has words and a cue. Leave --words and --cue out.")
    if direction is not None:
        saved.intervention.direction(direction)
    if sentence is not None:
        saved.note_means("A typed sentence")
    path = None if out is None else check_path(out, overwrite=overwrite)
    as_found = not any_model and all(other is None for other in (direction, model, priming, dtype))
    stored = _stored(saved)
    found = stored.of_pair(pair) if as_found and pair is not None and stored is not None else None
    if found is None:
        question = saved.question(model, priming, dtype)
        try:
            lm = saved.load_model(question, device, any_model, download=model is not None)
        except PivotalError as error:
            if pair is None or stored is None or not stored.traces:
                raise
            there = ", ".join(str(trace.pair) for trace in stored.traces[:12])
            raise PivotalError(
                f"{error} Without the model you can trace the stored pairs {there} …"
            ) from None
        asked, has_cue = (
            (_held_out(saved, question, lm, pair), True)
            if pair is not None
            else _typed(saved, question, sentence or "", words, cue)
        )
        found = _traced(lm, saved, asked, direction, any_model)
        found = replace(found, pair=pair, cue=found.cue if has_cue else None)
    if path is not None:
        write_trace(found, path)
    if json:
        terminal.as_json(found.as_dict())
        return
    show_trace(found)
    if path is not None:
        terminal.line(f"Written to {path}")


def _stored(saved: Saved) -> Traces | None:
    """The traces stored in the run folder, if they are of this run."""
    stored = None if saved.folder is None else saved.folder.traces()
    return stored if stored is not None and stored.run == saved.run else None


def _typed(
    saved: Saved, question: Question, sentence: str, words: str | None, cue: str | None
) -> tuple[MinimalPair, bool]:
    """The pair of a sentence, and whether it has a cue."""
    from functools import cache, partial

    from pivotal.questions.sentence import pair_of

    return pair_of(
        sentence,
        saved.intervention.directions,
        cache(partial(saved.load_pairs, question, "Give --words and --cue.")),
        words=None if words is None else words.split(","),
        cue=cue,
        at_cue=saved.intervention.steps == "single",
    )


def _held_out(saved: Saved, question: Question, lm: LanguageModel, pair: int) -> MinimalPair:
    """Pairs are numbered as in traces.json: held-out pairs that the model cannot be asked do not count."""
    from pivotal.problem.prepare import as_read, problem_of

    pairs = question.load_pairs()
    cure = "Trace a sentence of your own instead."
    _, test = saved.divided(question, pairs, cure, as_read(question, lm, pairs))
    pairs = problem_of(question, lm, test).pairs
    if pair >= len(pairs):
        raise PivotalError(f"The run has held-out pairs 0 to {len(pairs) - 1}, but not pair {pair}.")
    return pairs[pair]


def _traced(
    lm: LanguageModel, saved: Saved, asked: MinimalPair, direction: str | None, any_model: bool
) -> Trace:
    from pivotal.evidence.trace import trace as follow
    from pivotal.models.intervened import encode_typed

    encode_typed(lm, asked.prefix)
    try:
        return follow(lm, saved.intervention, asked, direction=direction, any_model=any_model)
    except PivotalError as error:
        raise PivotalError(f"“{asked.prefix}” cannot be traced: {error}") from None
