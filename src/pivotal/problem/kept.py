"""What an intervention must leave alone: other questions, whose preferences must stay, and text.

Their sentences stand in the prefix tree of the training pairs, once in each direction, so that every masked run edits
them too. A search bounds the change of the preferences of each question. If there is text, the KL of the problem is the
KL after its words.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import suffix_of
from pivotal.models.base import LanguageModel
from pivotal.problem.asking import Asking, Tokens
from pivotal.problem.text import mostly_unknown, sentences_of, tokens_of
from pivotal.problem.word_index import WordIndex
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.readers import reader_of
from pivotal.units import Steps

if TYPE_CHECKING:
    from pivotal.problem.batch import FixedTensors, OwnTensors
    from pivotal.problem.examples import Examples

TEXT = "text"
"""The name of the bundled text."""
_MOST = 256
"""The most sentences of one question or text that a search reads."""


def is_text(name: str) -> bool:
    """Whether --keep means a text by this name, not a question."""
    return name == TEXT or (suffix_of(Path(name)) == ".txt" and reader_of(name) is None)


@dataclass(frozen=True)
class Stay:
    """One question or text that must stay: sentences for the search, and others to measure the effect on."""

    name: str
    pairs: PairSet | None = None
    lines: tuple[str, ...] = ()
    held_out: PairSet | None = None
    held_out_lines: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, read: Callable[[str], PairSet] = load_phenomenon) -> Stay:
        """Read a question, with `read`, or a text. Half of it is held out from the search."""
        if is_text(name):
            lines = sentences_of(None if name == TEXT else name)
            return Stay(name, lines=tuple(lines[::2]), held_out_lines=tuple(lines[1::2]))
        pairs = read(name)
        if not pairs.asks_words:
            raise PivotalError(f"A question that must stay asks two words, but {name} asks none.", "keep")
        prefixes = sorted({pair.prefix for pair in pairs})
        random.Random(0).shuffle(prefixes)
        half = set(prefixes[: len(prefixes) // 2])
        inside = tuple(pair for pair in pairs if pair.prefix in half)
        outside = tuple(pair for pair in pairs if pair.prefix not in half)
        return Stay(name, pairs=replace(pairs, pairs=inside), held_out=replace(pairs, pairs=outside))

    def fingerprint(self) -> str:
        """16 hex digits that depend on the sentences, but not on the name."""
        sets = [pairs.fingerprint() for pairs in (self.pairs, self.held_out) if pairs is not None]
        content = json.dumps([self.lines, self.held_out_lines, sets])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeptSentence:
    """A line of text or the prefix of a pair."""

    name: str
    """The question or text that it belongs to."""
    places: np.ndarray
    """The indices of its sequences: all prefixes of a line of text, or the prefix of a pair."""
    words: tuple[Tokens, Tokens] | None = None
    """The words of the pair; None for text."""
    expected: int | None = None
    """The index of the expected word; None if the pair states none."""


@dataclass(frozen=True)
class KeptSentences:
    """Sentences as tokens, each with the position at which a single-step edit is made."""

    sequences: tuple[Tokens, ...]
    cues: tuple[int, ...]
    sentences: tuple[KeptSentence, ...]

    @staticmethod
    def of(model: LanguageModel, stays: Sequence[Stay], steps: Steps) -> KeptSentences:
        """The sentences of all questions and texts that the model can read."""
        sequences: list[Tokens] = []
        cues: list[int] = []
        sentences: list[KeptSentence] = []
        names = [stay.name if stay.pairs is None else stay.pairs.name for stay in stays]
        for stay, name in zip(stays, names, strict=True):
            # Two sets of the same name go by their names in --keep.
            said, before = stay.name if names.count(name) > 1 else name, len(sequences)
            for tokens, cue, ends, words, expected in _read(model, stay, steps):
                places = np.arange(len(sequences), len(sequences) + len(ends))
                sentences.append(KeptSentence(said, places, words, expected))
                sequences += [tokens[:end] for end in ends]
                cues += [cue] * len(ends)
            read = sequences[before:]
            if not read or (stay.pairs is None and mostly_unknown(model, read)):
                what = "does not know most of the words of" if read else "can read no sentence of"
                raise PivotalError(f"{model.name} {what} {stay.name}. Leave it out of --keep.", "keep")
        return KeptSentences(tuple(sequences), tuple(cues), tuple(sentences))


_Read: TypeAlias = tuple[Tokens, int, Sequence[int], tuple[Tokens, Tokens] | None, int | None]


def _read(model: LanguageModel, stay: Stay, steps: Steps) -> Iterator[_Read]:
    """The tokens of each sentence, the position of its edit, the lengths of the prefixes after which predictions must
    stay, the words of a pair, and which of them is expected. A text has no cue, so it is edited at the middle token."""
    for line in stay.lines[:_MOST]:
        if len(tokens := tokens_of(model, line)) > 1:
            middle = len(tokens) // 2
            yield tokens, middle, range(middle + 1 if steps == "single" else 1, len(tokens) + 1), None, None
    if stay.pairs is None:
        return
    asking = Asking(model, "every")
    seen: set[str] = set()
    for pair in stay.pairs.at_most(4 * _MOST):
        if pair.prefix in seen or len(seen) == _MOST:
            continue
        try:
            one = asking.ask(pair)
        except PivotalError:  # the model does not know a word of it
            continue
        seen.add(pair.prefix)
        cue = len(one.ids) // 2 if one.cue is None else one.cue
        expected = stay.pairs.labels.index(pair.label) if pair.label else None
        yield one.ids, cue, [len(one.ids)], one.sides, expected


_DIRECTIONS = 2


class Preferences:
    """The kept pairs of a problem, each edited in both directions.

    If a model chose between the two words of a pair by their probabilities, it would choose the expected word with
    probability p. The change of a question in one direction of the edit is the mean of p' - p over its pairs, where p'
    is that probability in the edited model. It is the change of the question's accuracy, without the jumps. If a pair
    states no label, the word that the untouched model prefers is expected.
    """

    def __init__(self, model: LanguageModel, examples: Examples, tensors: OwnTensors | FixedTensors) -> None:
        # No batch is kept here, because it keeps this object: in a cycle of references, a large model would stay in
        # memory until Python collects garbage.
        self._model, self._tree, self._tensors = model, examples.tree, tensors
        self._pairs = [one for one in examples.kept if one.words is not None]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(one.name for one in self._pairs))
        """The questions, in their order in --keep."""
        self.changes = _DIRECTIONS * len(self.names)
        """The number of changes: those of the first question in both directions, then those of the next."""

    @cached_property
    def _index(self) -> WordIndex:
        sets = tuple(dict.fromkeys(side for one in self._pairs for side in one.words or ()))
        place = {side: i for i, side in enumerate(sets)}
        words = np.array([[place[side] for side in one.words or ()] for one in self._pairs]).repeat(2, 0)
        rows = self._tree.live_row[self._leaves]
        return WordIndex.of(rows, sets, words[:, 0], words[:, 1], self._model.device)

    @cached_property
    def _leaves(self) -> np.ndarray:
        """The leaves of the pairs. Each pair has two, one for each direction."""
        return self._tree.leaf[np.concatenate([one.places for one in self._pairs])]

    def _first(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "runs leaves"]:
        """The probability of the word of the first label."""
        first, second = self._index.read(self._model, states)
        return (first - second).float().sigmoid()

    @cached_property
    def _untouched(self) -> Float[Tensor, "1 leaves"]:
        with torch.no_grad():
            return self._first(self._tensors.clean[:, None])

    @cached_property
    def _share(self) -> Float[Tensor, "leaves changes"]:
        """The weight of each leaf in the mean of its question and direction, negative where the word of the second
        label is expected."""
        device = self._model.device
        stated = np.array([-1 if one.expected is None else one.expected for one in self._pairs]).repeat(2)
        preferred = (self._untouched[0] < 0.5).long().cpu().numpy()
        expected = np.where(stated < 0, preferred, stated)
        question = np.array([self.names.index(one.name) for one in self._pairs]).repeat(2)
        direction = self._tree.direction[self._leaves]
        column = _DIRECTIONS * question + direction
        share = (column[:, None] == np.arange(self.changes)) * (1.0 - 2.0 * expected[:, None])
        share = share / np.abs(share).sum(0)
        return torch.as_tensor(share, dtype=torch.float32, device=device)

    def change(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "runs changes"]:
        """The change of each question in each direction: positive if the expected words become more likely."""
        if not self.names:
            return states.new_zeros(states.shape[1], 0, dtype=torch.float32)
        return (self._first(states) - self._untouched) @ self._share

    @staticmethod
    def by_direction(each: Float[Tensor, "runs changes"]) -> Float[Tensor, "runs questions directions"]:
        """Numbers for each change, with the two directions of a question apart."""
        return each.unflatten(1, (-1, _DIRECTIONS))
