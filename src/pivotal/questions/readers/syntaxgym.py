"""Reader of test suites of SyntaxGym (Gauthier et al. 2020).

A suite predicts that a region is less surprising in one condition than in another. If both conditions have the same
words before the region, the first words of the region are two words after one prefix. If there are two such
predictions, their labels are the conditions that should be likelier, such as match_sing and match_plural.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.choices import Choice, assemble, between_continuations
from pivotal.questions.rows import BadRows, json_file, name_of

_REGION = r"\(\s*(\d{1,9}|\*)\s*;\s*%([^%]+)%\s*\)"
_COMPARED = re.compile(rf"{_REGION}\s*([<>])\s*{_REGION}")


class _Region(msgspec.Struct):
    region_number: int
    content: str


class _Condition(msgspec.Struct):
    condition_name: str
    regions: list[_Region]


class _Item(msgspec.Struct):
    conditions: list[_Condition]


class _Prediction(msgspec.Struct):
    formula: str


class _Suite(msgspec.Struct):
    items: list[_Item]
    predictions: list[_Prediction | str]
    meta: dict[str, Any] = {}


@dataclass(frozen=True)
class SyntaxGym(Reader):
    """A test suite in JSON."""

    name: ClassVar[str] = "syntaxgym"
    summary: ClassVar[str] = "reads test suites of SyntaxGym (Gauthier et al. 2020): syntaxgym:SUITE.json"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        suite = json_file(path, _Suite, "A test suite is a JSON object with items and predictions.")
        compared = list(dict.fromkeys(_compared(suite)))
        if not compared:
            example = "(6;%mismatch%) > (6;%match%)"
            raise PivotalError(f"{path}: no prediction compares one region in two conditions, as {example}.")
        choices: dict[tuple[int, str, str], list[Choice]] = {}
        for number, item in enumerate(suite.items, start=1):
            for comparison in compared:
                where = f"{path}, item {number}"
                with bad.row(where):
                    choices.setdefault(comparison, []).extend(_choice(where, item, *comparison))
        asked = [found for found in choices.values() if found]
        left_out = sum(not found for found in choices.values())
        if not asked and left_out:
            raise PivotalError(f"{path} compares one word after two prefixes, not two words after one.")
        if len(asked) != 2:
            asked = [[replace(choice, label="") for choice in found] for found in asked]
        every = [choice for found in asked for choice in found]
        made = assemble(str(suite.meta.get("name") or name_of(path)), every, bad)
        note = f"Left out {left_out} of {len(compared)} comparisons, of one word after two prefixes."
        return replace(made, notes=(note, *made.notes)) if left_out else made


def _compared(suite: _Suite) -> Iterator[tuple[int, str, str]]:
    """The comparisons of the predictions: the region, the condition that should be likelier, and the other."""
    for prediction in suite.predictions:
        formula = prediction if isinstance(prediction, str) else prediction.formula
        for region, left, sign, other, right in _COMPARED.findall(formula):
            if region == other and region != "*":
                yield (int(region), right, left) if sign == ">" else (int(region), left, right)


def _choice(where: str, item: _Item, region: int, better: str, worse: str) -> list[Choice]:
    """The choice of an item; none if the conditions differ before the region."""
    texts = []
    for name in (better, worse):
        found = [condition.regions for condition in item.conditions if condition.condition_name == name]
        if len(found) != 1:
            raise PivotalError(f"An item has every condition once, but {name!r} {len(found)} times.")
        before = " ".join(part.content for part in found[0] if part.region_number < region)
        texts.append((before, " ".join(part.content for part in found[0] if part.region_number == region)))
    (prefix, good), (other, bad) = texts
    if prefix.split() != other.split():
        return []
    return [Choice(where, *between_continuations(prefix, good, bad), label=better)]
