"""The answers of the live page: one sentence with some units set, and the user's own pairs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import shares_of
from pivotal.evidence.trace import trace_with_next
from pivotal.problem.asking import AskedPair, Asking
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.sentence import known_cue, pair_of
from pivotal.records.evidence import Share
from pivotal.records.serial import replace
from pivotal.report.trace import trace_table
from pivotal.serve.live_intervention import LiveIntervention
from pivotal.serve.requests import MOST_LINES, MOST_TOKENS, Paste, SentenceRequest

_TOP = 6
"""The number of the most likely words that are listed for each side."""
_FORM = "“The *athlete* near the cars admires/admire”"


def predict(live: LiveIntervention, asked: SentenceRequest) -> dict[str, Any]:
    """The two words, the most likely words, KL and the trace, with and without the units of the request."""
    pair, has_cue = _pair(live, asked.sentence, asked.words, asked.cue)
    try:
        seen = Asking(live.model, live.intervention.steps).ask(pair)
        if len(seen.ids) > MOST_TOKENS:
            raise PivotalError(f"it has {len(seen.ids)} tokens; the live page reads {MOST_TOKENS} at most.")
    except PivotalError as error:
        raise PivotalError(f"{live.model.name} cannot score “{pair.prefix}”: {error}") from None
    to = _direction(live, asked.direction, seen)
    intervention = live.edited(asked.units)
    # The model may also read tokens that the two words share.
    last = len(live.model.encode(pair.prefix).ids) - 1
    trace, (before, after) = trace_with_next(live.model, intervention, pair, to, last)
    trace = replace(trace, cue=trace.cue if has_cue else None)
    return {
        "prefix": pair.prefix,
        "words": pair.words,
        "cue": pair.cue if has_cue else None,
        "direction": live.labels[to],
        "untouched": [trace.probability(word)[0] for word in range(2)],
        "edited": [trace.probability(word)[1] for word in range(2)],
        "log_odds": trace.log_odds,
        "flipped": trace.flipped,
        "kl": sum(trace.kl) / (len(trace.tokens) + 1),
        "kl_last": trace.kl[-1],
        "next": _likely(live, before, after),
        "trace": trace_table(trace),
    }


def score(live: LiveIntervention, asked: Paste) -> dict[str, Any]:
    """Flips on the user's own pairs, with an interval, and the outcome of each pair."""
    pairs = live.as_read(_lines(live, asked.text))
    intervention = live.edited(asked.units)
    if not intervention.active.any():
        raise PivotalError("At least one unit must be set, but none is. Tick a unit or add one.")
    problem = Problem(live.model, pairs, sites=intervention.sites, steps=intervention.steps)
    outcome = problem.run_intervention(intervention)
    flipped = outcome.flipped()[0].cpu().numpy()
    before, after = (-problem.clean_log_ratio).tolist(), (-outcome.log_ratio[0]).tolist()
    rows = [
        {
            "prefix": pair.prefix,
            "preferred": pair.words[1 - to],
            "wanted": pair.words[to],
            "direction": problem.labels[to],
            "log_odds": (before[i], after[i]),
            "flipped": bool(flipped[i]),
        }
        for i, (pair, to) in enumerate(zip(problem.pairs, problem.direction.tolist(), strict=True))
    ]
    share: Share = shares_of(problem.pairs)(flipped)
    return {
        "share": share,
        "flipped": int(flipped.sum()),
        "kl": float(problem.untouched.mean(outcome.states)[0]),
        "rejected": problem.rejected.describe() if problem.rejected.total else "",
        "rows": rows,
    }


def _pair(
    live: LiveIntervention, sentence: str, words: tuple[str, str] | None, cue: str | None
) -> tuple[MinimalPair, bool]:
    """The pair of a typed sentence, as the model reads it, and whether it has a cue."""
    single = live.intervention.steps == "single"
    if words is None and not live.pairs.asks_words:  # those that tell the two directions apart
        at = (cue or known_cue(sentence.split(), live.pairs)) if single else None
        if single and at is None:
            raise PivotalError("This intervention acts at the cue. Choose the word in the field Cue.")
        sides = [live.model.intervened(live.intervention, direction=to, cue=at) for to in live.labels]
        said = [dict(side.next_words(sentence, 50)) for side in sides]
        first, second = (
            max(filter(str.strip, a), key=lambda word: a[word] - b.get(word, 0.0))
            for a, b in (said, said[::-1])
        )
        words = first, second
    made, has_cue = pair_of(
        sentence,
        live.labels,
        lambda: live.pairs,
        words=words,
        cue=cue,
        at_cue=single,
        named=("the fields for the two words", "the field Cue"),
    )
    return live.as_read([made])[0], has_cue


def _direction(live: LiveIntervention, label: str | None, seen: AskedPair) -> int:
    """The label to flip to: the one given, or that of the word that the untouched model does not prefer."""
    if label is not None:
        return live.intervention.direction(label)
    log_p = live.untouched(seen.ids)
    first, second = (float(log_p[list(side)].logsumexp(-1)) for side in seen.sides)
    return 1 if first >= second else 0


def _likely(live: LiveIntervention, before: Tensor, after: Tensor) -> list[dict[str, Any]]:
    """The most likely next words of both sides, with their probabilities in both."""
    tokens = torch.cat(
        [after.topk(min(_TOP, len(after))).indices, before.topk(min(_TOP, len(before))).indices]
    )
    return [
        {
            "word": live.model.word(token),
            "untouched": float(before[token].exp()),
            "edited": float(after[token].exp()),
        }
        for token in dict.fromkeys(tokens.tolist())
    ]


# -- pasted lines ---------------------------------------------------------------------------------------------------


def _lines(live: LiveIntervention, text: str) -> list[MinimalPair]:
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise PivotalError(f"Each line holds a pair, such as {_FORM}, but there is no line.")
    if len(lines) > MOST_LINES:
        raise PivotalError(f"At most {MOST_LINES} pairs can be tried here, not {len(lines)}.")
    found = []
    for number, line in lines:
        try:
            found.append(_line(live, line))
        except PivotalError as error:
            raise PivotalError(f"Line {number}: {error}") from None
    return found


def _line(live: LiveIntervention, line: str) -> MinimalPair:
    """A pair from a line: a sentence that ends in `first/second`, with the cue between asterisks."""
    *prefix, words = line.split()
    first, slash, second = words.partition("/")
    if not prefix or not slash or not first or not second or "/" in second:
        raise PivotalError(
            f"A pair is a sentence that ends in two words, {live.labels[0]} first, such as {_FORM}, not {line!r}."
        )
    marked = [i for i, word in enumerate(prefix) if len(word) > 2 and word[0] == word[-1] == "*"]
    if len(marked) > 1:
        raise PivotalError(f"One word is the cue, but {len(marked)} are marked with asterisks.")
    for i in marked:
        prefix[i] = prefix[i][1:-1]
    cue = str(marked[0]) if marked else None
    return _pair(live, " ".join(prefix), (first, second), cue)[0]
