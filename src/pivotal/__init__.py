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
    from pivotal.certificate import Certificate, Effort
    from pivotal.errors import PivotalError
    from pivotal.evaluation import Evaluation, evaluate
    from pivotal.examination import certify
    from pivotal.intervention import Intervention
    from pivotal.models import LanguageModel, list_models, load_model
    from pivotal.models._hf.lm import TransformersLM
    from pivotal.models.module import ModuleLM
    from pivotal.models.recurrent import RecurrentLM
    from pivotal.pairs import MinimalPair, PairSet, read_pairs
    from pivotal.phenomena import load_phenomenon
    from pivotal.problem import Problem
    from pivotal.runs import RunFolder
    from pivotal.searches import Discovery, Search
    from pivotal.searches.learned import LearnedMask
    from pivotal.traces import Trace
    from pivotal.tracing import trace
    from pivotal.units import Site, Unit, UnitSpace

_HOME = {
    "Certificate": "certificate",
    "Discovery": "searches",
    "Effort": "certificate",
    "Evaluation": "evaluation",
    "Intervention": "intervention",
    "LanguageModel": "models",
    "LearnedMask": "searches.learned",
    "MinimalPair": "pairs",
    "ModuleLM": "models.module",
    "PairSet": "pairs",
    "PivotalError": "errors",
    "Problem": "problem",
    "RecurrentLM": "models.recurrent",
    "RunFolder": "runs",
    "Search": "searches",
    "Site": "units",
    "Trace": "traces",
    "TransformersLM": "models._hf.lm",
    "Unit": "units",
    "UnitSpace": "units",
    "certify": "examination",
    "evaluate": "evaluation",
    "list_models": "models",
    "load_model": "models",
    "load_phenomenon": "phenomena",
    "read_pairs": "pairs",
    "trace": "tracing",
}

__all__ = [
    "Certificate",
    "Discovery",
    "Effort",
    "Evaluation",
    "Intervention",
    "LanguageModel",
    "LearnedMask",
    "MinimalPair",
    "ModuleLM",
    "PairSet",
    "PivotalError",
    "Problem",
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
