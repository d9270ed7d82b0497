"""The command line as it was typed; run.json keeps it, so that a run can be repeated."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

_ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


def remember(arguments: Sequence[str]) -> None:
    _ARGUMENTS.set(tuple(arguments))


def command() -> str:
    return shlex.join(["pivotal", *_ARGUMENTS.get()])
