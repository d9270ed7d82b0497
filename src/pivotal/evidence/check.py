"""Check a question before a search: what the model can score, what it knows, and how long a search would take."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from dataclasses import dataclass

import torch

from pivotal.errors import PivotalError, check_whole
from pivotal.evidence.controls import overlap_of
from pivotal.evidence.knowledge import (
    cue_swap,
    few_to_flip,
    knowledge_of,
    not_unseen,
    prefixes_to_flip,
    warnings_of,
)
from pivotal.evidence.verdict import can_be_asked
from pivotal.models.base import LanguageModel
from pivotal.problem.asking import askable
from pivotal.problem.batch import Batch
from pivotal.problem.counterfactuals import match
from pivotal.problem.objective import Terms
from pivotal.problem.prepare import as_read, checked_model, model_of, problem_of, too_few
from pivotal.problem.problem import Problem
from pivotal.problem.text import options_for_more
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.check import CheckReport, DividedWord, Exchangeable
from pivotal.records.evidence import Evidence
from pivotal.records.serial import replace

_SAMPLE, _FEWEST, _UNIT_PAIRS = 2000, 100, 8_000_000
"""The most and the fewest pairs that the model is asked by default, and the most pairs times units."""
_BATCH, _SMALL = 64, 8
"""The number of prefixes of one update of the default search, and of the update that is timed first."""
_LONG = 0.5
"""An update that takes more seconds than this is not timed in full: its time is that of the small one, scaled up."""
_UPDATES = 90
"""The time of the default search in updates of such a batch, from that for number agreement in the bundled LSTM."""


def check(
    question: Question,
    model: LanguageModel | None = None,
    pairs: PairSet | None = None,
    *,
    most: int | None = None,
) -> CheckReport:
    """Check a question before a search: what the model can score, what it knows, and what the split shares.

    `model` is the question's model, if it is already loaded. `pairs` replace the pairs of the question.
    All pairs are read and divided into tokens. The model runs on a random sample of at most `most` of them; 0 takes
    all. By default these are 2,000 pairs, and fewer in a model with more than 4,000 units, down to 100.
    """
    if most is not None:
        check_whole(0, most=most)
    model = model_of(question) if model is None else checked_model(question, model)
    if most is None:
        most = min(_SAMPLE, max(_FEWEST, _UNIT_PAIRS // len(model.unit_space("all"))))
    read = as_read(question, model, question.load_pairs(pairs))
    _, asked, rejected = askable(model, read, question.steps)
    more = options_for_more(model, read, question.steps, len(asked)) if asked and rejected.total else ()
    found = CheckReport(
        model=model.name,
        phenomenon=read.name,
        steps=question.steps,
        split="file" if read.held_from is not None else question.split,
        labels=read.labels,
        pairs=len(read),
        asked=len(asked),
        notes=(*read.notes, *more),
        rejected=rejected.record(),
        left_out=dict(rejected.left_out.most_common()),
    )
    try:
        problem = problem_of(question, model, asked.at_most(most or len(asked)) or read)
    except PivotalError as error:
        return replace(found, asked=0, reason=str(error))
    knowledge = knowledge_of(problem)
    train, test, reason = _divided(question, read, asked)
    found = replace(
        found,
        sampled=most if 0 < most < len(asked) else None,
        exchange=_exchange(problem),
        divided=divided_words(model, asked),
        knowledge=knowledge,
        train=len(train),
        test=len(test),
        seconds=None if reason else _seconds(problem),
        warnings=warnings_of(knowledge, asked),
        reason=reason,
    )
    return _with_held_out(found, problem, train, test, most, question.test) if len(test) else found


def _with_held_out(
    found: CheckReport, problem: Problem, train: PairSet, test: PairSet, most: int, file: object
) -> CheckReport:
    """The report with what the verdict will count: the held-out prefixes that can be flipped to each label."""
    held_out = test.at_most(most or len(test))
    try:
        towards = prefixes_to_flip(problem.with_values("unbounded").on(held_out))
    except PivotalError as error:
        return replace(found, warnings=(*found.warnings, f"Held-out pairs: {error}"))
    share = len(test) / (len(train) + len(test))
    prefixes = len({pair.prefix for pair in held_out})
    few = few_to_flip(towards, prefixes, share, all_asked=len(held_out) == len(test))
    return replace(
        found,
        to_flip=towards,
        overlap=overlap_of(train, test),
        warnings=(*found.warnings, *few, *not_unseen(file, train, test)),
    )


def _exchange(problem: Problem) -> Exchangeable:
    """The pairs that --values interchange can use, and why it cannot use the others."""
    whole = problem.whole
    reasons = match(whole.model, whole.pairs.pairs, whole.examples.asked, whole.direction).reasons
    return Exchangeable(
        pairs=len(whole), usable=len(whole) - reasons.total(), reasons=dict(reasons.most_common())
    )


@dataclass(frozen=True)
class Untouched:
    """What the untouched model knows, by the rules of the verdict."""

    lacking: str | None = None
    """Why a search would show nothing; None if the model knows the phenomenon in both directions."""
    accuracy: float | None = None
    """On the held-out pairs, if they can be asked."""


def what_is_known(question: Question, model: LanguageModel, pairs: PairSet | None = None) -> Untouched:
    """Whether the verdict would object to the question before any search. `pairs` are those of the question, if they
    are already loaded."""
    read = as_read(question, model, question.load_pairs(pairs))
    _, asked, rejected = askable(model, read, question.steps)
    if not len(asked):
        return Untouched(f"The model cannot score any of the {len(read):,} pairs: {rejected.describe()}.")
    try:
        test = problem_of(question, model, question.divide(read)[1])
    except PivotalError as error:
        return Untouched(str(error))
    evidence = Evidence(knowledge=knowledge_of(test), swap=cue_swap(test))
    failed = [check.found for check in can_be_asked(evidence) if not check.passed]
    return Untouched(failed[0] if failed else None, test.clean_accuracy)


def divided_words(model: LanguageModel, pairs: PairSet) -> tuple[DividedWord, ...]:
    """The words that are asked about and have several tokens, the most frequent first."""
    counts = Counter(word for pair in pairs for words in pair.word_sets for word in words if word)
    found = []
    for word, count in counts.most_common():
        try:
            tokens = model.tokens_of(word)
        except PivotalError:
            continue
        if len(tokens) > 1:
            texts = tuple(model.word(token).strip() for token in tokens)
            found.append(DividedWord(word=word, tokens=texts, pairs=count))
    return tuple(found)


def _divided(question: Question, read: PairSet, asked: PairSet) -> tuple[PairSet, PairSet, str]:
    """The pairs that can be asked in the two parts of the split, and why a search on them is refused, if it is."""
    try:
        parts = question.divide(read)  # as a search does, which leaves pairs out after the split
    except PivotalError as error:
        return asked, asked[:0], str(error)
    there = set(asked)
    train, test = (dataclasses.replace(part, pairs=tuple(filter(there.__contains__, part))) for part in parts)
    return train, test, too_few(train, test)


def _seconds(problem: Problem) -> float:
    """The time of the default search, from the time of one update."""
    small, whole = problem.sample(_SMALL), problem.batches(_BATCH)[0]
    seconds = _update_time(small) * max(1.0, whole.tree.n_live / small.tree.n_live)
    if seconds <= _LONG:
        seconds = min(_update_time(whole) for _ in range(3))
    return seconds * _UPDATES


def _update_time(batch: Batch) -> float:
    """The seconds of one update of all units on a batch."""
    device = batch.model.device
    mask = torch.full((1, len(batch.space)), 0.1, device=device, requires_grad=True)
    values = torch.zeros(1, len(batch.labels), batch.space.coordinates, device=device, requires_grad=True)
    # On a CPU the time of this thread, which works in all parts: other processes must not count.
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    started = clock()
    loss = Terms().loss(batch.run(mask, values)).sum()
    loss.backward()
    loss.item()  # waits for a GPU
    return clock() - started
