"""A model's next words and continuations, with or without an intervention."""

from __future__ import annotations

import itertools
import operator
import reprlib
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import MaskedEdit
from pivotal.models.tree import PrefixTree
from pivotal.questions.pairs import find_cue
from pivotal.records.intervention import Intervention

if TYPE_CHECKING:
    from pivotal.models.base import Encoding, LanguageModel

_HOTTEST = 1000
"""The highest temperature of samples. All words are then equally likely, up to a few thousandths."""
_BLOCKS: ContextVar[tuple[IntervenedModel, ...]] = ContextVar("blocks", default=())
"""The `with` blocks that are open in this thread or task, innermost last."""


@dataclass(frozen=True, slots=True)
class IntervenedModel:
    """A model with an intervention applied to it. `model.intervened(...)` returns one.

    The intervention belongs to this object and not to the model, so several threads can use one model with different
    interventions. As a convenience, the model's own `next_words`, `next_logits` and `generate` also apply the
    intervention inside a `with` block; that holds only in the thread (or asyncio task) that opened the block.
    """

    model: LanguageModel
    intervention: Intervention | None = None
    direction: int = 0
    """The index of the direction among those of the intervention."""
    cue: SupportsIndex | str | None = None
    """The word that a single-step intervention acts at: its text or its 0-based index in the prompt."""

    def __enter__(self) -> IntervenedModel:
        _BLOCKS.set((*_BLOCKS.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _BLOCKS.set(_BLOCKS.get()[:-1])

    @torch.no_grad()
    def next_logits(
        self, prompts: Sequence[Sequence[int]], cue: SupportsIndex | None = None
    ) -> Float[Tensor, "prompts vocabulary"]:
        """The logits of the next token after each prompt.

        A prompt is a list of token ids. `cue` is the position of the token that a single-step intervention acts at.
        """
        intervention = self.intervention
        model = self.model if intervention is None else self.model.carrying(intervention)
        prompts = _checked(model, prompts)
        if intervention is None:
            tree = PrefixTree.build(prompts)
            edit = None
        else:
            steps = intervention.steps
            cues = [-1 if steps == "every" else _position(cue, prompts)] * len(prompts)
            tree = PrefixTree.build(prompts, cues, [self.direction] * len(prompts), steps)
            # Only the sites with units in the intervention: a model can skip what comes before the first of them.
            sites = ",".join(dict.fromkeys(unit.site for unit in intervention.units))
            edit = MaskedEdit.of(intervention, model.unit_space(sites), model.device)
        states = model.states(model.prepare(tree), edit)
        if edit is not None:
            edit.check_reached()
        rows = torch.as_tensor(tree.live_row[tree.leaf], device=states.device)
        return model.readout(states[rows, 0])

    def next_words(self, prompt: str, k: int = 5) -> list[tuple[str, float]]:
        """The k most likely next words with their probabilities."""
        _at_least(1, k=k)
        encoding = self.model.encode(prompt)
        p = self.next_logits([encoding.ids], self._position_of_cue(prompt, encoding)).softmax(-1)[0]
        best = p.topk(min(k, len(p)))
        return [(self.model.word(int(i)), float(q)) for q, i in zip(best.values, best.indices, strict=True)]

    def generate(
        self, prompt: str, *, words: int = 20, samples: int = 1, temperature: float = 1.0, seed: int = 0
    ) -> list[str]:
        """Continuations of a prompt. Temperature 0 takes the most likely word at every step."""
        if not 0 <= temperature <= _HOTTEST:
            raise PivotalError(f"A temperature is from 0 to {_HOTTEST:,}, but it is {temperature:g}.")
        _at_least(1, samples=samples)
        _at_least(0, words=words)
        model, encoding = self.model, self.model.encode(prompt)
        _check_room(model, len(encoding.ids), words)
        cue = self._position_of_cue(prompt, encoding)
        generator = torch.Generator().manual_seed(seed)
        texts = [list(encoding.ids) for _ in range(samples)]
        for _ in range(words):
            logits = self.next_logits(texts, cue).cpu()
            logits[:, model.unspeakable()] = -torch.inf
            if temperature > 0:
                drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
            else:
                drawn = logits.argmax(-1)
            for text, token in zip(texts, drawn.tolist(), strict=True):
                text.append(token)
        new = len(encoding.ids)
        return [model.continued(prompt, text[new:]) for text in texts]

    def _position_of_cue(self, prompt: str, encoding: Encoding) -> int | None:
        """The token that a single-step intervention acts at; None if there is no such token."""
        if self.intervention is None or self.intervention.steps == "every":
            return None
        cue, words = self.cue, prompt.split()
        if isinstance(cue, str) and cue.lstrip("-").isdigit():
            cue = int(cue)
        index = find_cue(prompt, cue) if isinstance(cue, str) and cue in words else _whole(cue)
        if index is None or not 0 <= index < len(words):
            raise PivotalError(
                f"The cue must be a word of the prompt, but {cue!r} is not one of: {', '.join(words)}. "
                "Give one of them, or its 0-based index."
            )
        return encoding.last_token_of(index)


def in_force(model: LanguageModel) -> IntervenedModel:
    """The intervention of the innermost open block of this model, or none."""
    opened = (block for block in reversed(_BLOCKS.get()) if block.model is model)
    return next(opened, None) or IntervenedModel(model)


def _check_room(model: LanguageModel, prompt: int, words: int) -> None:
    """Checked before the first word is generated. The last word is never read, so it needs no position."""
    model.check_length(prompt)
    if model.longest is not None and prompt + words - 1 > model.longest:
        raise PivotalError(
            f"{model.name} has positions for {model.longest} tokens, but the prompt has {prompt} and {words} are to "
            f"follow. Ask for {model.longest - prompt + 1} words at most, or use a model with more positions."
        )


def _checked(model: LanguageModel, prompts: Any) -> list[list[int]]:
    try:
        ids = [[operator.index(token) for token in prompt] for prompt in prompts]
    except TypeError:
        raise PivotalError(
            "Prompts are lists of token ids, such as [model.encode(text).ids], but they are "
            f"{reprlib.repr(prompts)}."
        ) from None
    if not ids:
        raise PivotalError("There must be at least one prompt, but there is none. Give [ids of a prompt].")
    if not all(ids):
        raise PivotalError("A prompt must have at least one word, but this one is empty.")
    for token in itertools.chain.from_iterable(ids):
        if not 0 <= token < model.readable:
            raise PivotalError(
                f"{model.name} reads tokens from 0 to {model.readable - 1}, but a prompt has {token}. "
                "Take the ids that its encode returns."
            )
    return ids


def _whole(number: SupportsIndex | str | None) -> int | None:
    """A whole number of Python, numpy or torch; None for anything else, including True."""
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        return None


def _at_least(least: int, **named: SupportsIndex) -> None:
    for name, given in named.items():
        number = _whole(given)
        if number is None or number < least:
            raise PivotalError(f"{name} is a whole number, {least} or more, but it is {given!r}.")


def _position(cue: SupportsIndex | None, prompts: Sequence[Sequence[int]]) -> int:
    """The position of the token to edit."""
    if cue is None:
        raise PivotalError(
            "A single-step intervention acts at one token, but next_logits takes token ids and cannot find it by "
            "its word. Give its 0-based position with cue=, or use next_words or generate."
        )
    position, shortest = _whole(cue), min(map(len, prompts))
    if position is None or not 0 <= position < shortest:
        raise PivotalError(
            f"The cue of next_logits is the 0-based position of a token in every prompt, 0 to {shortest - 1} here, but "
            f"it is {cue!r}. Give one of these."
        )
    return position
