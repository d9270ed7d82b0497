"""How a language model is trained: the settings, and two named sets of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pivotal.errors import PivotalError, did_you_mean
from pivotal.options import build

_ABOVE_0 = math.ulp(0.0)
_RULES = (
    (("layers", "hidden", "embedding", "epochs", "batch", "bptt"), 1, math.inf, "at least 1"),
    (("rate", "clip"), _ABOVE_0, math.inf, "a finite number above 0"),
    (("warmup", "weight_decay"), 0, math.inf, "a finite number, not below 0"),
    (("dropout",), 0, 1, "in [0, 1)"),
    (("valid_share",), _ABOVE_0, math.nextafter(0.5, 1), "in (0, 0.5]"),
    (("vocabulary_size",), 3, math.inf, "at least 3 (<unk>, <eos> and a word)"),
)
"""The lowest value of some settings, the value above the highest, and both in words."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result, except the text and the seed. The defaults are the recipe `fast`."""

    cell: Literal["lstm", "gru"] = "lstm"
    """Kind of recurrent cell."""
    layers: int = 2
    """Recurrent layers."""
    hidden: int = 650
    """Units per layer."""
    embedding: int = 650
    """Width of the word embedding."""
    tied: bool = False
    """Share one matrix between embedding and output; needs an embedding as wide as a layer."""
    vocabulary_size: int = 50_000
    """Size of the vocabulary: the most frequent words, <unk> and <eos>."""
    epochs: int = 12
    """Passes over the text."""
    batch: int = 512
    """Streams of text that are read in parallel."""
    bptt: int = 35
    """Words per update; gradients are truncated at this length."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or plain gradient descent."""
    rate: float = 3e-3
    """Peak learning rate."""
    schedule: Literal["cosine", "plateau"] = "cosine"
    """Cosine down to zero, or divide by 4 whenever an epoch does not improve the validation perplexity."""
    warmup: int = 800
    """Updates over which the learning rate rises to its peak; at most a tenth of the training."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    clip: float = 0.5
    """Gradients are clipped to this norm."""
    dropout: float = 0.15
    """Dropout of inputs, of states between layers, and of outputs."""
    shuffle: bool = True
    """Shuffle the sentences in every epoch, or read the text in its own order."""
    valid_share: float = 0.02
    """Share of the sentences held out for validation if there is no --valid."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """Precision of matrix products; auto is fp16 on CUDA and fp32 elsewhere. Weights and updates are in fp32."""

    def __post_init__(self) -> None:
        for names, low, high, rule in _RULES:
            for name in names:
                value = getattr(self, name)
                if not low <= value < high:
                    raise PivotalError(f"{name} must be {rule}, but it is {value}.", name)
        if self.tied and self.embedding != self.hidden:
            raise PivotalError(
                f"Tied weights need one width, not embedding {self.embedding} and hidden {self.hidden}."
            )


FLAGS = {"tied": ("--tied", "--untied"), "shuffle": ("--shuffle", "--as-it-stands")}
"""Settings that are true or false, as a command line says them."""

RECIPES: dict[str, dict[str, Any]] = {
    "fast": {},
    # The word-level example of PyTorch in 2017 with the settings of Gulordava et al. (2018).
    "gulordava": {
        "vocabulary_size": 50_001,
        "epochs": 40,
        "batch": 128,
        "bptt": 35,
        "optimizer": "sgd",
        "rate": 20.0,
        "schedule": "plateau",
        "warmup": 0,
        "weight_decay": 0.0,
        "clip": 0.25,
        "dropout": 0.2,
        "shuffle": False,
    },
}


def settings_of(recipe: str, given: Mapping[str, Any] | None = None) -> Settings:
    """A recipe's settings with those `given`, as text or typed, in their place."""
    if recipe not in RECIPES:
        raise PivotalError(f"There is no recipe '{recipe}'." + did_you_mean(recipe, RECIPES))
    return build(Settings, {**RECIPES[recipe], **(given or {})}, "a training")
