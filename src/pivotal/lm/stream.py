"""The text as one stream of word ids, folded into columns that are read in parallel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

_COLUMNS, _TOKENS_PER_COLUMN = 64, 1000


@dataclass(frozen=True)
class Stream:
    """Encoded text on a device, where every sentence ends in <eos>. All seeds share it."""

    ids: Int[Tensor, " tokens"]
    ends: np.ndarray
    """The end of each sentence, exclusive."""

    @staticmethod
    def of(ids: np.ndarray, eos: int, device: torch.device) -> Stream:
        return Stream(torch.from_numpy(ids).to(device), np.flatnonzero(ids == eos) + 1)

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self, batch: int) -> Int[Tensor, "rows batch"]:
        return fold(self.ids, batch)

    def shuffled_columns(self, batch: int, seed: int, epoch: int) -> Int[Tensor, "rows batch"]:
        """With shuffled sentences. Seed and epoch determine the order, so a checkpoint need not store it."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self.ends))
        starts = np.concatenate([[0], self.ends[:-1]])
        lengths = (self.ends - starts)[order]
        moved = starts[order] - (np.cumsum(lengths) - lengths)
        device = self.ids.device
        index = torch.from_numpy(moved).to(device)
        index = torch.repeat_interleave(
            index, torch.from_numpy(lengths).to(device), output_size=len(self.ids)
        )
        return fold(self.ids[index.add_(torch.arange(len(self.ids), device=device))], batch)


def columns_for(tokens: int) -> int:
    """Number of columns for validation. Each starts at the zero state, so columns must not be short."""
    return max(1, min(_COLUMNS, tokens // _TOKENS_PER_COLUMN))


def fold(ids: Int[Tensor, " tokens"], batch: int) -> Int[Tensor, "rows batch"]:
    """Column i is the i-th part of the stream. Tokens at the end that do not fill a row are dropped."""
    rows = len(ids) // batch
    return ids[: rows * batch].view(batch, rows).t().contiguous()
