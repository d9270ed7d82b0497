"""The network in training: embedding, a recurrent module for each layer and output layer, with float32 weights."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pivotal.lm.cross_entropy import cross_entropy
from pivotal.lm.recipes import Settings

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
GATES = {"lstm": 4, "gru": 3}
_MODULES: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
_UNITS, _WORDS = 16, 64
"""In half precision, widths are padded to multiples of these so that tensor cores can be used."""

State = tuple[Tensor, ...]
"""h and, for an LSTM, c; each of shape layers x batch x units."""


class Network(nn.Module):
    """A recurrent language model in training.

    In half precision every recurrent module has a second, half-precision copy of its weights in one block, as cuDNN
    requires. It is refreshed before every step. The padding of all weights is zero, has zero gradients and stays zero.
    Dropout draws from a generator of its own, so that a training can be repeated and recorded as a CUDA graph.
    """

    _working: nn.ModuleList

    def __init__(self, settings: Settings, words: int) -> None:
        super().__init__()
        self.random = torch.Generator()
        self.cell, self.words, self.layers = settings.cell, words, settings.layers
        self.embedding, self.hidden, self.dropout = settings.embedding, settings.hidden, settings.dropout
        self.half_type = half = HALF.get(settings.precision)
        wide, high = (1, 1) if half is None else (_UNITS, _WORDS)
        rows, inputs, units = _padded(words, high), _padded(self.embedding, wide), _padded(self.hidden, wide)
        self.encoder = nn.Parameter(torch.zeros(rows, inputs))
        self.decoder = self.encoder if settings.tied else nn.Parameter(torch.zeros(rows, units))
        self.bias = nn.Parameter(torch.zeros(rows))
        self._width = units
        self.rnn = self._modules_of(inputs, units, torch.float32)
        for weight in self.rnn.parameters():
            nn.init.zeros_(weight)
        # Not a submodule, so that it is neither optimised nor saved in checkpoints.
        working = self.rnn if half is None else self._modules_of(inputs, units, half)
        object.__setattr__(self, "_working", working)

    def _modules_of(self, inputs: int, units: int, dtype: torch.dtype) -> nn.ModuleList:
        widths = (inputs, *[units] * (self.layers - 1))
        return nn.ModuleList(_MODULES[self.cell](width, units, dtype=dtype) for width in widths)

    def place(self, device: torch.device) -> Network:
        self.to(device)
        self.random = torch.Generator(device)
        for module in self._working.to(device).modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()
        return self

    # -- weights with the names of a model folder ---------------------------------------------------------------

    def initialise(self, seed: int) -> None:
        """As in PyTorch's word language model example: ±0.1 for encoder and decoder, ±1/sqrt(hidden) for the rest."""
        generator = torch.Generator().manual_seed(seed)

        def uniform(bound: float, *shape: int) -> Tensor:
            return torch.empty(shape).uniform_(-bound, bound, generator=generator)

        weights = {"encoder.weight": uniform(0.1, self.words, self.embedding)}
        inputs, inside = self.embedding, 1 / math.sqrt(self.hidden)
        for layer in range(self.layers):
            rows = GATES[self.cell] * self.hidden
            weights[f"rnn.weight_ih_l{layer}"] = uniform(inside, rows, inputs)
            weights[f"rnn.weight_hh_l{layer}"] = uniform(inside, rows, self.hidden)
            weights[f"rnn.bias_ih_l{layer}"] = uniform(inside, rows)
            weights[f"rnn.bias_hh_l{layer}"] = uniform(inside, rows)
            inputs = self.hidden
        if self.decoder is not self.encoder:
            weights["decoder.weight"] = uniform(0.1, self.words, self.hidden)
        self.load_weights(weights)

    @torch.no_grad()
    def load_weights(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self._named().items():
            if name in weights:
                part = self._without_padding(name, parameter)
                part.copy_(weights[name].view(part.shape))

    def weights(self) -> dict[str, Tensor]:
        """Copies, in float32 on the CPU."""
        found = {}
        for name, parameter in self._named().items():
            part = self._without_padding(name, parameter.detach()).to("cpu", copy=True).contiguous()
            found[name] = part.flatten(0, 1) if name.startswith("rnn.") else part
        return found

    def _named(self) -> dict[str, Tensor]:
        named: dict[str, Tensor] = {
            "encoder.weight": self.encoder,
            "decoder.weight": self.decoder,
            "decoder.bias": self.bias,
        }
        for layer, module in enumerate(self.rnn):
            named |= {f"rnn.{name[:-1]}{layer}": weight for name, weight in module.named_parameters()}
        return named

    def _without_padding(self, name: str, weight: Tensor) -> Tensor:
        """A view without padding. Recurrent weights get an axis for gates, each of which is padded separately."""
        if not name.startswith("rnn."):
            width = self.embedding if name == "encoder.weight" else self.hidden
            return weight[: self.words, :width] if weight.dim() == 2 else weight[: self.words]
        gates = weight.view(GATES[self.cell], -1, *weight.shape[1:])[:, : self.hidden]
        if weight.dim() == 1:
            return gates
        return gates[:, :, : self.embedding if name == "rnn.weight_ih_l0" else self.hidden]

    # -- computation --------------------------------------------------------------------------------------------

    def start(self, batch: int) -> State:
        zero = self.encoder.new_zeros(self.layers, batch, self._width, dtype=self.half_type)
        return (zero, zero.clone()) if self.cell == "lstm" else (zero,)

    def loss(
        self, inputs: Int[Tensor, "steps batch"], targets: Int[Tensor, "steps batch"], state: State
    ) -> tuple[Float[Tensor, ""], State]:
        """The mean loss of the targets, and the state after the last step."""
        x = functional.embedding(inputs, self.encoder)
        x = self._dropped(x if self.half_type is None else x.to(self.half_type))
        after = []
        for layer, module in enumerate(self._working):
            before = tuple(part[layer : layer + 1] for part in state)
            x, last = module(x, before if self.cell == "lstm" else before[0])
            x = self._dropped(x)
            after.append(last if self.cell == "lstm" else (last,))
        loss = cross_entropy(x.flatten(0, 1), self.decoder, self.bias, targets.flatten(), self.words)
        return loss, tuple(torch.cat(parts) for parts in zip(*after, strict=True))

    def _dropped(self, x: Tensor) -> Tensor:
        if not (self.training and self.dropout):
            return x
        kept = torch.empty_like(x).bernoulli_(1 - self.dropout, generator=self.random)
        return x * kept.div_(1 - self.dropout)

    def refresh(self) -> None:
        """Copy the weights to the half-precision copy."""
        if self._working is not self.rnn:
            with torch.no_grad():
                torch._foreach_copy_(list(self._working.parameters()), list(self.rnn.parameters()))

    def collect(self) -> None:
        """Copy the gradients of the half-precision copy to the weights."""
        if self._working is not self.rnn:
            for weight, copy in zip(self.rnn.parameters(), self._working.parameters(), strict=True):
                assert copy.grad is not None
                weight.grad = copy.grad.float()
                copy.grad = None


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
