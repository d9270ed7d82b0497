"""RAVEL (Huang et al. 2024): the entities, attributes and prompts of its folder, and instances that a model answers.

An instance is a prompt that asks for an attribute of a base entity, and the prompt of a source entity. Both answers are
known: greedily, the model gives the right attribute to the prompt with either entity, and the two answers differ.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import torch

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models import LanguageModel
from pivotal.models.transformers.tokens import Tokens
from pivotal.models.tree import PrefixTree

Ids = tuple[int, ...]
Right: TypeAlias = dict[str, dict[str, Ids]]
"""By prompt and entity: the tokens of the right answer."""

KINDS = ("city", "nobel_prize_winner", "occupation", "physical_object", "verb")
FILES = ("entity_attributes", "attribute_to_prompts", "entity_to_split", "prompt_to_split")
SPLITS = ("train", "val", "test")
SLOT = "%s"
LONGEST = 3
"""The most tokens of an answer that are compared, as in RAVEL."""


# -- the data ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ravel:
    """One type of entity, as published."""

    kind: str
    values: dict[str, dict[str, str]]
    """For each entity, the value of each attribute."""
    prompts: dict[str, list[str]]
    """For each attribute, its prompts. The entity takes the place of %s."""
    entity_split: dict[str, str]
    prompt_split: dict[str, str]

    def entities(self, split: str) -> list[str]:
        return sorted(name for name in self.values if self.entity_split[name] == split)

    def prompts_of(self, attribute: str, split: str) -> list[str]:
        return [one for one in self.prompts[attribute] if self.prompt_split[one] == split]


def read(folder: str | Path, kind: str) -> Ravel:
    """One type of entity of a RAVEL folder. Raises PivotalError if a file is missing or spoilt."""
    if kind not in KINDS:
        raise PivotalError(
            f"A type of RAVEL is one of {', '.join(KINDS)}, not {kind!r}.{did_you_mean(kind, KINDS)}"
        )
    paths = [Path(folder) / f"ravel_{kind}_{name}.json" for name in FILES]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise PivotalError(
            f"A RAVEL folder holds {len(FILES)} files for each type, but {folder} has no {', no '.join(missing)}. "
            "Unpack data.tgz of github.com/explanare/ravel, and name the folder 'data' that it contains."
        )
    values, prompts, entity_split, prompt_split = (_table(path) for path in paths)
    found = Ravel(kind, values, prompts, entity_split, prompt_split)
    for names, splits, path in (
        (values, entity_split, paths[2]),
        ([one for some in prompts.values() for one in some], prompt_split, paths[3]),
    ):
        for name in names:
            if splits.get(name) not in SPLITS:
                raise PivotalError(
                    f"{path.name}: each name has a split, {', '.join(SPLITS)}, but {name!r} has "
                    f"{splits.get(name)!r}. Unpack data.tgz again: the files belong together."
                )
    return found


def _table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PivotalError(f"{path.name} is not JSON ({error}). Unpack data.tgz again.") from None
    if not isinstance(table, dict) or not table:
        raise PivotalError(f"{path.name} is a JSON object with a key for each name. Unpack data.tgz again.")
    return table


# -- prompts as a model reads them -------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A prompt with an entity, as tokens."""

    prompt: str
    entity: str
    ids: Ids
    place: int
    """The position of the entity's last token."""


def read_by(model: LanguageModel, text: str) -> tuple[Ids, list[int]]:
    """The tokens of a text, and where in the text each ends."""
    vocabulary = model.vocabulary
    if isinstance(vocabulary, Tokens):
        made = vocabulary.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return tuple(made["input_ids"]), [end for _, end in made["offset_mapping"]]
    encoding = model.encode(text)
    ends, at = [], 0
    for word in text.split():
        at = text.index(word, at) + len(word)
        ends.append(at)
    return encoding.ids, [ends[word] for word in encoding.word]


def ask(model: LanguageModel, prompt: str, entity: str) -> Asked:
    before, _, after = prompt.partition(SLOT)
    ids, ends = read_by(model, before + entity + after)
    end = len(before) + len(entity)
    return Asked(prompt, entity, ids, next(i for i, at in enumerate(ends) if at >= end))


def answer(model: LanguageModel, asked: Asked, value: str) -> Ids | None:
    """The first tokens of a value after a prompt. None if they merge with those of the prompt."""
    text = asked.prompt.replace(SLOT, asked.entity)
    joint = " " if text[-1].isalnum() or text[-1] in ",;:.=>" else ""
    ids = read_by(model, text + joint + value)[0]
    rest = ids[len(asked.ids) :][:LONGEST]
    return rest if rest and ids[: len(asked.ids)] == asked.ids else None


def plain(value: str) -> str:
    """The first of several values, without the slashes of a pronunciation and the `to` of a definition."""
    return value.partition(",")[0].strip().strip("/").removeprefix("to ")


# -- what a model knows ------------------------------------------------------------------------------------


class Knowledge:
    """The right answers that a model gives greedily."""

    def __init__(self, model: LanguageModel, ravel: Ravel, at_once: int = 64) -> None:
        self._model, self._ravel, self._at_once = model, ravel, at_once
        self.right: Right = defaultdict(dict)

    @torch.no_grad()
    def ask(self, attribute: str, prompt: str, entities: Iterable[str]) -> float:
        """Ask for the attribute of some entities. The share of right answers."""
        model, asked, answers = self._model, [], []
        for entity in entities:
            value = plain(self._ravel.values[entity].get(attribute, ""))
            one = ask(model, prompt, entity)
            if value and (said := answer(model, one, value)) is not None:
                asked.append(one)
                answers.append(said)
        right = self.right[prompt]
        for start in range(0, len(asked), self._at_once):
            some = slice(start, start + self._at_once)
            told = zip(asked[some], answers[some], strict=True)
            tree = PrefixTree.build([one.ids + said[:-1] for one, said in told])
            places = answer_rows(tree, answers[some])
            states = model.states(model.prepare(tree))[:, 0]
            greedy = model.readout(states[[row for rows in places for row in rows]]).argmax(-1).tolist()
            for one, said in zip(asked[some], answers[some], strict=True):
                if tuple(greedy[: len(said)]) == said:
                    right[one.entity] = said
                del greedy[: len(said)]
        return len(right.keys() & {one.entity for one in asked}) / max(1, len(asked))


def answer_rows(tree: PrefixTree, answers: Sequence[Ids]) -> list[list[int]]:
    """For each example, the live rows from which the tokens of its answer are predicted."""
    paths = (tree.path(int(leaf)) for leaf in tree.leaf)
    return [tree.live_row[path[-len(said) :]].tolist() for path, said in zip(paths, answers, strict=True)]


@dataclass(frozen=True)
class Sizes:
    """How much of RAVEL is asked."""

    screened: int = 6
    """Prompts of each attribute and split that are tried on a few entities."""
    tried: int = 16
    prompts: tuple[int, int, int] = (4, 2, 3)
    """The prompts of each attribute that are used: those that the model answers best, by split."""
    entities: tuple[int, int, int] = (120, 50, 80)
    least: float = 0.15
    """An attribute is used if the model answers so many of its training prompts right."""
    train: int = 256
    """Training instances of each attribute."""
    test: int = 100
    """Instances of each attribute in each other split."""


def what_it_knows(model: LanguageModel, ravel: Ravel, attribute: str, sizes: Sizes, seed: int = 0) -> Right:
    """The right answers to those prompts of an attribute that the model answers best. There are none if it does not
    know the attribute."""
    rng, known = random.Random(seed), Knowledge(model, ravel)
    entities = [_some(ravel.entities(split), n, rng) for split, n in zip(SPLITS, sizes.entities, strict=True)]
    few = _some(entities[0], sizes.tried, rng)
    for split, many in zip(SPLITS, sizes.prompts, strict=True):
        prompts = [one for one in ravel.prompts_of(attribute, split) if not one.endswith(" ")]
        score = {one: known.ask(attribute, one, few) for one in _some(prompts, sizes.screened, rng)}
        if split == "train":
            share = max(score.values(), default=0.0)
            print(f"{ravel.kind} {attribute}: {share:.0%} with the best prompt", flush=True)
            if share < sizes.least:
                return {}
        best = sorted(score, key=lambda one: -score[one])
        for prompt in best[many:]:
            known.right.pop(prompt, None)
        for prompt in best[:many]:
            for some in entities if split == "train" else entities[:1]:
                known.ask(attribute, prompt, [one for one in some if one not in few])
    return dict(known.right)


def _some(names: Sequence[str], many: int, rng: random.Random) -> list[str]:
    return rng.sample(list(names), min(many, len(names)))


# -- instances ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instance:
    """An exchange between two entities, and the answers of both to the base prompt."""

    attribute: str
    base: Asked
    source: Asked
    own: Ids
    other: Ids

    @cached_property
    def differ(self) -> int:
        """The first token at which the answers differ."""
        return next(i for i, (a, b) in enumerate(zip(self.own, self.other, strict=False)) if a != b)


def instances(
    model: LanguageModel,
    ravel: Ravel,
    right: dict[str, Right],
    sizes: Sizes,
    seed: int = 0,
) -> dict[str, list[Instance]]:
    """Instances by split: `train`; `val`; `entity`, held-out entities in training prompts; `prompt`, held-out prompts
    with training entities. Base and source have prompts and entities of the same split; the source may ask for another
    attribute."""
    rng = random.Random(seed)
    wanted = {
        "train": [("train", "train", sizes.train)],
        "val": [("train", "val", sizes.test // 2), ("val", "train", sizes.test // 2)],
        "entity": [("train", "test", sizes.test)],
        "prompt": [("test", "train", sizes.test)],
    }
    return {
        name: [
            one
            for of_prompts, of_entities, many in parts
            for attribute in right
            for one in _drawn(model, ravel, right, attribute, (of_prompts, of_entities), many, rng)
        ]
        for name, parts in wanted.items()
    }


def _drawn(
    model: LanguageModel,
    ravel: Ravel,
    right: dict[str, Right],
    attribute: str,
    splits: tuple[str, str],
    many: int,
    rng: random.Random,
) -> list[Instance]:
    of_prompts, of_entities = splits
    sources = [one for some in right.values() for one in some if ravel.prompt_split[one] == of_prompts]
    answers = {
        prompt: {entity: said for entity, said in told.items() if ravel.entity_split[entity] == of_entities}
        for prompt, told in right[attribute].items()
        if ravel.prompt_split[prompt] == of_prompts
    }
    pairs = [
        (prompt, base, source)
        for prompt, told in answers.items()
        for base, own in told.items()
        for source, other in told.items()
        if any(a != b for a, b in zip(own, other, strict=False))
    ]
    # Every value of the source is drawn equally often, so that a frequent one cannot be learned by heart.
    by_value: dict[Ids, list[tuple[str, str, str]]] = defaultdict(list)
    for prompt, base, source in rng.sample(pairs, len(pairs)):
        by_value[answers[prompt][source]].append((prompt, base, source))
    chosen: list[tuple[str, str, str]] = []
    while len(chosen) < many and any(by_value.values()):
        for some in by_value.values():
            if some and len(chosen) < many:
                chosen.append(some.pop())
    return [
        Instance(
            attribute,
            ask(model, prompt, base),
            ask(model, rng.choice(sources), source),
            answers[prompt][base],
            answers[prompt][source],
        )
        for prompt, base, source in chosen
    ]
