"""`pivotal trace`: one sentence step by step, untouched and with the units set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, in_question
from pivotal.errors import PivotalError
from pivotal.records.serial import replace

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.questions.minimal_pair import MinimalPair
    from pivotal.records.traces import Trace


@shared_options.takes_run
def trace(
    sentence: Annotated[
        str | None,
        argument("A sentence that ends with the word asked about, e.g. “The doctor near the cars admires”."),
    ] = None,
    pair: Annotated[
        int | None, in_question("Trace a held-out pair of the run instead, by its number from 0.", min=0)
    ] = None,
    direction: Annotated[
        str | None,
        in_question(
            "The label to flip to, e.g. plural. Default: that of the word that the model does not prefer."
        ),
    ] = None,
    words: Annotated[
        str | None,
        in_question(
            "The two words asked about, in the order of the labels. Default: the last word of the sentence and "
            "the word that the phenomenon pairs it with.",
            metavar="WORD,WORD",
        ),
    ] = None,
    cue: Annotated[
        str | None,
        in_question(
            "The cue, or its index from 0. Default: the word that is a cue in the phenomenon.",
            metavar="WORD|INDEX",
        ),
    ] = None,
    out: Annotated[
        str | None,
        in_output(
            "Also write a figure (.svg, .png, .pdf), a page (.html) or the numbers (.json).", metavar="FILE"
        ),
    ] = None,
    overwrite: shared_options.OverwriteFile = False,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Follow one sentence through the model: units, word probabilities and KL, with and without the intervention."""
    from pivotal.cli.heatmap import show_trace
    from pivotal.cli.run_argument import Saved
    from pivotal.report.trace import check_path, write_trace

    saved = Saved.read(**chosen)
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
    if pair is not None:
        asked, has_cue = _held_out(saved, pair), True
    else:
        asked, has_cue = _typed(saved, sentence or "", words, cue)
    found = _traced(saved, asked, direction)
    found = replace(found, pair=pair, cue=found.cue if has_cue else None)
    if path is not None:
        write_trace(found, path)
    if json:
        terminal.as_json(found.as_dict())
        return
    show_trace(found)
    if path is not None:
        terminal.line(f"Written to {path}")


def _typed(saved: Saved, sentence: str, words: str | None, cue: str | None) -> tuple[MinimalPair, bool]:
    """The pair of a sentence, and whether it has a cue."""
    from functools import cache, partial

    from pivotal.questions.sentence import pair_of

    return pair_of(
        sentence,
        saved.intervention.directions,
        cache(partial(saved.load_pairs, "Give --words and --cue.")),
        words=None if words is None else words.split(","),
        cue=cue,
        at_cue=saved.intervention.steps == "single",
    )


def _held_out(saved: Saved, pair: int) -> MinimalPair:
    """Pairs are numbered as in traces.json: held-out pairs that the model cannot score do not count."""
    from pivotal.problem.prepare import problem_of

    _, test = saved.divided("Trace a sentence of your own instead.")
    pairs = problem_of(saved.question, saved.lm, test).pairs
    if pair >= len(pairs):
        raise PivotalError(f"The run has held-out pairs 0 to {len(pairs) - 1}, but not pair {pair}.")
    return pairs[pair]


def _traced(saved: Saved, asked: MinimalPair, direction: str | None) -> Trace:
    from pivotal.evidence.trace import trace as follow
    from pivotal.models.intervened import encode_typed

    encode_typed(saved.lm, asked.prefix)
    try:
        return follow(saved.lm, saved.intervention, asked, direction=direction, any_model=saved.any_model)
    except PivotalError as error:
        raise PivotalError(f"“{asked.prefix}” cannot be traced: {error}") from None
