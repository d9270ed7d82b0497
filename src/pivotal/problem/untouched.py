"""The states of the untouched model after every prefix of a question. Its batches, samples and scores share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.models.tree import PrefixTree

_MOST = 2**27
"""The most bytes that are kept, 134 MB. If there are more, each batch computes its states again."""


@dataclass(frozen=True, slots=True)
class UntouchedStates:
    """The states at the nodes of a clean tree. Other trees of the same tokens look their nodes up in it."""

    states: Float[Tensor, "nodes width"]
    _rows: dict[tuple[int, int], int]
    """The row of each node, by the row of its parent (-1 for the root) and its token."""

    @staticmethod
    def of(tree: PrefixTree, states: Float[Tensor, "nodes 1 width"]) -> UntouchedStates | None:
        """Keep the states of a tree in which every node is live; None if they are too many."""
        if states.nbytes > _MOST:
            return None
        links = zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True)
        return UntouchedStates(
            states[:, 0], {(parent - 1, token): row for row, (parent, token) in enumerate(links)}
        )

    def at(self, tree: PrefixTree) -> Float[Tensor, "live width"] | None:
        """The states at the live nodes of a tree; None if it has other prefixes."""
        rows = np.full(len(tree.token), -1)
        for node, (parent, token) in enumerate(
            zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True), start=1
        ):
            row = self._rows.get((int(rows[parent]), token))
            if row is None:
                return None
            rows[node] = row
        return self.states[torch.as_tensor(rows[tree.live], device=self.states.device)]
