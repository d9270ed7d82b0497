"""What every language model offers to the rest of pivotal, whatever its architecture."""

from __future__ import annotations

import itertools
import operator
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.edits import Edit, MaskedEdit
from pivotal.models.tree import PrefixTree
from pivotal.questions.pairs import find_cue
from pivotal.records.intervention import Intervention
from pivotal.units import Site, UnitSpace, select_sites


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as tokens, each with the index of the whitespace-separated word that it belongs to."""

    ids: tuple[int, ...]
    word: tuple[int, ...]

    def last_token_of(self, word: int) -> int:
        """The position to edit for a word: its last token, where the model has read all of it."""
        return len(self.word) - 1 - self.word[::-1].index(word)


class LanguageModel(ABC):
    """A frozen autoregressive language model whose activations can be edited.

    A subclass says which sites it has, how text becomes tokens, and how the nodes of a PrefixTree get their states.
    """

    name: str
    device: torch.device
    batch_nodes: int | None = None
    """How many nodes, times runs, are computed at once, where a model can bound that."""
    longest: int | None = None
    """How many tokens a text may have, where a model has positions for so many and no more."""
    _active: _Active | None = None

    @property
    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """Every site that can be edited, in the order of computation."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int: ...

    @property
    def readable(self) -> int:
        """How many tokens it can read: ids from 0 to one less."""
        return self.vocabulary_size

    @abstractmethod
    def fingerprint(self) -> str:
        """Names the weights and the vocabulary: two models with one fingerprint are the same function."""

    @abstractmethod
    def encode(self, text: str) -> Encoding:
        """Tokens of a prefix; PivotalError if it cannot be said in the model's vocabulary."""

    @abstractmethod
    def single_token(self, word: str) -> int:
        """The one token that stands for `word` after a prefix; PivotalError with the reason if there is none."""

    @abstractmethod
    def word(self, token: int) -> str:
        """The text of a token, to be joined with spaces by `join`."""

    @abstractmethod
    def prepare(self, tree: PrefixTree) -> Any:
        """All about a tree that no edit can change (input projections, frozen states), computed once."""

    @abstractmethod
    def states(self, prepared: Any, edit: Edit | None = None) -> Float[Tensor, "live runs width"]:
        """The last state of every live node, in the tree's order, with the edit in force."""

    @abstractmethod
    def readout(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        """Logits of some words, or of the whole vocabulary; float32 at least, whatever the states are in."""

    def join(self, words: Sequence[str]) -> str:
        return " ".join(words)

    def continued(self, prompt: str, tokens: Sequence[int]) -> str:
        """A prompt and what follows it, as text."""
        return self.join([prompt, *(self.word(token) for token in tokens)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.unit_space()})"

    def describe(self) -> str:
        """What a user should know of how this model reads sentences, in a line."""
        return self.name

    def unit_space(self, sites: str = "all") -> UnitSpace:
        return UnitSpace(select_sites(self.sites, sites))

    @property
    def layers(self) -> tuple[Site, ...]:
        """The sites that hold what a layer hands on, from the first layer to the last: along them one can see how far
        an edit has spread. By default all of the kind that is computed last."""
        return tuple(site for site in self.sites if site.kind == self.sites[-1].kind)

    # -- a model with an intervention switched on ---------------------------------------------------------------

    @contextmanager
    def intervened(
        self,
        intervention: Intervention,
        direction: str,
        *,
        cue: SupportsIndex | str | None = None,
        any_model: bool = False,
    ) -> Iterator[LanguageModel]:
        """Within the block, `next_words` and `generate` see the edited model.

        A single-step intervention acts at one word: `cue` is that word of the prompt, or its index.
        """
        intervention.check_model(self.name, self.fingerprint(), any_model=any_model)
        if intervention.steps == "single" and cue is None:
            raise PivotalError(
                "A single-step intervention acts at one word of the prompt, but no cue was given. "
                "Name the word (its text or its 0-based index) with cue=, or --cue on the command line."
            )
        before, self._active = self._active, _Active(intervention, intervention.direction(direction), cue)
        try:
            yield self
        finally:
            self._active = before

    @torch.no_grad()
    def next_logits(
        self, prompts: Sequence[Sequence[int]], cue: SupportsIndex | None = None
    ) -> Float[Tensor, "prompts vocabulary"]:
        """Logits of the next token after each prompt, edited if an intervention is switched on.

        A prompt is the ids of its tokens; `cue` is the position of the token that a single-step intervention acts at.
        """
        prompts = self._checked(prompts)
        active = self._active
        if active is None:
            tree = PrefixTree.build(prompts)
            edit = None
        else:
            steps = active.intervention.steps
            cues = [-1 if steps == "every" else _position(cue, prompts)] * len(prompts)
            tree = PrefixTree.build(prompts, cues, [active.direction] * len(prompts), steps)
            # Only the sites that have units in it: a model can leave out what comes before the first of them.
            sites = ",".join(dict.fromkeys(unit.site for unit in active.intervention.units))
            edit = MaskedEdit.of(active.intervention, self.unit_space(sites), self.device)
        states = self.states(self.prepare(tree), edit)
        if edit is not None:
            edit.check_reached()
        rows = torch.as_tensor(tree.live_row[tree.leaf], device=states.device)
        return self.readout(states[rows, 0])

    def next_words(self, prompt: str, k: int = 5) -> list[tuple[str, float]]:
        """The k likeliest next words with their probabilities."""
        _at_least(1, k=k)
        encoding = self.encode(prompt)
        p = self.next_logits([encoding.ids], self._cue_of(prompt, encoding)).softmax(-1)[0]
        best = p.topk(min(k, len(p)))
        return [(self.word(int(i)), float(q)) for q, i in zip(best.values, best.indices, strict=True)]

    def generate(
        self, prompt: str, *, words: int = 20, samples: int = 1, temperature: float = 1.0, seed: int = 0
    ) -> list[str]:
        """Continuations of a prompt. Temperature 0 takes the likeliest word at every step."""
        if not 0 <= temperature < torch.inf:
            raise PivotalError(f"A temperature is 0 or more, but it is {temperature:g}.")
        _at_least(1, samples=samples)
        _at_least(0, words=words)
        encoding = self.encode(prompt)
        self._check_room(len(encoding.ids), words)
        cue = self._cue_of(prompt, encoding)
        generator = torch.Generator().manual_seed(seed)
        texts = [list(encoding.ids) for _ in range(samples)]
        for _ in range(words):
            logits = self.next_logits(texts, cue).cpu()
            logits[:, self.unspeakable()] = -torch.inf
            if temperature > 0:
                drawn = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
            else:
                drawn = logits.argmax(-1)
            for text, token in zip(texts, drawn.tolist(), strict=True):
                text.append(token)
        new = len(encoding.ids)
        return [self.continued(prompt, text[new:]) for text in texts]

    def unspeakable(self) -> list[int]:
        """Tokens that `generate` leaves out, such as `<unk>`."""
        return []

    def check_length(self, tokens: int) -> None:
        if self.longest is not None and tokens > self.longest:
            raise PivotalError(
                f"A text for {self.name} may have {self.longest} tokens, for so many have a position, but this one has "
                f"{tokens}. Shorten it, or use a model with more positions."
            )

    def _check_room(self, prompt: int, words: int) -> None:
        """Before the first word is generated. The last is not read any more."""
        self.check_length(prompt)
        if self.longest is not None and prompt + words - 1 > self.longest:
            raise PivotalError(
                f"{self.name} has positions for {self.longest} tokens, but the prompt has {prompt} and {words} are to "
                f"follow. Ask for {self.longest - prompt + 1} words at most, or use a model with more positions."
            )

    def _checked(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        try:
            ids = [[operator.index(token) for token in prompt] for prompt in prompts]
        except TypeError:
            raise PivotalError(
                "Prompts are lists of token ids, such as [model.encode(text).ids], but they are "
                f"{reprlib.repr(prompts)}."
            ) from None
        if not ids:
            raise PivotalError(
                "There must be at least one prompt, but there is none. Give [ids of a prompt]."
            )
        if not all(ids):
            raise PivotalError("A prompt must have at least one word, but this one is empty.")
        for token in itertools.chain.from_iterable(ids):
            if not 0 <= token < self.readable:
                raise PivotalError(
                    f"{self.name} reads tokens from 0 to {self.readable - 1}, but a prompt has {token}. "
                    "Take the ids that its encode gives."
                )
        return ids

    def _cue_of(self, prompt: str, encoding: Encoding) -> int | None:
        if self._active is None or self._active.intervention.steps == "every":
            return None
        cue = self._active.cue
        words = prompt.split()
        if isinstance(cue, str) and cue.lstrip("-").isdigit():
            cue = int(cue)
        index = find_cue(prompt, cue) if isinstance(cue, str) and cue in words else _whole(cue)
        if index is None or not 0 <= index < len(words):
            raise PivotalError(
                f"The cue must be a word of the prompt, but {cue!r} is not one of: {', '.join(words)}. "
                "Give one of them, or its 0-based index."
            )
        return encoding.last_token_of(index)


@dataclass(frozen=True, slots=True)
class _Active:
    intervention: Intervention
    direction: int
    cue: SupportsIndex | str | None


def _whole(number: SupportsIndex | str | None) -> int | None:
    """A whole number of Python, numpy or torch; None if it is something else, such as True."""
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
    """Of the token to edit."""
    if cue is None:
        raise PivotalError(
            "A single-step intervention acts at one token, but next_logits, which is given tokens and no words, does "
            "not know at which. Give its 0-based position with cue=, or use next_words or generate, which find it."
        )
    position, shortest = _whole(cue), min(map(len, prompts))
    if position is None or not 0 <= position < shortest:
        raise PivotalError(
            f"The cue of next_logits is the 0-based position of a token in every prompt, 0 to {shortest - 1} here, but "
            f"it is {cue!r}. Give one of these."
        )
    return position


class ModelSource(ABC):
    """Opens the models that it knows by name; one file in `pivotal/models/` adds a source."""

    name: ClassVar[str]
    summary: ClassVar[str]
    light: ClassVar[bool] = False
    """Whether its models are opened within a second or two, so that one may be opened to see what sites it has."""

    @abstractmethod
    def listed(self) -> list[tuple[str, str]]:
        """(name, one line about it) of each model that can be opened by name alone."""

    @abstractmethod
    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        """The model, or None if the spec is not this source's kind of name; a dtype of None is the model's own."""
