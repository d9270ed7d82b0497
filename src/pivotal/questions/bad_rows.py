"""Rows of a file that cannot be read: refused one by one, or left out and listed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pivotal.errors import PivotalError

SKIP = " --skip-bad leaves such rows out."
"""The end of a message about a row that the user may not want to correct."""
_LISTED = 5
"""The most bad rows that a note lists."""


class BadRows:
    """Collects the errors of rows if `skip` is set. Otherwise the first error is raised."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self.errors: list[str] = []

    @contextmanager
    def row(self) -> Iterator[None]:
        """A block that reads one row."""
        try:
            yield
        except PivotalError as error:
            if not self._skip:
                raise
            self.errors.append(str(error).removesuffix(SKIP))

    def first(self) -> str:
        """The first error, to append to a message; empty if there is none."""
        if not self.errors:
            return ""
        which = "The bad row" if len(self.errors) == 1 else f"The first of {len(self.errors):,} bad rows"
        return f" {which}: {self.errors[0]}"

    def notes(self) -> tuple[str, ...]:
        """The rows that were left out."""
        if not self.errors:
            return ()
        count = "1 bad row" if len(self.errors) == 1 else f"{len(self.errors):,} bad rows"
        more = len(self.errors) - _LISTED
        listed = "; ".join(error.rstrip(".") for error in sorted(self.errors, key=_line)[:_LISTED])
        return (f"Left out {count}: {listed}{f'; and {more:,} more' if more > 0 else ''}.",)


def _line(error: str) -> int:
    """The line that an error names. A reader may find errors in another order."""
    found = re.search(r"\bline (\d+)", error)
    return int(found[1]) if found else 0
