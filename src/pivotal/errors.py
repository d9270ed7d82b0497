"""The error for invalid input, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral


class PivotalError(Exception):
    """Invalid input. The message states the rule, the value and the remedy.

    `field` names the part of the input that is wrong, so that the reader of a file can add line and column.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def in_short(error: BaseException) -> str:
    """The first line of another library's error, to quote in a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


_LONGEST = 200
"""The longest name that is compared with the known names."""


def check_whole(least: int, most: float = math.inf, /, **given: object) -> None:
    """Raise PivotalError unless these are whole numbers from `least` to `most`."""
    rule = f"{least} or more" if most == math.inf else f"{least} to {most:,}"
    for name, number in given.items():
        if not isinstance(number, Integral) or not least <= int(number) <= most:
            raise PivotalError(f"{name} must be a whole number, {rule}, but it is {number!r}.", name)


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """A hint to append to an "unknown name" message: the closest name, if there is one, and all available names."""
    known = sorted(options)
    if not known:
        return " None is available."
    guess = f" Did you mean '{near}'?" if (near := nearest(str(name), known)) else ""
    return f"{guess} Available: {', '.join(known)}."


def nearest(name: str, options: Iterable[str]) -> str:
    """The name that is spelt most like the given one; empty if none is similar."""
    # Compare in lower case: wrong capitals are common, and difflib counts them as differences.
    by_lower = {option.lower(): option for option in options}
    # Nobody mistypes a name of hundreds of characters, and difflib would take minutes to compare it.
    near = difflib.get_close_matches(name.lower(), by_lower, n=1) if len(name) <= _LONGEST else []
    return by_lower[near[0]] if near else ""
