"""The command line as the user typed it. run.json stores it, so that the run can be reproduced."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

_ARGUMENTS: ContextVar[tuple[str, ...]] = ContextVar("arguments", default=())


def remember(arguments: Sequence[str]) -> None:
    _ARGUMENTS.set(tuple(arguments))


def command() -> str:
    return shlex.join(["pivotal", *_ARGUMENTS.get()])
