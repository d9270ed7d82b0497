"""Find the few units of a language model that switch a behaviour, and save them as an intervention.

import pivotal

finding = pivotal.find("wiki-lstm", "number-agreement", max_units=4)
edited = pivotal.load_model("wiki-lstm").intervened(finding.intervention, direction="singular")

What the steps of `find` are made of is in the namespaces `pivotal.questions`, `pivotal.models`, `pivotal.searches`,
`pivotal.evidence`, `pivotal.exports` and `pivotal.units`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# Set before torch is loaded. Waiting threads that spin for long take the cores from other processes and from each
# other: on a busy 2-core machine a search was several times slower. Spinning for some microseconds is enough.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

__version__ = "0.1.0"

_NAMESPACES = ("evidence", "exports", "models", "questions", "searches", "testing", "units")

# The types of these names are in __init__.pyi.
_HOME = {
    name: module
    for module, names in {
        "errors": "PivotalError",
        "evidence.certify": "certify",
        "evidence.evaluation": "Evaluation evaluate",
        "evidence.side_effects": "transfer",
        "evidence.trace": "trace",
        "jobs.find": "Finding",
        "jobs.front_door": "check find",
        "jobs.run_folder": "RunFolder",
        "jobs.runs": "runs",
        "jobs.study.job": "study",
        "models": "list_models load_model",
        "problem.problem": "Problem",
        "questions.pairs": "read_pairs",
        "questions.phenomena": "list_phenomena load_phenomenon",
        "questions.question": "Question",
        "records.intervention": "Intervention",
    }.items()
    for name in names.split()
}

__all__ = ("__version__", *_NAMESPACES, *_HOME)  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that `pivotal --help` does not wait for torch."""
    if name in _NAMESPACES:
        return import_module(f"pivotal.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'pivotal' has no attribute {name!r}")
    value = getattr(import_module(f"pivotal.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
