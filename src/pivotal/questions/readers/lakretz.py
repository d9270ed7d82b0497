"""Reader of the number agreement (NA) tasks of Lakretz et al. (2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from pivotal.errors import PivotalError
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
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        files = [path]
        if path.is_dir():
            names = [f"{task}.txt" for task in TASKS]
            files = [path / name for name in names if (path / name).exists()]
            if not files:
                raise PivotalError(f"{path}: the folder must hold at least one of {', '.join(names)}.")
        pairs = tuple(pair for file in files for pair in _read(file, bad))
        if not pairs:
            raise PivotalError(f"{path}: there must be at least one pair, but there is none.{bad.first()}")
        return PairSet(self.name, LABELS, pairs, held_out=1000, notes=bad.notes())  # as in the paper


class _Sentence(NamedTuple):
    where: str
    words: list[str]
    condition: str
    verdict: str
    key: str


def _read(path: Path, bad: BadRows) -> list[MinimalPair]:
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
            found.append(_pair(path.stem, sentences))
    return found


def _sentence(where: str, line: str) -> _Sentence:
    cells = [cell.strip() for cell in line.split("\t")]
    words = cells[0].split()
    if (
        len(cells) != 4
        or len(words) < 3
        or cells[1].split("_")[0] not in LABELS
        or cells[2] not in ("correct", "wrong")
    ):
        raise PivotalError(
            f"A row is a sentence (an article, a subject, … and a verb), a condition that begins with "
            f"singular or plural, correct or wrong, and an id, with tabs between them, not “{line.strip():.80}”."
        )
    return _Sentence(where, words, *cells[1:])


def _pair(group: str, sentences: list[_Sentence]) -> MinimalPair:
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
