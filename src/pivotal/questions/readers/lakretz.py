"""Reader of the number agreement (NA) tasks of Lakretz et al. (2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import read_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows
from pivotal.questions.readers.base import Reader
from pivotal.questions.templates import bundled, read_template
from pivotal.questions.templates.lexicon import Lexicon

LABELS = ("singular", "plural")
TASKS = ("simple", "adv", "adv_adv", "adv_conjunction", "namepp", "nounpp", "nounpp_adv")
"""The names of the files, and of the templates of number-agreement, which has the same constructions."""


@dataclass(frozen=True)
class Lakretz(Reader):
    """Tab-separated rows: sentence, condition, correct or wrong, id. The subject is the second word."""

    name: ClassVar[str] = "lakretz"
    labels: ClassVar[tuple[str, str] | None] = LABELS
    summary: ClassVar[str] = (
        "reads the NA tasks of Lakretz et al. (2019): lakretz:FOLDER, or one of its files"
    )

    def pairs(self) -> PairSet:
        path = Path(self.path)
        files = [path]
        if path.is_dir():
            names = [f"{task}.txt" for task in TASKS]
            files = [path / name for name in names if (path / name).exists()]
            if not files:
                raise PivotalError(f"{path}: the folder must hold at least one of {', '.join(names)}.")
        bad = BadRows(self.reading.skip_bad)
        pairs = tuple(pair for file in files for pair in _read(file, bad))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, pairs, held_out=1000, notes=bad.notes())  # as in the paper


@dataclass(frozen=True)
class _Sentence:
    where: str
    words: list[str]
    condition: str
    verdict: str
    """"correct" or "wrong"."""


def _read(path: Path, bad: BadRows) -> list[MinimalPair]:
    by_id: dict[str, list[_Sentence]] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            with bad.row():
                key, sentence = _sentence(f"{path}, line {number}", line)
                by_id.setdefault(key, []).append(sentence)
    if not by_id:
        raise PivotalError(f"{path}: the file must hold at least two rows; it is empty.{bad.first()}")
    found = []
    for key, sentences in by_id.items():
        with bad.row():
            found.append(_pair(path.stem, key, sentences))
    return found


def _sentence(where: str, line: str) -> tuple[str, _Sentence]:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != 4:
        raise PivotalError(
            f"{where}: a row has 4 cells (sentence, condition, correct or wrong, id) with tabs between them, "
            f"not {len(cells)}."
        )
    text, condition, verdict, key = cells
    words = text.split()
    if len(words) < 3:
        raise PivotalError(
            f"{where}, column 1: a sentence is an article, a subject, … and a verb, not '{text}'."
        )
    number = condition.split("_")[0]
    if number not in LABELS:
        raise PivotalError(
            f"{where}, column 2: a condition begins with the subject's number, singular or plural, "
            f"not '{number}'.{did_you_mean(number, LABELS)}"
        )
    if verdict not in ("correct", "wrong"):
        raise PivotalError(f"{where}, column 3: must be correct or wrong, not '{verdict}'.")
    return key, _Sentence(where, words, condition, verdict)


def _pair(group: str, key: str, sentences: list[_Sentence]) -> MinimalPair:
    last = sentences[-1]
    right = [sentence for sentence in sentences if sentence.verdict == "correct"]
    wrong = [sentence for sentence in sentences if sentence.verdict == "wrong"]
    if len(right) != 1 or len(wrong) != 1:
        raise PivotalError(
            f"{last.where}, column 4: an id stands on one correct and one wrong row; '{key}' is on "
            f"{len(right)} correct and {len(wrong)} wrong."
        )
    prefix = right[0].words[:-1]
    if wrong[0].words[:-1] != prefix or wrong[0].condition != right[0].condition:
        raise PivotalError(
            f"{last.where}, column 1: the two rows of '{key}' may differ in their last word only."
        )
    label = right[0].condition.split("_")[0]
    words = right[0].words[-1], wrong[0].words[-1]
    if label == "plural":
        words = words[1], words[0]
    try:
        return MinimalPair(" ".join(prefix), 1, words, label, group, _lexemes(group, prefix, words[1]))
    except PivotalError as error:
        raise PivotalError(f"{last.where}, column 1: {error}") from None


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
