"""The CPU seconds of functions, for the benchmarks that say where the time goes."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

spent: dict[str, float] = defaultdict(float)
calls: Counter[str] = Counter()


def timed(
    owner: Any,
    name: str,
    label: str,
    meter: Callable[[], float] = time.process_time,
    into: dict[str, float] = spent,
) -> None:
    """Count the calls of a function of a module, or of a method of a class, and what a meter shows more after each:
    by default CPU seconds."""
    function = getattr(owner, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        started = meter()
        try:
            return function(*args, **kwargs)
        finally:
            into[label] += meter() - started
            calls[label] += 1

    setattr(owner, name, run)
