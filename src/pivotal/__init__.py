"""Find the few units of a language model that decide a phenomenon, and save them as an intervention.

import pivotal as pv
model = pv.load_model("wiki-lstm")
train, test = pv.load_phenomenon("number-agreement").split(test=1000, seed=0)
problem = pv.Problem(model, train, steps="every")
found = pv.Exchange(max_units=4).solve(problem, runs=3, seed=0)
scores = pv.evaluate(found.best, problem.on(test))
"""

from __future__ import annotations

import os
from typing import Any

# Set before torch is loaded. Waiting threads that spin for long take the cores from other processes and from each
# other: on a busy 2-core machine a search was several times slower. Spinning for some microseconds is enough.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

__version__ = "0.1.0"

# The types of these names are in __init__.pyi.
_HOME = {
    name: module
    for module, names in {
        "errors": "PivotalError",
        "evidence.certify": "certify",
        "evidence.check": "check",
        "evidence.evaluation": "Evaluation evaluate",
        "evidence.trace": "trace",
        "jobs.find": "Finding",
        "jobs.front_door": "find",
        "jobs.run_folder": "RunFolder runs",
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
        "searches.attribution": "Attribution",
        "searches.exchange": "Exchange",
        "searches.greedy": "Greedy",
        "searches.learned": "LearnedMask",
        "searches.reinforce": "Reinforce",
        "units": "Site Unit UnitSpace",
    }.items()
    for name in names.split()
}

__all__ = ("__version__", *_HOME)  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that `pivotal --help` does not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pivotal' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"pivotal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
