"""Text for a terminal, a log or a page: control characters are shown, and an output that fails costs no run."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys or cannot print: everything but the new line and the tabulator. The last ranges are line
separators, changes of direction, and halves of characters."""


def visible(text: str) -> str:
    r"""The text with control characters as escapes, such as \x1b. A card or a run of somebody else could otherwise
    rewrite what the terminal shows, or send commands to it."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print a line to stderr. If stderr is full or closed, the line is lost, but not the run that prints it."""
    with suppress(OSError, ValueError):
        print(visible(text), file=sys.stderr, flush=True)


def error_console() -> Console:
    """The console on stderr. What cannot be written is lost: a full log must not stop a run."""
    from rich.console import Console

    return Console(file=cast("IO[str]", _Forgiving(sys.stderr)), highlight=False)


class _Forgiving:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_LEAST = 1e-6
"""The least probability that is shown as a number."""


def chance(p: float) -> str:
    """A probability in percent with two significant digits, never in scientific notation."""
    if p >= 0.0995:
        return f"{100 * p:.0f}%"
    if p < _LEAST:
        return f"<{100 * _LEAST:.4f}%" if p else "0%"
    return f"{float(f'{100 * p:.2g}'):.6f}".rstrip("0").rstrip(".") + "%"


def duration(seconds: float) -> str:
    """A time in the unit that suits it: 41 s, 6.2 minutes, 3.5 hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 120 * 60 else f"{seconds / 3600:.1f} hours"


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 pair, 1,300 pairs, 2 phenomena."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
