"""The positions of sentences at which KL is measured, and their weights in its mean."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.tree import PrefixTree
from pivotal.problem.examples import Examples


class Positions:
    """The live nodes of a prefix tree. A live node is at or after an edit, so that its predictions can change."""

    def __init__(self, examples: Examples, device: torch.device) -> None:
        self._tree: PrefixTree = examples.tree
        self._own = np.arange(len(self._tree.leaf)) < len(examples.pairs)
        self._text = [one.places for one in examples.kept if one.words is None]
        self._device = device

    @cached_property
    def weight(self) -> Float[Tensor, " live"]:
        """The weight of each live node in the mean over sentences of the mean over positions. The positions before the
        edit, including the first word, have zero KL and no weight here, so the sum is less than 1. If text must stay,
        its lines have all the weight, in equal parts."""
        return self._weight_here.to(self._device)

    @cached_property
    def weighted(self) -> Int[Tensor, " nodes"] | None:
        """The live nodes that have a weight; None for all."""
        nodes = self.weight.nonzero()[:, 0]
        return None if len(nodes) == len(self.weight) else nodes

    @cached_property
    def after_edit(self) -> Float[Tensor, " live"]:
        """Like `weight`, for the positions from the first edit. These weights sum to 1."""
        tree = self._tree
        each = tree.spread(self._own / tree.live_steps()[tree.leaf] / self._own.sum())
        return self._live(each).to(self._device)

    @cached_property
    def live_share(self) -> float:
        """The share of positions at which an edit can have an effect."""
        return float(self._weight_here.sum())

    @cached_property
    def _weight_here(self) -> Float[Tensor, " live"]:
        """The weights on the CPU. Drawing from weights on a GPU would make every update wait for the GPU."""
        tree = self._tree
        if self._text:
            weight = np.zeros(len(tree.token))
            for places in self._text:
                np.add.at(weight, tree.leaf[places], 1 / len(places) / len(self._text))
        else:
            weight = tree.spread(self._own / (tree.lengths + 1) / self._own.sum())
        return self._live(weight)

    def draw(self, n: int, noise: torch.Generator) -> Int[Tensor, " nodes"]:
        """Random live nodes, drawn in proportion to `weight`."""
        drawn = torch.multinomial(self._weight_here, n, replacement=True, generator=noise)
        return drawn.to(self._device, non_blocking=True)

    def _live(self, per_node: np.ndarray) -> Float[Tensor, " live"]:
        return torch.as_tensor(per_node[self._tree.live], dtype=torch.float32)
