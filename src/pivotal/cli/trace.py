"""`pivotal trace`: one sentence step by step, untouched and with the units set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import RunOptions, argument
from pivotal.errors import PivotalError
from pivotal.options import check_least
from pivotal.records.serial import replace

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.questions.minimal_pair import MinimalPair
    from pivotal.records.traces import Trace


@dataclass(frozen=True)
class TraceOptions:
    pair: int | None = None
    """Trace this held-out pair of the run instead, counted from 0."""
    direction: str | None = None
    """The label to flip to, e.g. plural. Default: the one that the untouched model does not prefer."""
    words: str | None = None
    """The two words asked about, WORD,WORD, in the order of the labels. Default: the last word of the sentence that the
    phenomenon asks about, and the word that it is paired with; for --pair, its own words."""
    cue: str | None = None
    """The cue, or its index from 0. Default: the word that is the cue in the phenomenon."""
    out: str | None = None
    """Also write a figure (.svg, .png, .pdf), a page (.html) or the numbers (.json)."""
    overwrite: bool = False
    """Replace the file of --out if it exists."""

    def __post_init__(self) -> None:
        check_least(self, pair=0)


@shared_options.takes_options
def trace(
    path: shared_options.Run,
    run: RunOptions,
    options: TraceOptions,
    sentence: Annotated[
        str | None,
        argument("A sentence with the word asked about, e.g. “The doctor near the cars admires it”."),
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """Follow one sentence through the model: units, word probabilities and KL, with and without the intervention."""
    from pivotal.cli.heatmap import show_trace
    from pivotal.cli.run_argument import Saved
    from pivotal.report.trace import check_path, write_trace

    saved, pair, direction = Saved.read(path, run), options.pair, options.direction
    if (sentence is None) == (pair is None):
        raise PivotalError(
            "Give either a sentence, such as “The doctor near the cars admires”, or a held-out pair, such as --pair 0."
        )
    if pair is not None and options.cue is not None:
        raise PivotalError("A held-out pair has its own cue. Leave --cue out.")
    if direction is not None:
        saved.intervention.direction(direction)
    if sentence is not None:
        saved.note_means("A typed sentence")
    out = None if options.out is None else check_path(options.out, overwrite=options.overwrite)
    if pair is not None:
        (asked, to), has_cue = _held_out(saved, pair, options.words), True
        direction = direction or to
    else:
        asked, has_cue = _typed(saved, sentence or "", options)
    found = _traced(saved, asked, direction)
    found = replace(found, pair=pair, cue=found.cue if has_cue else None)
    if out is not None:
        write_trace(found, out)
    if json:
        terminal.as_json(found.as_dict())
        return
    show_trace(found)
    if out is not None:
        terminal.line(f"Written to {out}")


def _typed(saved: Saved, sentence: str, options: TraceOptions) -> tuple[MinimalPair, bool]:
    """The pair of a sentence, and whether it has a cue."""
    from functools import cache, partial

    from pivotal.questions.sentence import pair_of

    return pair_of(
        sentence,
        saved.intervention.directions,
        cache(partial(saved.load_pairs, "Give --words and --cue.")),
        words=None if options.words is None else options.words.split(","),
        cue=options.cue,
        at_cue=saved.intervention.steps == "single",
    )


def _held_out(saved: Saved, pair: int, words: str | None) -> tuple[MinimalPair, str]:
    """A held-out pair, and the label to flip to. Pairs are numbered as in traces.json: those that the model cannot
    score do not count. `words` are for a pair that asks none."""
    from pivotal.problem.prepare import problem_of

    _, test = saved.divided("Trace a sentence of your own instead.")
    problem = problem_of(saved.question, saved.lm, test)
    if pair >= len(problem):
        raise PivotalError(f"The run has held-out pairs 0 to {len(problem) - 1}, but not pair {pair}.")
    asked = problem.pairs[pair]
    if asked.asks_words == (words is not None):
        raise PivotalError(
            "This held-out pair has its own words. Leave --words out."
            if asked.asks_words
            else f"{saved.intervention.phenomenon} asks no words, but a trace compares two. Name them with --words."
        )
    if words is not None:
        first, _, second = words.partition(",")
        asked = dataclasses.replace(asked, words=(first, second))
    return asked, problem.labels[int(problem.direction[pair])]


def _traced(saved: Saved, asked: MinimalPair, direction: str | None) -> Trace:
    from pivotal.evidence.trace import trace as follow
    from pivotal.models.intervened import encode_typed

    encode_typed(saved.lm, asked.prefix)
    try:
        return follow(
            saved.intervention, saved.lm, asked, direction=direction, any_model=saved.options.any_model
        )
    except PivotalError as error:
        raise PivotalError(f"“{asked.prefix}” cannot be traced: {error}") from None
