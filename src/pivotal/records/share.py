"""A share of pairs with its interval."""

from __future__ import annotations

from pivotal.records.serial import Number, Record


class Share(Record, frozen=True):
    """A share of pairs with its 95% interval, for which the prefixes are the independent observations."""

    value: Number
    low: Number
    high: Number
    n: int
    """The number of pairs."""

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"
