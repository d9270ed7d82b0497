"""`pivotal trace`: one sentence step by step, untouched and with the units set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pivotal.cli import asked, show
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.cli.saved import Saved
    from pivotal.jobs.find import Question
    from pivotal.models import LanguageModel
    from pivotal.questions.pairs import MinimalPair
    from pivotal.records.traces import Trace, Traces


def trace(
    run_folder: asked.Run,
    sentence: Annotated[
        str | None,
        typer.Argument(
            help="A sentence up to the word asked about, that word included, e.g. “The doctor near the cars admires”.",
            show_default=False,
        ),
    ] = None,
    pair: Annotated[
        int | None, typer.Option(min=0, help="A held-out pair of the run instead: its number, from 0.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="The label to flip to. Default: that of the word which the model does not prefer."),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(
            metavar="WORD,WORD",
            help="The two words asked about, in the order of the labels. Default: the last word of the sentence, "
            "and the one that the phenomenon pairs it with.",
        ),
    ] = None,
    cue: Annotated[
        str | None,
        typer.Option(
            metavar="WORD|INDEX",
            help="The cue: itself or its 0-based index. Default: the word that the phenomenon has as a cue.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write a figure (.svg, .png, .pdf), a page (.html) or the numbers (.json).",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = None,
    run: asked.WhichRun = None,
    model: asked.RunModel = None,
    priming: asked.RunPriming = None,
    any_model: asked.AnyModel = False,
    device: asked.Device = None,
    dtype: asked.RunDtype = None,
    json: asked.Json = False,
) -> None:
    """Follow one sentence through the model: the units without and with the intervention, the two words, KL."""
    from pivotal.cli.heatmap import show_trace
    from pivotal.cli.saved import Saved
    from pivotal.report.trace_files import check_path, write_trace

    saved = Saved.read(run_folder, run)
    if (sentence is None) == (pair is None):
        raise PivotalError(
            "Name what to trace: a sentence, such as “The doctor near the cars admires”, or a held-out pair with "
            "--pair 0; one of the two."
        )
    if pair is not None and (words is not None or cue is not None):
        raise PivotalError("A held-out pair has its words and its cue: leave --words and --cue out.")
    if to is not None:
        saved.intervention.direction(to)
    path = None if out is None else check_path(out)
    question = saved.question(model, priming, dtype)
    as_found = not any_model and all(other is None for other in (to, model, priming, dtype))
    found = _stored(saved, pair) if as_found and pair is not None else None
    if found is None:
        lm = _load(saved, question, device, any_model, pair)
        asking, has_cue = (
            _typed(saved, question, sentence, words, cue)
            if sentence is not None
            else (_held_out(saved, question, lm, pair or 0), True)
        )
        found = _traced(lm, saved, asking, to, any_model, pair, has_cue)
    if path is not None:
        write_trace(found, path)
    if json:
        show.as_json(found.as_dict())
        return
    show_trace(found)
    if path is not None:
        show.line(f"Written to {path}")


def _stored(saved: Saved, pair: int) -> Trace | None:
    kept = _kept(saved)
    return None if kept is None else kept.of_pair(pair)


def _kept(saved: Saved) -> Traces | None:
    """The traces of the run folder, if they are of this run."""
    kept = saved.folder.traces() if saved.folder is not None and saved.folder.kind == "run" else None
    return kept if kept is not None and kept.run == saved.run else None


def _load(
    saved: Saved, question: Question, device: str | None, any_model: bool, pair: int | None
) -> LanguageModel:
    try:
        return saved.load_model(question, device, any_model)
    except PivotalError as error:
        kept = _kept(saved)
        if pair is None or kept is None or not kept.traces:
            raise
        stored = ", ".join(str(trace.pair) for trace in kept.traces[:12])
        raise PivotalError(f"{error} Without the model there are the pairs {stored} … to trace.") from None


def _typed(
    saved: Saved, question: Question, sentence: str, words: str | None, cue: str | None
) -> tuple[MinimalPair, bool]:
    from functools import cache

    from pivotal.questions.sentence import pair_of

    return pair_of(
        sentence,
        saved.intervention.directions,
        cache(question.load_pairs),
        words=None if words is None else words.split(","),
        cue=cue,
        at_cue=saved.intervention.steps == "single",
    )


def _held_out(saved: Saved, question: Question, lm: LanguageModel, pair: int) -> MinimalPair:
    """The number counts the held-out pairs that the model can be asked, as traces.json does."""
    cure = "Trace a sentence of your own instead."
    _, test = saved.divided(question, question.load_pairs(), cure)
    pairs = question.problem(lm, test).pairs
    if pair >= len(pairs):
        raise PivotalError(f"The run has the held-out pairs 0 to {len(pairs) - 1}; there is no pair {pair}.")
    return pairs[pair]


def _traced(
    lm: LanguageModel,
    saved: Saved,
    asking: MinimalPair,
    to: str | None,
    any_model: bool,
    pair: int | None,
    has_cue: bool,
) -> Trace:
    from dataclasses import replace

    from pivotal.evidence.trace import trace as follow

    try:
        found = follow(lm, saved.intervention, asking, direction=to, any_model=any_model)
    except PivotalError as error:
        raise PivotalError(f"“{asking.prefix}” cannot be traced: {error}") from None
    return replace(found, pair=pair, cue=found.cue if has_cue else None)
