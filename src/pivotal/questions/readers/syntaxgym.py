"""Reader of test suites of SyntaxGym (Gauthier et al. 2020).

A suite predicts that a region is less surprising in one condition than in another. If both conditions have the same
words before the region, the first words of the region are two words after one prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows, name_of
from pivotal.questions.readers.assemble import assemble
from pivotal.questions.readers.base import Reader, Sample
from pivotal.questions.readers.choice import Choice, between_continuations
from pivotal.questions.readers.rows import json_document

_REGION = r"\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)"
_COMPARED = re.compile(rf"{_REGION}\s*([<>])\s*{_REGION}")


@dataclass(frozen=True)
class SyntaxGym(Reader):
    """A test suite in JSON."""

    name: ClassVar[str] = "syntaxgym"
    summary: ClassVar[str] = "reads test suites of SyntaxGym (Gauthier et al. 2020): syntaxgym:SUITE.json"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        suite = _suite(path)
        compared = list(dict.fromkeys(_compared(path, suite)))
        choices, others = [], set()
        for number, item in enumerate(suite["items"], start=1):
            for comparison in compared:
                with bad.row():
                    choice = _choice(f"{path}, item {number}", item, *comparison)
                    if choice is None:
                        others.add(comparison)
                    else:
                        choices.append(choice)
        if not choices and others:
            raise PivotalError(
                f"{path}: its predictions compare one word after two prefixes, not two words after one prefix."
            )
        meta = suite.get("meta")
        name = meta.get("name") if isinstance(meta, Mapping) else None
        made = assemble(str(name or name_of(path)), choices, bad)
        note = f"Left out {len(others)} of {len(compared)} comparisons, of one word after two prefixes."
        return replace(made, notes=(note, *made.notes)) if others else made

    @classmethod
    def recognises(cls, sample: Sample) -> bool:
        return {"items", "predictions"} <= sample.keys


def _suite(path: Path) -> dict[str, Any]:
    suite = json_document(path, read_text(path))
    if not isinstance(suite, dict):
        raise PivotalError(f"{path}: a test suite is a JSON object with items and predictions.")
    for key in ("items", "predictions"):
        if not isinstance(suite.get(key), list) or not suite[key]:
            raise PivotalError(f"{path}: a test suite is a JSON object with a list of {key}, which it lacks.")
    return suite


def _compared(path: Path, suite: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """The comparisons of the predictions: the region, the condition that should be likelier, and the other."""
    for prediction in suite["predictions"]:
        formula = prediction.get("formula") if isinstance(prediction, Mapping) else prediction
        if not isinstance(formula, str):
            raise PivotalError(f"{path}: a prediction has a formula, not {prediction!r:.60}.")
        for region, left, sign, other, right in _COMPARED.findall(formula):
            if region == other and region != "*":
                yield (int(region), right, left) if sign == ">" else (int(region), left, right)
    if not any(_COMPARED.search(str(p)) for p in suite["predictions"]):
        raise PivotalError(
            f"{path}: a prediction that can be asked compares one region in two conditions, such as "
            "(6;%mismatch%) > (6;%match%), but there is none."
        )


def _choice(where: str, item: Any, region: int, better: str, worse: str) -> Choice | None:
    """The choice of an item; None if the conditions differ before the region."""
    conditions = item.get("conditions") if isinstance(item, Mapping) else None
    if not isinstance(conditions, list):
        raise PivotalError(f"{where}: an item has a list of conditions.")
    texts = {}
    for name in (better, worse):
        found = [c for c in conditions if isinstance(c, Mapping) and c.get("condition_name") == name]
        if len(found) != 1:
            raise PivotalError(f"{where}: an item has every condition once, but {name!r} {len(found)} times.")
        texts[name] = _regions(where, found[0], region)
    (prefix, good), (other, bad) = texts[better], texts[worse]
    if prefix != other:
        return None
    try:
        return Choice(where, *between_continuations(prefix, good, bad))
    except PivotalError as error:
        raise PivotalError(f"{where}: {error}") from None


def _regions(where: str, condition: Mapping[str, Any], region: int) -> tuple[str, str]:
    """The text before a region, and the text of the region."""
    before: list[str] = []
    inside: list[str] = []
    regions = condition.get("regions")
    if not isinstance(regions, list):
        raise PivotalError(f"{where}: a condition has a list of regions.")
    for part in regions:
        number = part.get("region_number") if isinstance(part, Mapping) else None
        content = part.get("content") if isinstance(part, Mapping) else None
        if not isinstance(number, int) or not isinstance(content, str):
            raise PivotalError(f"{where}: a region has a region_number and a content, not {part!r:.60}.")
        if number <= region:
            (inside if number == region else before).extend(content.split())
    return " ".join(before), " ".join(inside)
