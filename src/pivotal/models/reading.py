"""Continuations of a prompt, token by token: what a model has read is not computed again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.models.edits import Edit
from pivotal.models.tree import PrefixTree, Span
from pivotal.units import Steps

if TYPE_CHECKING:
    from pivotal.models.base import LanguageModel


@dataclass(frozen=True, slots=True)
class Applied:
    """An edit, and the steps of a text that it changes. Without `steps` the text stays untouched."""

    edit: Edit | None = None
    steps: Steps | None = None
    direction: int = -1
    cue: int = -1
    """The position of the token that a single-step edit changes."""

    def tree(self, texts: Sequence[Sequence[int]]) -> PrefixTree:
        """The tree of some texts, all of them edited in this way."""
        many = len(texts)
        return PrefixTree.build(texts, [self.cue] * many, [self.direction] * many, self.steps)

    def later(self, texts: int) -> tuple[Span, ...]:
        """The rows to edit when each text grows by one token. The cue of a single step lies in the prompt."""
        return (Span(0, texts, self.direction),) if self.steps == "every" else ()


class Reading(ABC):
    """Some texts that began with the same prompt and grow token by token."""

    states: Float[Tensor, "texts width"]
    """The last hidden state of each text."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, " texts"]) -> None:
        """Append a token to each text, and update the states."""


class Rereading(Reading):
    """Reads each text from its beginning after every token, for models without a state to continue from."""

    def __init__(self, model: LanguageModel, prompt: Sequence[int], texts: int, applied: Applied) -> None:
        self._model, self._applied = model, applied
        self._texts = [list(prompt) for _ in range(texts)]
        self._again()

    def read(self, tokens: Int[Tensor, " texts"]) -> None:
        for text, token in zip(self._texts, tokens.tolist(), strict=True):
            text.append(token)
        self._again()

    def _again(self) -> None:
        self.states = last_states(self._model, self._texts, self._applied)


@torch.no_grad()
def last_states(
    model: LanguageModel, texts: Sequence[Sequence[int]], applied: Applied
) -> Float[Tensor, "texts width"]:
    """The state after the last token of each text."""
    tree = applied.tree(texts)
    states = model.states(model.prepare(tree), applied.edit)
    return states[torch.as_tensor(tree.live_row[tree.leaf], device=states.device), 0]
