"""The CPU seconds of functions, for the benchmarks that say where the time goes."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

spent: dict[str, float] = defaultdict(float)
calls: Counter[str] = Counter()


def timed(owner: Any, name: str, label: str) -> None:
    """Count the calls and the CPU seconds of a function of a module, or of a method of a class."""
    function = getattr(owner, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[label] += time.process_time() - started
            calls[label] += 1

    setattr(owner, name, run)
