"""A model's next words and continuations, with or without an intervention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError, check_whole
from pivotal.models.bases.edit import in_own_sites
from pivotal.models.edits import Edit, MaskedEdit
from pivotal.models.tree import PrefixTree, Span
from pivotal.questions.minimal_pair import find_cue
from pivotal.questions.question import check_seed
from pivotal.records.intervention import Intervention
from pivotal.units import Steps

if TYPE_CHECKING:
    from pivotal.models.base import LanguageModel
    from pivotal.models.vocabulary import Encoding

_COLDEST, _HOTTEST = 1e-6, 1000
"""The temperatures of samples: below the first, the most likely word is taken, and at the other, all words are equally
likely, up to a few thousandths."""


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


class NextWord(NamedTuple):
    """A word that may come next. It is shown with three digits of its probability."""

    word: str
    probability: float

    def __repr__(self) -> str:
        return f"({self.word!r}, {self.probability:.3g})"


@dataclass(frozen=True, slots=True)
class IntervenedModel:
    """A model with an intervention applied to it, or none. `model.intervened(...)` returns one.

    The model itself does not change, so several threads can use one model with different interventions.
    """

    model: LanguageModel
    intervention: Intervention | None = None
    direction: int = 0
    """The index of the direction among those of the intervention."""
    cue: int | str | None = None
    """The word that a single-step intervention acts at: its text or its 0-based index in the prompt."""

    def __repr__(self) -> str:
        done = self.intervention
        how = f"{done} to {done.directions[self.direction]}" if done else "untouched"
        return f"IntervenedModel({self.model.name}, {how})"

    @torch.no_grad()
    def next_logits(
        self, prompts: Sequence[Sequence[int]], cue: int | None = None
    ) -> Float[Tensor, "prompts vocabulary"]:
        """The logits of the next token after each prompt.

        A prompt is a list of token ids. `cue` is the position of the token that a single-step intervention acts at.
        """
        _check_prompts(self.model, prompts)
        shortest = min(map(len, prompts))
        if self.intervention is None or self.intervention.steps == "every":
            cue = -1
        elif cue is None or not 0 <= cue < shortest:
            raise PivotalError(
                "A single-step intervention acts at one token. Give next_logits its 0-based position as cue=, here 0 "
                f"to {shortest - 1} instead of {cue!r}, or use next_words."
            )
        model, applied = self._model(), self._applied(cue)
        states = last_states(model, prompts, applied)
        _check_reached(applied)
        return model.readout(states)

    def _model(self) -> LanguageModel:
        """The model, with the bases of the intervention's units."""
        return self.model if self.intervention is None else self.model.in_bases(self.intervention.bases)

    def _applied(self, cue: int) -> Applied:
        """The edit of the intervention, for texts whose token at `cue` is edited."""
        if self.intervention is None:
            return Applied()
        # Only the sites with units in the intervention: a model can skip what comes before the first of them.
        edit = MaskedEdit.of(
            self.intervention, self._model().unit_space(self.intervention.sites), self.model.device
        )
        return Applied(edit, self.intervention.steps, self.direction, cue)

    def next_words(self, prompt: str, k: int = 5) -> list[NextWord]:
        """The k most likely next words with their probabilities."""
        check_whole(1, k=k)
        encoding = encode_typed(self.model, prompt)
        p = self.next_logits([encoding.ids], self._position_of_cue(prompt, encoding)).softmax(-1)[0]
        best = p.topk(min(k, len(p)))
        found = zip(best.values, best.indices, strict=True)
        return [NextWord(self.model.word(int(i)), float(q)) for q, i in found]

    def generate(
        self, prompt: str, *, words: int = 20, samples: int = 1, temperature: float = 1.0, seed: int = 0
    ) -> list[str]:
        """Continuations of a prompt. Temperature 0 takes the most likely word at every step."""
        if not 0 <= temperature <= _HOTTEST:
            raise PivotalError(f"The temperature must be from 0 to {_HOTTEST:,}, but it is {temperature:g}.")
        if samples < 1 or words < 0:
            raise PivotalError(f"Samples must be 1 or more, and words 0 or more, not {samples} and {words}.")
        check_seed(seed)
        model, encoding = self._model(), encode_typed(self.model, prompt)
        model.check_length(len(encoding.ids) + max(0, words - 1))  # the last word is never read
        applied = self._applied(self._position_of_cue(prompt, encoding))
        generator = torch.Generator().manual_seed(seed)
        # A model may read tokens that it never predicts, such as those of images.
        hushed = [token for token in model.vocabulary.unspeakable() if token < model.vocabulary_size]

        @torch.no_grad()
        def draw(states: Float[Tensor, "texts width"]) -> Int[Tensor, " texts"]:
            # On the CPU, so that a seed gives the same text on every device.
            logits = model.readout(states).cpu()
            logits[:, hushed] = -torch.inf
            if temperature < _COLDEST:
                return logits.argmax(-1)
            return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]

        drawn: list[Tensor] = []
        if words:
            _check_prompts(model, [encoding.ids])
            edit = None if applied.edit is None else in_own_sites(applied.edit, model.bases)
            reading = model.reading(encoding.ids, samples, replace(applied, edit=edit))
            _check_reached(applied)
            drawn.append(draw(reading.states))
        while len(drawn) < words:
            reading.read(drawn[-1].to(model.device))
            drawn.append(draw(reading.states))
        return [
            model.vocabulary.continued(prompt, [int(tokens[text]) for tokens in drawn])
            for text in range(samples)
        ]

    def attached(self, cue: int | Sequence[int] | None = None) -> AbstractContextManager[Any]:
        """The Transformers model itself with the intervention attached, for its own `generate`: sampling, beams,
        batches and streaming work as without an intervention.

            with edited.attached() as net:
                net.generate(**tokenizer(prompts, return_tensors="pt", padding=True), max_new_tokens=20)

        Pad batches on the left. The text that the model reads before every sentence, such as BOS, is not edited. A
        single-step intervention needs the position of its token in each prompt, counted from 0 after that text: one
        `cue` for all prompts, or one for each. Other threads that use the model wait until the block ends.
        """
        assert self.intervention is not None
        cues = None
        if self.intervention.steps == "single":
            cues = list(cue) if isinstance(cue, Sequence) else [-1 if cue is None else cue]
            if min(cues, default=-1) < 0:
                raise PivotalError("`attached` takes the 0-based position of the cue, or one per prompt.")
        model, edit = self._model(), self._applied(-1).edit
        assert edit is not None
        return model.attached(in_own_sites(edit, model.bases), self.direction, cues)

    def _position_of_cue(self, prompt: str, encoding: Encoding) -> int:
        """The token that a single-step intervention acts at; -1 if there is no such token."""
        if self.intervention is None or self.intervention.steps == "every":
            return -1
        words = prompt.split()
        places = {str(i): i for i in range(len(words))}
        index = find_cue(prompt, self.cue) if self.cue in words else places.get(str(self.cue))
        if index is None:
            raise PivotalError(
                f"The cue {self.cue!r} is not a word of the prompt. Give one of {', '.join(words)} or its index."
            )
        return encoding.last_token_of(index)


def encode_typed(model: LanguageModel, text: str) -> Encoding:
    """The tokens of a text that somebody typed. Raises PivotalError with a cure if a word is unknown."""
    if not isinstance(text, str):
        raise PivotalError(f"A prompt is one text, but this is a {type(text).__name__}. Ask one at a time.")
    try:
        return model.encode(text)
    except PivotalError as error:
        raise PivotalError(
            f"{model.name} must know every word of “{text}”, but it does not ({error}). Use other words; `pivotal "
            "check MODEL --words WORD` shows similar ones that it knows."
        ) from None


def _check_reached(applied: Applied) -> None:
    if isinstance(applied.edit, MaskedEdit):
        applied.edit.check_reached()


def _check_prompts(model: LanguageModel, prompts: Sequence[Sequence[int]]) -> None:
    if not min(map(len, prompts), default=0):
        raise PivotalError("There must be at least one prompt, with at least one word, but one is empty.")
    for token in (min(map(min, prompts)), max(map(max, prompts))):
        if not 0 <= token < model.vocabulary.size:
            raise PivotalError(
                f"{model.name} has tokens 0 to {model.vocabulary.size - 1}, but a prompt has {token}."
            )
