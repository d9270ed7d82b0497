"""Reader of the gender data of Vig et al. (2020): templates.json and a list of professions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.rows import json_file

TEMPLATES_FILE = "templates.json"
# The first file that exists is used. The published list also has phrases, which have no single cue.
PROFESSIONS_FILES = ("derived_professions_gpt2_single_token.json", "professions.json")

# The list rates whether a word is male (1) or female (-1) by definition: waiter is 1, actor 0.8, priest 0.7.
DEFINITIONAL = 0.8
LABELS = ("he", "she")


@dataclass(frozen=True)
class Vig(Reader):
    """Every one-word profession in every template."""

    name: ClassVar[str] = "vig"
    labels: ClassVar[tuple[str, str] | None] = LABELS
    summary: ClassVar[str] = "reads the gender data of Vig et al. (2020): vig:FOLDER with templates.json"

    def pairs(self) -> PairSet:
        folder, bad = Path(self.path), BadRows(self.reading.skip_bad)
        names = [name for name in PROFESSIONS_FILES if (folder / name).exists()]
        if not names:
            raise PivotalError(
                f"{folder}: a folder must hold {TEMPLATES_FILE} and one of {', '.join(PROFESSIONS_FILES)}."
            )
        rule = "the file must hold a JSON list of templates"
        templates = json_file(folder / TEMPLATES_FILE, list[str], rule)
        rule = "the file must hold a JSON list of professions, each a list of its name and its ratings"
        professions = json_file(folder / names[0], list[list[Any]], rule)
        pairs = []
        for number, template in enumerate(templates, start=1):
            for profession in professions:
                with bad.row(str(folder)):
                    pairs += _pair(template, profession, f"t{number:02}")
        if not pairs:
            raise PivotalError(f"{folder}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, tuple(pairs), held_out=200, notes=bad.notes())  # as in the paper


def _pair(template: str, profession: list[Any], group: str) -> list[MinimalPair]:
    """The pair of a template and a profession; none if the profession has several words. A profession has no other
    gender, so "man" and "woman" take its place in the counterfactual prefixes."""
    match profession:
        case [str(name), int() | float() as rating, *_] if (
            template.split().count("{}") == template.count("{}") == 1
        ):
            if len(name.replace("_", " ").split()) != 1:
                return []
        case _:
            raise PivotalError(
                f"A template has {{}} once, as its own word, and a profession is its name and how far "
                f"it is male (1) or female (-1) by definition, but here are {template!r:.40} and {profession!r:.40}."
            )
    prefix, man, woman = (template.replace("{}", noun) for noun in (name.strip(), "man", "woman"))
    label = "he" if rating >= DEFINITIONAL else "she" if rating <= -DEFINITIONAL else ""
    lexemes = (("profession", name.strip()),)
    return [MinimalPair(prefix, template.split().index("{}"), LABELS, label, group, lexemes, (man, woman))]
