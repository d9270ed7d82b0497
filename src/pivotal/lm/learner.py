"""One seed in training: network, optimiser, random numbers and position in the text, which is one stream of ids."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pivotal.lm.network import Network, State
from pivotal.lm.recipes import Settings
from pivotal.models.replay import Replay

_COLUMNS, _TOKENS_PER_COLUMN, _BPTT = 64, 1000, 70
"""For validation: the most columns, the fewest tokens of each, and the steps that are read at once."""


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


def perplexity_at(nats: float) -> float:
    """exp of a mean loss. A model that has diverged still has a number."""
    return math.exp(min(nats, 700))


def fold(ids: Int[Tensor, " tokens"], batch: int) -> Int[Tensor, "rows batch"]:
    """Column i is the i-th part of the stream. Tokens at the end that do not fill a row are dropped."""
    rows = len(ids) // batch
    return ids[: rows * batch].view(batch, rows).t().contiguous()


class SeedLearner:
    """Trains one seed. The result depends on the settings, the text and the seed, not on the other seeds.

    On a GPU an update is recorded once as a CUDA graph and then replayed: the kernels of a small batch take less time
    than their launches. It therefore reads and writes tensors that stay at their addresses.
    """

    def __init__(
        self, settings: Settings, words: int, stream: Stream, seed: int, device: torch.device
    ) -> None:
        self.settings, self.seed, self.device = settings, seed, device
        self._stream = stream
        self.network = Network(settings, words)
        self.network.initialise(seed)
        self.network.place(device)
        self.network.random.manual_seed(seed)
        parameters, accelerated = list(self.network.parameters()), device.type == "cuda"
        self._rate = torch.full((), float(settings.rate), device=device)
        self._optimizer: torch.optim.Optimizer
        if settings.optimizer == "sgd":
            self._optimizer = torch.optim.SGD(parameters, lr=self._rate, fused=True)
        else:
            decay = settings.weight_decay
            self._optimizer = torch.optim.AdamW(
                parameters, lr=self._rate, weight_decay=decay, fused=True, capturable=accelerated
            )
        self._scale = GradientScale(device, dynamic=settings.precision == "fp16")
        # A small network leaves most of a GPU idle. With one stream per seed, several seeds share it.
        self._queue = torch.cuda.Stream(device) if accelerated else None
        self._replay = Replay(device if accelerated else None, self.network.random)
        self.epoch = self.row = 0
        self._columns: Tensor | None = None
        self._read = torch.zeros(settings.bptt + 1, settings.batch, dtype=stream.ids.dtype, device=device)
        self._state: State = self.network.start(settings.batch)
        self._loss_sum = torch.zeros((), device=device)
        self.best = math.inf
        self._best_weights: list[Tensor] = []
        self.plateau_rate = settings.rate
        self._follow()

    # -- learning -----------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Number of tokens in the text."""
        return len(self._stream)

    @property
    def rows(self) -> int:
        return len(self._stream) // self.settings.batch

    @property
    def epoch_done(self) -> bool:
        return self.row >= self.rows - 1

    def step(self, rate: float) -> int:
        """Make one update and return the number of rows read. Does not wait for the device."""
        with self._queued():
            if self._columns is None and self.settings.shuffle:
                self._columns = self._stream.shuffled_columns(self.settings.batch, self.seed, self.epoch)
            elif self._columns is None:
                self._columns = fold(self._stream.ids, self.settings.batch)
            rows = min(self.settings.bptt, self.rows - 1 - self.row)
            self._read[: rows + 1] = self._columns[self.row : self.row + rows + 1]
            self._rate.fill_(rate)
            self.network.train()
            if rows == self.settings.bptt:
                self._replay.or_run(self._update)
            else:
                self._update(rows)
            self.row += rows
        return rows

    def _update(self, rows: int | None = None) -> None:
        """Learn from the first `rows` rows of what was read last, or from all."""
        read = self._read if rows is None else self._read[: rows + 1]
        self.network.refresh()
        loss, state = self.network.loss(read[:-1], read[1:], self._state)
        self._optimizer.zero_grad()
        (loss * self._scale.value).backward()
        self.network.collect()
        self._scale.step(self._optimizer, self.settings.clip)
        for kept, part in zip(self._state, state, strict=True):
            kept.copy_(part.detach())
        self._loss_sum += loss.detach() * (len(read) - 1)

    def next_epoch(self) -> None:
        self.epoch, self.row, self._columns = self.epoch + 1, 0, None
        with self._queued():
            for part in self._state:
                part.zero_()

    def take_loss(self) -> float:
        """The sum of the losses since the last call, weighted by their rows. Waits for the device."""
        with self._queued():
            total = float(self._loss_sum)
            self._loss_sum.zero_()
        return total

    def loss_on(self, ids: Tensor) -> float:
        """Mean loss on the stream of `ids`. Changes nothing in the training; waits for the device."""
        with self._queued():
            self.network.refresh()
            return stream_loss(self.network, ids)

    def validate(self, ids: Tensor) -> float:
        """The loss at the end of an epoch. Keeps the best weights so far, and lowers the rate on a plateau."""
        loss = self.loss_on(ids)
        with self._queued():
            if loss < self.best:
                self.best = loss
                self._best_weights = [weight.detach().clone() for weight in self.network.parameters()]
            else:
                self.plateau_rate /= 4
        return loss

    @torch.no_grad()
    def take_best(self) -> None:
        with self._queued():
            for weight, best in zip(self.network.parameters(), self._best_weights, strict=True):
                weight.copy_(best)

    def weights(self) -> dict[str, Tensor]:
        """The weights with the names of a model folder, in float32 on the CPU."""
        with self._queued():
            return self.network.weights()

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        content = {
            "network": self.network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scale": self._scale.state(),
            "random": self.network.random.get_state(),
            "epoch": self.epoch,
            "row": self.row,
            "state": list(self._state),
            "best": self.best,
            "best_weights": self._best_weights,
            "plateau_rate": self.plateau_rate,
        }
        with self._queued():
            return dict(_on_cpu(content))

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.network.load_state_dict(saved["network"])
        # The groups have only settings. One of them, for recordings, is another on a GPU than on a CPU.
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({**saved["optimizer"], "param_groups": groups})
        self._scale.restore(saved["scale"])
        if len(saved["random"]) == len(self.network.random.get_state()):
            self.network.random.set_state(saved["random"])  # a CPU and a GPU have different random numbers
        self.epoch, self.row, self._columns = saved["epoch"], saved["row"], None
        for part, held in zip(self._state, saved["state"], strict=True):
            part.copy_(held)
        self.best, self.plateau_rate = saved["best"], saved["plateau_rate"]
        self._best_weights = [weight.to(self.device) for weight in saved["best_weights"]]
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate
        self._follow()

    # -- streams ------------------------------------------------------------------------------------------------

    def _queued(self) -> Any:
        return nullcontext() if self._queue is None else torch.cuda.stream(self._queue)

    def _follow(self) -> None:
        """Let this seed's stream wait for what was set outside it."""
        if self._queue is not None:
            self._queue.wait_stream(torch.cuda.current_stream(self.device))


class GradientScale:
    """Scales the loss so that gradients do not underflow in half precision.

    The fused update unscales and clips the gradients. If they overflowed, the optimiser skips the update on the device
    and the scale is halved; after two thousand updates without overflow it is doubled. In float32 the scale stays 1.
    """

    GROW_AFTER = 2000

    def __init__(self, device: torch.device, *, dynamic: bool) -> None:
        self._dynamic = dynamic
        self.value = torch.full((), 2.0**14 if dynamic else 1.0, device=device)
        self._good = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer, clip: float) -> None:
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        length = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        overflow = (~length.isfinite()).float()
        # The interface of torch's GradScaler: the fused kernel divides by `grad_scale` and skips on `found_inf`.
        optimizer.grad_scale = torch.maximum(self.value, length / clip)  # type: ignore[attr-defined]
        optimizer.found_inf = overflow  # type: ignore[attr-defined]
        optimizer.step()
        if self._dynamic:
            self._good.add_(1).mul_(1 - overflow)
            grown = (self._good >= self.GROW_AFTER).float()
            self._good.mul_(1 - grown)
            self.value.mul_((1 + grown) * (1 - 0.5 * overflow)).clamp_(1.0, 2.0**18)

    def state(self) -> list[Tensor]:
        return [self.value, self._good]

    def restore(self, saved: list[Tensor]) -> None:
        for part, held in zip((self.value, self._good), saved, strict=True):
            part.copy_(held)


@torch.no_grad()
def stream_loss(network: Network, ids: Tensor) -> float:
    """Mean loss per word of a stream read in columns, with the state carried along and without dropout.

    Computed in training precision, without the few words that do not fill a row. Use it to compare epochs;
    `assess.surprisals` gives the exact figure.
    """
    network.eval()
    columns = fold(ids, columns_for(len(ids)))
    state = network.start(columns.shape[1])
    total = torch.zeros((), device=ids.device)
    for row in range(0, len(columns) - 1, _BPTT):
        targets = columns[row + 1 : row + 1 + _BPTT]
        inputs = columns[row : row + len(targets)]
        loss, state = network.loss(inputs, targets, state)
        total += loss * len(targets)
    return float(total) / (len(columns) - 1)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list | tuple) else value
