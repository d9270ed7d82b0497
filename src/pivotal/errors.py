"""The one error that bad input raises, and the sentence that helps with a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PivotalError(Exception):
    """Bad input: the message says the rule, the value and the cure.

    `field` names the part of the input that is wrong, so that a reader can add file, line and column.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def in_short(error: BaseException) -> str:
    """The first line of what somebody else's error says, to put into a sentence of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Text to put after an "unknown name" message: the nearest name, if any is near, and all there are."""
    known = sorted(options)
    if not known:
        return " There is none to choose from."
    # Compared in lower case: a wrong capital is a common slip, and difflib counts it as a difference.
    by_lower = {option.lower(): option for option in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    guess = f" Did you mean '{by_lower[near[0]]}'?" if near else ""
    return f"{guess} Available: {', '.join(known)}."
