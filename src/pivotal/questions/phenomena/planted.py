"""The pairs of the planted model: a toy number agreement in three classes of nouns and verbs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena.base import Phenomenon

LEXICON = tuple(
    {
        "noun": tuple((f"noun{c}{n}", f"noun{c}{n}s") for n in "abcd"),
        "verb": tuple((f"verb{c}{v}s", f"verb{c}{v}") for v in "abc"),
    }
    for c in range(3)
)
"""The (singular, plural) nouns and verbs of each class."""
FILLERS = ("near", "behind", "quite", "often")


@dataclass(frozen=True)
class PlantedAgreement(Phenomenon):
    """Every noun with every verb of its class, with at most two fillers between them."""

    name: ClassVar[str] = "planted"
    labels: ClassVar[tuple[str, str]] = ("singular", "plural")
    summary: ClassVar[str] = "toy number agreement for the planted model, whose units are known"

    def pairs(self) -> PairSet:
        gaps = [(), *((a,) for a in FILLERS), *product(FILLERS, FILLERS)]
        found = []
        for c, part in enumerate(LEXICON):
            for forms, verb, gap, number in product(part["noun"], part["verb"], gaps, (0, 1)):
                singular, plural = (" ".join(("The", form, *gap)) for form in forms)
                found.append(
                    MinimalPair(
                        prefix=plural if number else singular,
                        cue=1,
                        words=verb,
                        label=self.labels[number],
                        group=f"class {c}",
                        lexemes=(("noun", forms[0]), ("verb", verb[1])),
                        counterfactuals=(singular, plural),
                    )
                )
        return PairSet(name=self.name, labels=self.labels, pairs=tuple(found))
