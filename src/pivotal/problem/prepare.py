"""Make the model and the problem of a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.models import LanguageModel, list_models, load_model
from pivotal.problem.kept import KeptSentences, Stay
from pivotal.problem.problem import Problem
from pivotal.problem.text import with_unknown
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question, names_of
from pivotal.records.run import Progress

FEWEST = 2
"""The fewest different prefixes in each part of a split."""


def model_of(
    question: Question, device: str | None = None, batch_nodes: int | None = None, *, download: bool = True
) -> LanguageModel:
    """The model of a question, loaded with the question's priming and number format."""
    return load_model(
        question.model,
        device=device,
        dtype=question.dtype,
        priming=question.priming,
        batch_nodes=batch_nodes,
        download=download,
    )


def checked_model(question: Question, model: LanguageModel) -> LanguageModel:
    """A model that somebody loaded for a question. Raises PivotalError if it is another than the question states.

    The number format and the priming are compared if the question states them and the model can tell. The names are
    compared if both are among `pivotal list models`. A path or a name of your own may stand for any model.
    """
    if _are_two_listed(question.model, model.name):
        raise PivotalError(
            f"The question names the model {question.model}, but the model that was given is {model.name}. Give that "
            f"model, or name {model.name} in the question.",
            "model",
        )
    if question.priming is not None and not model.vocabulary.is_priming(question.priming):
        cure = f"Load it with priming={question.priming!r}."
        raise PivotalError(f"{model.name} was loaded with another priming. {cure}", "priming")
    dtype = str(model.dtype).removeprefix("torch.")
    if question.dtype is not None and model.dtype is not None and dtype != question.dtype:
        cure = f"Load it with dtype={question.dtype!r}."
        raise PivotalError(f"{model.name} was loaded in {dtype}, not as the question says. {cure}", "dtype")
    return model


def _are_two_listed(one: str, other: str) -> bool:
    """Whether two names are those of different models that can be loaded by name. A path is no such name."""
    return one != other and not Path(one).exists() and {one, other} <= {name for name, _ in list_models()}


def problem_of(
    question: Question,
    model: LanguageModel,
    pairs: PairSet,
    report: Callable[[Progress], None] = lambda _: None,
) -> Problem:
    """The problem of asking `model` these pairs, as the question says. `report` receives the progress of fits."""
    return Problem(
        model,
        pairs,
        sites=question.sites,
        steps=question.steps,
        values=question.values,
        objective=question.objective,
        report=report,
    )


def training_problem(
    question: Question,
    model: LanguageModel,
    pairs: PairSet,
    stays: Sequence[Stay] | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Problem:
    """The problem that a search solves: these pairs, and what must stay. `stays` is given if it was read already."""
    stays = stays_of(question, model) if stays is None else stays
    kept = KeptSentences.of(model, stays, question.steps) if stays else None
    return problem_of(question, model, pairs, report).keeping(kept)


def too_few(train: PairSet, test: PairSet) -> str:
    """Why these pairs are too few to show anything; empty if they are not."""
    absent = set(names_of(train.name)).difference(train.groups, test.groups) if train.joint else set()
    if absent:
        return (
            "A search for several questions needs pairs of each, but the model can score none of "
            f"{' and '.join(sorted(absent))}. Leave that question out."
        )
    learned, held_out = (len({pair.prefix for pair in part}) for part in (train, test))
    if min(learned, held_out) >= FEWEST:
        return ""
    return (
        f"A search needs at least {FEWEST} different prefixes to learn from and {FEWEST} held out, but the "
        f"pairs that the model can score have {learned} and {held_out}. Add pairs with other prefixes, or set the "
        "number of held-out pairs with --test."
    )


def as_read(question: Question, model: LanguageModel, pairs: PairSet) -> PairSet:
    """The pairs as the question wants the model to read them: with `unknown="unk"`, unknown words are `<unk>`."""
    return with_unknown(model, pairs) if question.unknown == "unk" else pairs


def stays_of(question: Question, model: LanguageModel) -> list[Stay]:
    """What must stay. Other questions are read as this one is: in lower case, with `<unk>` for unknown words."""

    def read(name: str) -> PairSet:
        other = replace(question, phenomenon=name, labels="", keep="", test=None)
        return as_read(other, model, other.load_pairs())

    return [Stay.of(name, read) for name in names_of(question.keep)] if question.keep.strip() else []
