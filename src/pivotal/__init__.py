"""pivotal finds the few units of a language model that decide a phenomenon, and hands them over.

import pivotal as pv
model = pv.load_model("wiki-lstm")
train, test = pv.load_phenomenon("number-agreement").split(test=1000, seed=0)
problem = pv.Problem(model, train, steps="every")
found = pv.LearnedMask(max_units=4).solve(problem, runs=3, seed=0)
scores = pv.evaluate(found.best, problem.on(test))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pivotal.errors import PivotalError
    from pivotal.evidence.certify import certify
    from pivotal.evidence.evaluation import Evaluation, evaluate
    from pivotal.evidence.trace import trace
    from pivotal.jobs.find import Finding, find
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.models import LanguageModel, list_models, load_model
    from pivotal.models.module import ModuleLM
    from pivotal.models.recurrent.lm import RecurrentLM
    from pivotal.models.transformers.lm import TransformersLM
    from pivotal.problem.problem import Problem
    from pivotal.questions.pairs import MinimalPair, PairSet, read_pairs
    from pivotal.questions.phenomena import load_phenomenon
    from pivotal.questions.question import Question
    from pivotal.records.certificate import Certificate, Effort
    from pivotal.records.intervention import Intervention
    from pivotal.records.traces import Trace
    from pivotal.searches import Discovery, Search
    from pivotal.searches.learned import LearnedMask
    from pivotal.units import Site, Unit, UnitSpace

_HOME = {
    "Certificate": "records.certificate",
    "Discovery": "searches",
    "Effort": "records.certificate",
    "Evaluation": "evidence.evaluation",
    "Finding": "jobs.find",
    "Intervention": "records.intervention",
    "LanguageModel": "models",
    "LearnedMask": "searches.learned",
    "MinimalPair": "questions.pairs",
    "ModuleLM": "models.module",
    "PairSet": "questions.pairs",
    "PivotalError": "errors",
    "Problem": "problem.problem",
    "Question": "questions.question",
    "RecurrentLM": "models.recurrent.lm",
    "RunFolder": "jobs.run_folder",
    "Search": "searches",
    "Site": "units",
    "Trace": "records.traces",
    "TransformersLM": "models.transformers.lm",
    "Unit": "units",
    "UnitSpace": "units",
    "certify": "evidence.certify",
    "evaluate": "evidence.evaluation",
    "find": "jobs.find",
    "list_models": "models",
    "load_model": "models",
    "load_phenomenon": "questions.phenomena",
    "read_pairs": "questions.pairs",
    "trace": "evidence.trace",
}

__all__ = [
    "Certificate",
    "Discovery",
    "Effort",
    "Evaluation",
    "Finding",
    "Intervention",
    "LanguageModel",
    "LearnedMask",
    "MinimalPair",
    "ModuleLM",
    "PairSet",
    "PivotalError",
    "Problem",
    "Question",
    "RecurrentLM",
    "RunFolder",
    "Search",
    "Site",
    "Trace",
    "TransformersLM",
    "Unit",
    "UnitSpace",
    "__version__",
    "certify",
    "evaluate",
    "find",
    "list_models",
    "load_model",
    "load_phenomenon",
    "read_pairs",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Names are imported when first used: `pivotal --help` must not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pivotal' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"pivotal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
