"""Readers of the data of three papers: Lakretz et al. (2019), Gulordava et al. (2018) and Vig et al. (2020)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.rows import json_file
from pivotal.questions.templates import bundled, read_template
from pivotal.questions.templates.lexicon import Lexicon

NUMBER, PRONOUNS = ("singular", "plural"), ("he", "she")
_VERDICTS = ("correct", "wrong")

# -- Lakretz et al.: number agreement tasks ---------------------------------------------------------------------------

TASKS = ("simple", "adv", "adv_adv", "adv_conjunction", "namepp", "nounpp", "nounpp_adv")
"""The names of the files, and of the templates of number-agreement, which has the same constructions."""


@dataclass(frozen=True)
class Lakretz(Reader):
    """Tab-separated rows: sentence, condition, correct or wrong, id. The subject is the second word."""

    name: ClassVar[str] = "lakretz"
    labels: ClassVar[tuple[str, str] | None] = NUMBER
    summary: ClassVar[str] = (
        "reads the NA tasks of Lakretz et al. (2019): lakretz:FOLDER, or one of its files"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        files = [path]
        if path.is_dir():
            names = [f"{task}.txt" for task in TASKS]
            files = [path / name for name in names if (path / name).exists()]
            if not files:
                raise PivotalError(f"{path}: the folder must hold at least one of {', '.join(names)}.")
        pairs = tuple(pair for file in files for pair in _read_task(file, bad))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, NUMBER, pairs, held_out=1000, notes=bad.notes())  # as in the paper


class _Sentence(NamedTuple):
    where: str
    words: list[str]
    condition: str
    verdict: str
    key: str


def _read_task(path: Path, bad: BadRows) -> list[MinimalPair]:
    by_id: dict[str, list[_Sentence]] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            with bad.row(where):
                sentence = _sentence(where, line)
                by_id.setdefault(sentence.key, []).append(sentence)
    found = []
    for sentences in by_id.values():
        with bad.row(sentences[-1].where):
            found.append(_lakretz_pair(path.stem, sentences))
    return found


def _sentence(where: str, line: str) -> _Sentence:
    cells = [cell.strip() for cell in line.split("\t")]
    words = cells[0].split()
    if (
        len(cells) != 4
        or len(words) < 3
        or cells[1].split("_")[0] not in NUMBER
        or cells[2] not in ("correct", "wrong")
    ):
        raise PivotalError(
            f"A row is a sentence (an article, a subject, … and a verb), a condition that begins with "
            f"singular or plural, correct or wrong, and an id, with tabs between them, not “{line.strip():.80}”."
        )
    return _Sentence(where, words, *cells[1:])


def _lakretz_pair(group: str, sentences: list[_Sentence]) -> MinimalPair:
    right, wrong = ([s for s in sentences if s.verdict == verdict] for verdict in ("correct", "wrong"))
    shared = {(*sentence.words[:-1], sentence.condition) for sentence in sentences}
    if len(right) != 1 or len(wrong) != 1 or len(shared) != 1:
        raise PivotalError(
            f"An id stands on one correct and one wrong row, which differ in their last word "
            f"only, but '{sentences[-1].key}' is on {len(right)} correct and {len(wrong)} wrong."
        )
    prefix, label = right[0].words[:-1], right[0].condition.split("_")[0]
    words = right[0].words[-1], wrong[0].words[-1]
    if label == "plural":
        words = words[::-1]
    return MinimalPair(" ".join(prefix), 1, words, label, group, _lexemes(group, prefix, words[1]))


def _lexemes(group: str, prefix: list[str], plural_verb: str) -> tuple[tuple[str, str], ...]:
    """The lemma of a verb is its plural. A noun outside our word lists is its own lemma."""
    subject = _lemmas("subject").get(prefix[1], prefix[1])
    middle = tuple(
        (slot, _lemmas(slot)[word])
        for slot in ("attractor", "name")
        for word in prefix[2:]
        if word in _lemmas(slot)
    )
    if not middle and group.startswith("nounpp") and "the" in prefix[2:-1]:
        middle = (("attractor", prefix[prefix.index("the", 2) + 1]),)
    return (("subject", subject), ("verb", plural_verb), *middle)


@cache
def attractor_numbers() -> Mapping[str, str]:
    """The number of each form of the nouns between subject and verb."""
    return {word: number for entry in _lexicon()["attractor"].entries for number, word in entry.forms.items()}


@cache
def _lemmas(slot: str) -> Mapping[str, str]:
    return {word: entry.lemma for entry in _lexicon()[slot].entries for word in entry.forms.values()}


@cache
def _lexicon() -> Lexicon:
    """The word lists of number-agreement. Its nouns and names are also theirs."""
    return read_template(bundled()["number-agreement"]).lexicon


# -- Gulordava et al.: generated.tab ----------------------------------------------------------------------------------

_NUMBERS = {"sing": "singular", "plur": "plural"}
_TYPES = {"original": "original", "generated": "nonce"}
_SENTENCE = ("pattern", "constr_id", "sent_id", "type")
"""The columns that the rows of the two verb forms of a sentence share."""
_COLUMNS = (*_SENTENCE, "correct_number", "form", "class", "prefix", "len_context")


@dataclass(frozen=True)
class Gulordava(Reader):
    """Tab-separated rows, one for each sentence and verb form. The sentences come from a treebank, or are nonce.

    The cue is the word that the verb agrees with: the head of the subject, or another verb with the same subject.
    """

    name: ClassVar[str] = "gulordava"
    labels: ClassVar[tuple[str, str] | None] = NUMBER
    summary: ClassVar[str] = "reads the test set of Gulordava et al. (2018): gulordava:generated.tab"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        sentences: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for where, cells in _tab_rows(path):
            with bad.row(where):
                row = _checked(where, cells)
                sentences.setdefault(tuple(row[name] for name in _SENTENCE), []).append(row)
        pairs = []
        for rows in sentences.values():
            with bad.row(rows[-1]["where"]):
                pairs.append(_gulordava_pair(rows))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, NUMBER, tuple(pairs), notes=bad.notes())


def _tab_rows(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    table = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter="\t")
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise PivotalError(
            f"{path}, line 1: the columns must include {', '.join(_COLUMNS)}; there is no {', '.join(missing)}."
        )
    for cells in table:
        yield f"{path}, line {table.line_num}", cells


def _checked(where: str, cells: Mapping[str, str]) -> dict[str, str]:
    row = {name: cells[name] or "" for name in _COLUMNS} | {"where": where}
    for name, known in (("class", _VERDICTS), ("correct_number", _NUMBERS), ("type", _TYPES)):
        if row[name] not in known:
            raise PivotalError(f"{name} must be {' or '.join(known)}, not '{row[name]}'.")
    words, context = len(row["prefix"].split()), row["len_context"]
    if not context.isdecimal() or not 0 < int(context) <= words:
        raise PivotalError(
            f"len_context counts words of the prefix, from 1 to {words}, but it is '{context}'."
        )
    return row


def _gulordava_pair(rows: list[dict[str, str]]) -> MinimalPair:
    right, wrong = ([row for row in rows if row["class"] == verdict] for verdict in _VERDICTS)
    shared = {(row["prefix"], row["correct_number"]) for row in rows}
    if len(right) != 1 or len(wrong) != 1 or len(shared) != 1:
        raise PivotalError(
            f"A sentence has one correct and one wrong row with the same prefix and number, but "
            f"here are {len(right)} and {len(wrong)}."
        )
    row, number = right[0], _NUMBERS[right[0]["correct_number"]]
    words = (row["form"], wrong[0]["form"])
    cue = len(row["prefix"].split()) - int(row["len_context"])
    # A nonce sentence and its original share this lexeme, so that a split by words keeps them in one part.
    family = ("sentence", f"{row['pattern']}-{row['constr_id']}")
    words = words if number == "singular" else words[::-1]
    return MinimalPair(row["prefix"], cue, words, number, _TYPES[row["type"]], (family,))


# -- Vig et al.: templates.json and a list of professions -------------------------------------------------------------

TEMPLATES_FILE = "templates.json"
# The first file that exists is used. The published list also has phrases, which have no single cue.
PROFESSIONS_FILES = ("derived_professions_gpt2_single_token.json", "professions.json")

# The list rates whether a word is male (1) or female (-1) by definition: waiter is 1, actor 0.8, priest 0.7.
DEFINITIONAL = 0.8


@dataclass(frozen=True)
class Vig(Reader):
    """Every one-word profession in every template."""

    name: ClassVar[str] = "vig"
    labels: ClassVar[tuple[str, str] | None] = PRONOUNS
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
                    pairs += _vig_pair(template, profession, f"t{number:02}")
        if not pairs:
            raise PivotalError(f"{folder}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, PRONOUNS, tuple(pairs), held_out=200, notes=bad.notes())  # as in the paper


def _vig_pair(template: str, profession: list[Any], group: str) -> list[MinimalPair]:
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
    return [MinimalPair(prefix, template.split().index("{}"), PRONOUNS, label, group, lexemes, (man, woman))]
