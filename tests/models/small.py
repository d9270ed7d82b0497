"""Small recurrent models with random weights."""

from collections.abc import Sequence

import torch
from torch import nn

from pivotal.models import RecurrentLM

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def recurrent(
    text: str | Sequence[str], cell: str = "lstm", layers: int = 1, *, width: int = 6, hidden: int = 8, seed: int = 0,
    scale: float = 1.0, bias: bool = True,
) -> RecurrentLM:  # fmt: skip
    """A model of the words in `text`. The larger `scale`, the more its cell depends on what it reads."""
    torch.manual_seed(seed)
    words = text.split() if isinstance(text, str) else text
    parts = (
        nn.Embedding(len(words), width),
        CELLS[cell](width, hidden, layers),
        nn.Linear(hidden, len(words), bias),
    )
    with torch.no_grad():
        for weight in parts[1].parameters():
            weight.mul_(scale)
    return RecurrentLM.from_modules("small", *parts, words)
