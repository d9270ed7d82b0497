"""Make the model and the problem of a question."""

from __future__ import annotations

from dataclasses import replace

from pivotal.models import LanguageModel, load_model
from pivotal.problem.kept import KeptSentences, Stay
from pivotal.problem.problem import Problem
from pivotal.problem.unknown import with_unknown
from pivotal.questions.joint import names_of
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question


def model_of(
    question: Question,
    device: str | None = None,
    batch_nodes: int | None = None,
    *,
    download: bool = True,
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


def problem_of(question: Question, model: LanguageModel, pairs: PairSet) -> Problem:
    """The problem of asking `model` these pairs, at the question's sites and steps and within its values."""
    return Problem(model, pairs, sites=question.sites, steps=question.steps, values=question.values)


def training_problem(question: Question, model: LanguageModel, pairs: PairSet) -> Problem:
    """The problem that a search solves: these pairs, and what must stay."""
    stays = stays_of(question, model)
    kept = KeptSentences.of(model, stays, question.steps) if stays else None
    return problem_of(question, model, pairs).keeping(kept)


def as_read(question: Question, model: LanguageModel, pairs: PairSet) -> PairSet:
    """The pairs as the question wants the model to read them: with `unknown="unk"`, unknown words are `<unk>`."""
    return with_unknown(model, pairs) if question.unknown == "unk" else pairs


def stays_of(question: Question, model: LanguageModel) -> list[Stay]:
    """What must stay. Other questions are read as this one is: in lower case, with `<unk>` for unknown words."""

    def read(name: str) -> PairSet:
        other = replace(question, phenomenon=name, labels="", keep="")
        return as_read(other, model, other.load_pairs())

    return [Stay.of(name, read) for name in names_of(question.keep)] if question.keep.strip() else []
