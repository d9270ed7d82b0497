"""Reader of the gender data of Vig et al. (2020): templates.json and a list of professions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.rows import json_document

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
        folder = Path(self.path)
        if not folder.is_dir():
            raise PivotalError(
                f"{folder}: there is no such folder. Give the one that holds {TEMPLATES_FILE}."
            )
        bad = BadRows(self.reading.skip_bad)
        templates = _templates(folder / TEMPLATES_FILE, bad)
        names = [name for name in PROFESSIONS_FILES if (folder / name).exists()]
        if not names:
            raise PivotalError(f"{folder}: the folder must hold one of {', '.join(PROFESSIONS_FILES)}.")
        professions = _professions(folder / names[0], bad)
        pairs = []
        for group, template in templates.items():
            for profession, label in professions:
                with bad.row():
                    pairs.append(_pair(folder, template, profession, group, label))
        if not pairs:
            raise PivotalError(f"{folder}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, tuple(pairs), held_out=200, notes=bad.notes())  # as in the paper


def _pair(folder: Path, template: str, profession: str, group: str, label: str) -> MinimalPair:
    """The pair of a template and a profession. A profession has no other gender, so "man" and "woman" take its place in
    the counterfactual prefixes."""
    cue = template.split().index("{}")
    prefix, man, woman = (template.replace("{}", noun) for noun in (profession, "man", "woman"))
    lexemes = (("profession", profession),)
    try:
        return MinimalPair(prefix, cue, LABELS, label, group, lexemes, (man, woman))
    except PivotalError as error:
        raise PivotalError(f"{folder}: {error}") from None


def _list(path: Path) -> list[object]:
    content = json_document(path, read_text(path))
    if not isinstance(content, list) or not content:
        raise PivotalError(f"{path}: the file must hold a JSON list with at least one entry.")
    return content


def _templates(path: Path, bad: BadRows) -> dict[str, str]:
    """The templates by group. A group is named after the place of its template in the file."""
    templates: dict[str, str] = {}
    for number, template in enumerate(_list(path), start=1):
        with bad.row():
            if (
                not isinstance(template, str)
                or template.split().count("{}") != 1
                or template.count("{}") != 1
            ):
                raise PivotalError(
                    f"{path}, entry {number}: a template is a string with {{}} once, as a word of its own, "
                    f"not {template!r:.60}."
                )
            templates[f"t{number:02}"] = template
    return templates


def _professions(path: Path, bad: BadRows) -> list[tuple[str, str]]:
    """The one-word entries as (profession, label). The label is empty unless the word names a gender."""
    professions: list[tuple[str, str]] = []
    for number, entry in enumerate(_list(path), start=1):
        with bad.row():
            match entry:
                case [str(name), int() | float() as rating, *_] if name.strip():
                    if len(name.replace("_", " ").split()) == 1:
                        label = "he" if rating >= DEFINITIONAL else "she" if rating <= -DEFINITIONAL else ""
                        professions.append((name.strip(), label))
                case _:
                    raise PivotalError(
                        f"{path}, entry {number}: a profession is a list of its name and how far it is male (1) "
                        f"or female (-1) by definition, not {entry!r:.60}."
                    )
    if not professions:
        raise PivotalError(
            f"{path}: at least one profession must be a single word, but none is.{bad.first()}"
        )
    return professions
