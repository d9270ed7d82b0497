"""Batches of a problem in one shape, so that one recording can be replayed for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pivotal.models.padded_trees import Padded, Shape
from pivotal.models.replay import Buffers
from pivotal.problem.batch import Batch, FixedTensors
from pivotal.problem.word_index import WordIndex


class Unfit(Exception):
    """Why a batch does not have the shape of the others."""


class FixedBatches:
    """Batches whose trees and examples are padded to one shape.

    `load` copies the tensors of a batch into buffers, and the runs of `anew()` read the buffers.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches
        self._saved: dict[int, dict[torch.dtype, Tensor]] = {}
        """The content of the buffers for each batch that was loaded."""
        self._buffers: Buffers[FixedTensors] | None = None
        self._abandoned: str | None = None

    @cached_property
    def shape(self) -> Shape:
        """The shape of the trees."""
        return Shape.of([batch.tree for batch in self._batches])

    @cached_property
    def _leaves(self) -> int:
        """The number of distinct leaves."""
        return max(len(np.unique(batch.examples.leaves)) for batch in self._batches)

    @cached_property
    def _examples(self) -> int:
        """The number of examples. Each leaf that a batch lacks needs one more."""
        return max(
            len(batch) + self._leaves - len(np.unique(batch.examples.leaves)) for batch in self._batches
        )

    def obstacle(self, runs: int) -> str | None:
        """Why the batches cannot be run in one shape with so many runs; None if nothing is known to prevent it."""
        batch = self._batches[0]
        if self._abandoned is not None:
            return self._abandoned
        if batch.values == "interchange" or batch.objective == "counterfactual":
            return "the states of counterfactual prefixes differ from batch to batch"
        if batch.examples.kept:
            return "the kept questions differ from batch to batch"
        if len({len(tokens) for tokens in batch.examples.sets}) > 1:
            return "the words to compare differ in their number of tokens"
        if any(site.basis for site in batch.space.sites):
            return "which coordinates of a basis are edited is looked up in every pass"
        if batch.model.fixed(batch.model.prepare(self.shape.pad(batch.tree).tree), runs) is None:
            return f"{type(batch.model).__name__} runs these trees in parts, or in no fixed shape"
        return None

    def abandon(self, reason: str) -> None:
        """Free what was saved for each batch. New passes over these batches do not run in one shape again."""
        self._abandoned = reason
        self._saved.clear()

    def load(self, number: int) -> None:
        """Copy the tensors of a batch into the buffers. Raise Unfit if its shape differs from those before."""
        if number not in self._saved:
            made = self._tensors(self._batches[number])
            if self._buffers is None:
                self._buffers = Buffers(made)
            elif not self._buffers.fits(made):
                raise Unfit("the tensors of two batches differ in their shapes")
            self._buffers.fill(made)
            self._saved[number] = self._buffers.save()
        assert self._buffers is not None
        self._buffers.load(self._saved[number])

    def anew(self) -> Batch:
        """A batch whose runs read the buffers, without what earlier passes cached. One must have been loaded."""
        assert self._buffers is not None
        return self._batches[0].like(self._batches[0].examples, self._buffers.data)

    @property
    def rows(self) -> Int[Tensor, " live"]:
        """The rows of the batch's live nodes."""
        assert self._buffers is not None
        return self._buffers.data.rows

    @torch.no_grad()
    def _tensors(self, batch: Batch) -> FixedTensors:
        padded = self.shape.pad(batch.tree)
        model, tree = batch.model, padded.tree
        prepared = model.fixed(model.prepare(tree), 1)  # `obstacle` has checked the real number of runs
        if prepared is None:
            raise Unfit(f"{type(model).__name__} runs this tree in parts, or in no fixed shape")
        rows = torch.zeros(tree.n_live, dtype=torch.int64, device=model.device)
        own_rows = rows[: batch.tree.n_live]
        own_rows.copy_(torch.as_tensor(tree.live_row[padded.node[batch.tree.live]]))
        untouched = batch.tensors.clean
        clean = untouched.new_zeros(tree.n_live, untouched.shape[1])
        clean[own_rows] = untouched
        weight, own = np.zeros(self._examples, dtype=np.float32), batch.examples.weight
        weight[: len(batch)] = 1 / len(batch) if own is None else own
        return FixedTensors(
            prepared,
            self._index(batch, padded),
            torch.as_tensor(weight, device=model.device),
            torch.tensor(batch.positions.live_share, device=model.device),
            clean,
            rows,
        )

    def _index(self, batch: Batch, padded: Padded) -> WordIndex:
        """The words of the examples. An added example has the words of the first one, at a leaf of its own while
        there are too few leaves."""
        examples, tree = batch.examples, padded.tree
        own = tree.live_row[tree.leaf[: len(batch)]]
        distinct = np.unique(own)
        others = np.setdiff1d(np.arange(tree.n_live), distinct)[: self._leaves - len(distinct)]
        again = np.full(self._examples - len(batch) - len(others), own[0])
        more = len(others) + len(again)
        first, second = (
            np.pad(side, (0, more), constant_values=side[0]) for side in examples.preferred_and_target
        )
        rows = np.concatenate([own, others, again])
        return WordIndex.of(rows, examples.sets, first, second, batch.model.device, all_sets=True)
