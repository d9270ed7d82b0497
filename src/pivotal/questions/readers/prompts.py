"""Reader of two lists of prompts. What the model says next after a prompt of one list should become what it says after
its partner in the other. The question has no words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.minimal_pair import MinimalPair, clean_text
from pivotal.questions.pairs import PairSet, checked_labels
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.choices import only_difference
from pivotal.questions.rows import name_of


@dataclass(frozen=True)
class Prompts(Reader):
    """Two text files with a prompt on every line. Their names are the labels."""

    name: ClassVar[str] = "prompts"
    summary: ClassVar[str] = (
        "reads two lists of prompts, without words to ask: prompts:FILE,FILE or prompts:FILE,FILE,paired"
    )

    def pairs(self) -> PairSet:
        files = [part.strip() for part in self.path.split(",")]
        paired = files[2:] == ["paired"]
        if len(files) - paired != 2 or not all(files) or files[0] == files[1]:
            raise PivotalError(
                "Two lists of prompts are two text files, prompts:FILE,FILE or prompts:FILE,FILE,paired, not "
                f"{self.path!r}. A file name cannot hold a comma."
            )
        names = [name_of(Path(file)) for file in files[:2]]
        labels = files[:2] if names[0] == names[1] else names
        texts = [read_text(Path(file)) for file in files[:2]]
        return prompt_pairs(dict(zip(labels, texts, strict=True)), paired=paired)


def prompt_pairs(prompts: Mapping[str, str | Sequence[str]], *, paired: bool = False) -> PairSet:
    """A pair for each prompt of two lists, which are given by their labels: sequences, or texts with a prompt on every
    line. Its counterfactual is its partner in the other list.

    Partners stand at the same place of both lists if these are equally long and such prompts have more in common than
    others, or if they are `paired`. Otherwise partners are prompts with many words in common: what distinguishes them
    is then mostly what distinguishes the lists. A longer list has prompts without a partner, which are left out.
    """
    labels = checked_labels(list(prompts))
    first, second = (_cleaned(texts) for texts in prompts.values())
    if not first or not second:
        empty = labels[len(first) > 0]
        raise PivotalError(f"Each list holds at least one prompt, but that of “{empty}” is empty.")
    if both := [text for text in first if text in second]:
        which = "they are equal" if len(both) == len(first) else f"both have “{both[0]}”"
        raise PivotalError(f"No prompt may be in both lists, which say what is to differ, but {which}.")
    if paired and len(first) != len(second):
        raise PivotalError(
            f"Lists that are paired by line have equally many prompts, but “{labels[0]}” has {len(first):,} and "
            f"“{labels[1]}” {len(second):,}. Make them equally long, or leave “paired” out."
        )
    by_line = paired or (len(first) == len(second) and _in_order(first, second))
    partners = list(zip(first, second, strict=True)) if by_line else _alike(first, second)
    how = "line by line" if by_line else "by the words that they share"
    note = f"Prompts are paired {how}, such as “{partners[0][0]}” with “{partners[0][1]}”."
    if left := len(first) + len(second) - 2 * len(partners):
        note += f" {left:,} of the longer list have no partner and are left out."
    made = []
    for two in dict.fromkeys(partners):
        cue = only_difference(*map(str.split, two))
        made += [
            MinimalPair(two[side], cue, ("", ""), label, counterfactuals=two)
            for side, label in enumerate(labels)
        ]
    return PairSet("-or-".join(labels), labels, tuple(made), notes=(note,))


def _cleaned(texts: str | Sequence[str]) -> list[str]:
    lines = texts.split("\n") if isinstance(texts, str) else texts
    return [cleaned for text in lines if (cleaned := clean_text(text, "prompt"))]


def _in_order(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether prompts at the same place have at least as much in common as those at the next place."""
    return sum(map(_in_common, first, second)) >= sum(map(_in_common, first, [*second[1:], second[0]]))


def _alike(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """For each prompt of the shorter list, the one that has most in common with it among those that are left."""
    if len(first) > len(second):
        return [(one, other) for other, one in _alike(second, first)]
    left = list(second)
    return [(one, left.pop(max(range(len(left)), key=lambda i: _in_common(one, left[i])))) for one in first]


def _in_common(one: str, other: str) -> float:
    """The words that two prompts share, as a share of all of their words."""
    first, second = _words(one), _words(other)
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


@lru_cache(100_000)
def _words(prompt: str) -> frozenset[str]:
    return frozenset(prompt.lower().split())
