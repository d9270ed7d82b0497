"""Find the few units of a language model that decide a phenomenon, and save them as an intervention.

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
    from pivotal.errors import PivotalError as PivotalError
    from pivotal.evidence.certify import certify as certify
    from pivotal.evidence.check import check as check
    from pivotal.evidence.evaluation import Evaluation as Evaluation
    from pivotal.evidence.evaluation import evaluate as evaluate
    from pivotal.evidence.trace import trace as trace
    from pivotal.jobs.find import Finding as Finding
    from pivotal.jobs.find import find as find
    from pivotal.jobs.run_folder import RunFolder as RunFolder
    from pivotal.models import LanguageModel as LanguageModel
    from pivotal.models import list_models as list_models
    from pivotal.models import load_model as load_model
    from pivotal.models.intervened import IntervenedModel as IntervenedModel
    from pivotal.models.module import ModuleLM as ModuleLM
    from pivotal.models.recurrent.lm import RecurrentLM as RecurrentLM
    from pivotal.models.transformers.lm import TransformersLM as TransformersLM
    from pivotal.problem.problem import Problem as Problem
    from pivotal.questions.minimal_pair import MinimalPair as MinimalPair
    from pivotal.questions.pairs import PairSet as PairSet
    from pivotal.questions.pairs import read_pairs as read_pairs
    from pivotal.questions.phenomena import load_phenomenon as load_phenomenon
    from pivotal.questions.question import Question as Question
    from pivotal.records.certificate import Certificate as Certificate
    from pivotal.records.certificate import Effort as Effort
    from pivotal.records.check import CheckReport as CheckReport
    from pivotal.records.intervention import Intervention as Intervention
    from pivotal.records.traces import Trace as Trace
    from pivotal.searches import Discovery as Discovery
    from pivotal.searches import Progress as Progress
    from pivotal.searches import Search as Search
    from pivotal.searches.ablation import Ablation as Ablation
    from pivotal.searches.attribution import Attribution as Attribution
    from pivotal.searches.exchange import Exchange as Exchange
    from pivotal.searches.greedy import Greedy as Greedy
    from pivotal.searches.learned import LearnedMask as LearnedMask
    from pivotal.searches.random import RandomUnits as RandomUnits
    from pivotal.searches.reinforce import Reinforce as Reinforce
    from pivotal.units import Site as Site
    from pivotal.units import Unit as Unit
    from pivotal.units import UnitSpace as UnitSpace

_HOME = {
    name: module
    for module, names in {
        "errors": "PivotalError",
        "evidence.certify": "certify",
        "evidence.check": "check",
        "evidence.evaluation": "Evaluation evaluate",
        "evidence.trace": "trace",
        "jobs.find": "Finding find",
        "jobs.run_folder": "RunFolder",
        "models": "LanguageModel list_models load_model",
        "models.intervened": "IntervenedModel",
        "models.module": "ModuleLM",
        "models.recurrent.lm": "RecurrentLM",
        "models.transformers.lm": "TransformersLM",
        "problem.problem": "Problem",
        "questions.minimal_pair": "MinimalPair",
        "questions.pairs": "PairSet read_pairs",
        "questions.phenomena": "load_phenomenon",
        "questions.question": "Question",
        "records.certificate": "Certificate Effort",
        "records.check": "CheckReport",
        "records.intervention": "Intervention",
        "records.traces": "Trace",
        "searches": "Discovery Progress Search",
        "searches.ablation": "Ablation",
        "searches.attribution": "Attribution",
        "searches.exchange": "Exchange",
        "searches.greedy": "Greedy",
        "searches.learned": "LearnedMask",
        "searches.random": "RandomUnits",
        "searches.reinforce": "Reinforce",
        "units": "Site Unit UnitSpace",
    }.items()
    for name in names.split()
}

__all__ = sorted([*_HOME, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that `pivotal --help` does not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pivotal' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"pivotal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
