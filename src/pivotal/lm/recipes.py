"""How a language model is trained: the settings, and the two sets of them that have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pivotal.errors import PivotalError, did_you_mean
from pivotal.options import build


@dataclass(frozen=True)
class Settings:
    """All that decides the result, but for the text and the seed. The defaults are the recipe `fast`."""

    cell: Literal["lstm", "gru"] = "lstm"
    """Kind of recurrent cell."""
    layers: int = 2
    """Recurrent layers."""
    hidden: int = 650
    """Units per layer."""
    embedding: int = 650
    """Width of the word embedding."""
    tied: bool = False
    """One matrix for embedding and output; needs as many units as the embedding is wide."""
    vocabulary_size: int = 50_000
    """So many of the most frequent words are kept, <unk> and <eos> among them."""
    epochs: int = 12
    """Passes over the text."""
    minutes: float | None = None
    """Stop after so many minutes of training; the cosine schedule then ends at that time."""
    batch: int = 512
    """Streams of text that are read side by side."""
    bptt: int = 35
    """Words between two updates: gradients reach back so far."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or plain gradient descent."""
    rate: float = 3e-3
    """Learning rate, at its highest."""
    schedule: Literal["cosine", "plateau"] = "cosine"
    """Cosine down to zero, or divide by 4 whenever an epoch does not improve the validation perplexity."""
    warmup: int = 800
    """Updates in which the learning rate rises to its height; at most a tenth of the training."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    clip: float = 0.5
    """Longest gradient; a longer one is shortened to this."""
    dropout: float = 0.15
    """Share of inputs, of states between layers and of outputs that is dropped."""
    shuffle: bool = True
    """A new order of the sentences in every epoch; without it the text is read as it stands."""
    valid_share: float = 0.02
    """Share of the sentences held out for validation where no validation text is given."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """Of the products; auto is fp16 on CUDA, fp32 elsewhere. Weights and their updates are always in fp32."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "embedding", "epochs", "batch", "bptt"):
            if getattr(self, name) < 1:
                raise PivotalError(f"{name} must be at least 1, but it is {getattr(self, name)}.", name)
        for name in ("rate", "clip", "minutes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise PivotalError(f"{name} must be a finite number above 0, but it is {value}.", name)
        for name in ("warmup", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise PivotalError(f"{name} must not be negative, but it is {getattr(self, name)}.", name)
        if not 0 <= self.dropout < 1:
            raise PivotalError(f"dropout must be in [0, 1), but it is {self.dropout}.", "dropout")
        if not 0 < self.valid_share <= 0.5:
            raise PivotalError(
                f"valid_share must be in (0, 0.5], but it is {self.valid_share}.", "valid_share"
            )
        if self.vocabulary_size < 3:
            raise PivotalError(
                f"vocabulary_size must be at least 3 (<unk>, <eos> and a word), but it is {self.vocabulary_size}."
            )
        if self.tied and self.embedding != self.hidden:
            raise PivotalError(
                f"Tied weights need an embedding as wide as a layer, but embedding is {self.embedding} and hidden "
                f"{self.hidden}. Make them equal, or leave the weights untied."
            )


FLAGS = {"tied": ("--tied", "--untied"), "shuffle": ("--shuffle", "--as-it-stands")}
"""Settings that are true or false, as a command line says them."""

SNAPSHOTS_HELP = "Keep the weights when so many tokens have been read, in DIR.snapshots; e.g. 10M,30M,1B."

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
        "precision": "fp32",
    },
}


def settings_of(recipe: str, given: Mapping[str, Any] | None = None) -> Settings:
    """A recipe's settings with those `given`, as text or typed, in their place."""
    if recipe not in RECIPES:
        raise PivotalError(f"There is no recipe '{recipe}'." + did_you_mean(recipe, RECIPES))
    return build(Settings, {**RECIPES[recipe], **(given or {})})
