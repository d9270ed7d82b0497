"""The output projection: logits of the whole vocabulary or of a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from pivotal.errors import PivotalError
from pivotal.models.transformers.anatomy import Anatomy

_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Head:
    """logits = cap * tanh(scale * (W h + b) / cap), or scale * (W h + b) without a cap."""

    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None
    scale: float = 1.0
    cap: float | None = None

    @staticmethod
    @torch.no_grad()
    def of(anatomy: Anatomy, config: Any) -> Head:
        """Determine scale and cap from the probe's logits, because models apply them in different ways."""
        weight, bias = _parameters(anatomy.head, anatomy.states.device)
        logits = anatomy.logits.to(weight.device, torch.float32)
        plain = Head(weight, bias)
        raw = plain(anatomy.states.to(weight.device))
        largest = float(logits.abs().max().clamp(min=1.0))
        tolerance = _TOLERANCE if anatomy.states.dtype.itemsize >= 4 else 0.05
        for cap in (None, *_caps(config)):
            before = logits if cap is None else cap * (logits / cap).clamp(-0.999999, 0.999999).atanh()
            scale = float((before * raw).sum() / raw.square().sum())
            for tried in (1.0, scale):
                head = Head(plain.weight, plain.bias, tried, cap)
                if float((head._finish(raw) - logits).abs().max()) <= tolerance * largest:
                    return head
        raise PivotalError(
            "A model's logits must be its output projection, scaled or capped, but those of "
            f"{type(anatomy.head).__name__} are something else. Wrap the model in pivotal.models.module.ModuleLM."
        )

    def __call__(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        device, weight, bias = states.device, self.weight, self.bias
        if ids is not None:
            weight = weight[ids.to(weight.device)]
            bias = None if bias is None else bias[ids.to(bias.device)]
        # A few words are computed in full precision. For the whole vocabulary, the product may be in half precision.
        number = weight.dtype if ids is None else torch.promote_types(weight.dtype, torch.float32)
        logits = linear(states.to(weight.device, number), weight.to(number)).to(device)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        if bias is not None:
            logits = logits + bias.to(device, logits.dtype)
        return self._finish(logits)

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes width"] | None:
        """The mean row of the scaled projection under some distributions; None if logits are capped or imprecise."""
        if self.cap is not None or self.weight.dtype.itemsize < 4:
            return None
        return (p.to(self.weight) @ self.weight).to(p.device) * self.scale

    def _finish(self, logits: Tensor) -> Tensor:
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


def _parameters(head: nn.Module, device: torch.device) -> tuple[Tensor, Tensor | None]:
    weight, bias = head.weight, getattr(head, "bias", None)
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))
    if weight.is_meta:  # spread over devices by accelerate, which loads the weights on use
        from accelerate.utils import align_module_device

        with align_module_device(head, device):
            return _parameters(head, device)
    return weight.detach(), None if bias is None else bias.detach()


def _caps(config: Any) -> list[float]:
    """The numbers of a configuration that may be the cap of the logits."""
    settings = config.to_dict() if hasattr(config, "to_dict") else {}
    found = [value for key, value in settings.items() if "cap" in key and isinstance(value, int | float)]
    return [float(value) for value in found if value > 0 and not isinstance(value, bool)]
