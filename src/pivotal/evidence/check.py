"""Check a question before a search: what can be asked, what the model knows, and how long a search would take."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import torch

from pivotal.errors import PivotalError
from pivotal.evidence.checks.swap import cue_swap
from pivotal.evidence.knowledge import knowledge_of, warnings_of
from pivotal.evidence.overlap import overlap_of
from pivotal.evidence.verdict import both_directions, known, likely_words
from pivotal.models.base import LanguageModel
from pivotal.problem.examples import askable
from pivotal.problem.objective import Terms
from pivotal.problem.prepare import as_read, model_of, problem_of
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.records.check import CheckReport, DividedWord
from pivotal.records.evidence import Evidence
from pivotal.records.serial import replace
from pivotal.records.summary import Rejections

_SAMPLE, _FEWEST, _UNIT_PAIRS = 2000, 100, 10_000_000
"""The most and the fewest pairs that the model is asked by default, and the most pairs times units."""
_PREFIXES = 64
"""The most prefixes on which probability and rank of the words are measured: each needs the whole vocabulary."""
_BATCH, _SMALL = 64, 16
"""The number of prefixes of one update of the default search, and of the update that is timed first."""
_LONG = 0.5
"""An update that takes more seconds than this is not timed in full: its time is that of the small one, scaled up."""
_UPDATES = 450
"""The time of the default search in updates of such a batch. It has 160 updates; choosing units, removing them one by
one and refitting values takes the rest (from the node evaluations of number agreement in the bundled LSTM)."""


def check(
    question: Question,
    model: LanguageModel | None = None,
    pairs: PairSet | None = None,
    *,
    most: int | None = None,
) -> CheckReport:
    """Check a question before a search: what can be asked, what the model knows, and what the split shares.

    `model` is the question's model, if it is already loaded. `pairs` replace the pairs of the question.
    All pairs are read and divided into tokens. The model runs on a random sample of at most `most` of them; 0 takes
    all. By default these are 2,000 pairs, and fewer in a model with more than 5,000 units, down to 100.
    """
    model = model or model_of(question)
    if most is None:
        most = min(_SAMPLE, max(_FEWEST, _UNIT_PAIRS // len(model.unit_space("all"))))
    read = as_read(question, model, question.load_pairs() if pairs is None else pairs)
    asked, rejected = askable(model, read, question.steps)
    found = CheckReport(
        model=model.name,
        phenomenon=read.name,
        steps=question.steps,
        labels=read.labels,
        pairs=len(read),
        asked=len(asked),
        notes=read.notes,
        rejected=Rejections(total=rejected.total, reasons=dict(rejected.reasons.most_common())),
        left_out=dict(rejected.left_out.most_common()),
    )
    try:
        problem = problem_of(question, model, asked.sample(most) if 0 < most < len(asked) else asked or read)
    except PivotalError as error:
        return replace(found, asked=0, reason=str(error))
    knowledge = knowledge_of(problem, _PREFIXES)
    train, test, told = _divided(question, asked)
    return replace(
        found,
        sampled=len(problem) if len(problem) < len(asked) else None,
        divided=divided_words(model, asked),
        knowledge=knowledge,
        train=len(train),
        test=len(test),
        overlap=overlap_of(train, test) if len(test) else None,
        seconds=_seconds(problem),
        warnings=(*warnings_of(knowledge), *told),
    )


@dataclass(frozen=True)
class Lacking:
    """Why a search would show nothing."""

    reason: str
    accuracy: float | None = None
    """Of the untouched model on the held-out pairs, if they can be asked."""


def what_is_lacking(question: Question, model: LanguageModel) -> Lacking | None:
    """What the verdict would object to before any search; None if the model knows the phenomenon in both directions."""
    read = as_read(question, model, question.load_pairs())
    asked, rejected = askable(model, read, question.steps)
    if not len(asked):
        return Lacking(f"None of the {len(read):,} pairs can be asked: {rejected.describe()}.")
    try:
        test = problem_of(question, model, question.divide(read)[1])
    except PivotalError as error:
        return Lacking(str(error))
    knowledge = knowledge_of(test)
    evidence = Evidence(knowledge=knowledge, swap=cue_swap(test))
    checks = (known(evidence), both_directions(knowledge), likely_words(knowledge))
    failed = [check.found for check in checks if not check.passed]
    return Lacking(failed[0], test.clean_accuracy) if failed else None


def divided_words(model: LanguageModel, pairs: PairSet) -> tuple[DividedWord, ...]:
    """The words that are asked about and have several tokens, the most frequent first."""
    counts = Counter(word for pair in pairs for words in pair.word_sets for word in words)
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


def _divided(question: Question, pairs: PairSet) -> tuple[PairSet, PairSet, tuple[str, ...]]:
    """The two parts of the split. A set that cannot be split is a warning."""
    try:
        train, test = question.divide(pairs)
    except PivotalError as error:
        return pairs, pairs[:0], (str(error),)
    return train, test, ()


def _seconds(problem: Problem) -> float:
    """The time of the default search, from the time of one update."""
    small, whole = problem.sample(_SMALL), problem.batches(_BATCH)[0]
    seconds = _update_time(small) * max(1.0, whole.tree.n_live / small.tree.n_live)
    if seconds <= _LONG:
        seconds = min(_update_time(whole), _update_time(whole))
    return seconds * _UPDATES


def _update_time(batch: Problem) -> float:
    """The seconds of one update of all units on a batch."""
    device = batch.model.device
    mask = torch.full((1, len(batch.space)), 0.1, device=device, requires_grad=True)
    values = torch.zeros(1, len(batch.labels), batch.space.coordinates, device=device, requires_grad=True)
    started = time.perf_counter()
    loss = Terms().loss(batch.run(mask, values)).sum()
    loss.backward()
    loss.item()  # waits for a GPU
    return time.perf_counter() - started
