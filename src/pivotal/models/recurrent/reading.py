"""Texts that a recurrent model continues step by step from its last states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.reading import Reading


@dataclass(frozen=True, slots=True)
class LayerState:
    """h and c of some nodes. The number of runs is 1 until an edit makes the runs differ."""

    h: Float[Tensor, "nodes _ hidden"]
    c: Float[Tensor, "nodes _ hidden"] | None

    def repeated(self, times: int) -> LayerState:
        """The state of one node, for several texts that continue from it."""
        c = None if self.c is None else self.c.repeat(times, 1, 1)
        return LayerState(self.h.repeat(times, 1, 1), c)


class RecurrentReading(Reading):
    """Keeps h and c of every layer, which are all that the next step needs."""

    def __init__(
        self, layers: list[LayerState], advance: Callable[[Tensor, list[LayerState]], list[LayerState]]
    ) -> None:
        """`advance` takes the next token of each text and the states of the layers, and returns their new states."""
        self._layers, self._advance = layers, advance
        self.states = layers[-1].h[:, 0]

    def read(self, tokens: Int[Tensor, " texts"]) -> None:
        self._layers = self._advance(tokens, self._layers)
        self.states = self._layers[-1].h[:, 0]
