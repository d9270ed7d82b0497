"""Reader of plain pairs of sentences: a good one, a tab, and a bad one that differs in one word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import SKIP, BadRows, name_of
from pivotal.questions.readers.assemble import assemble
from pivotal.questions.readers.base import Reader, Sample
from pivotal.questions.readers.choice import Choice, between_sentences

_RIGHT, _WRONG = (
    ("good", "correct", "right", "1", "grammatical"),
    ("bad", "wrong", "incorrect", "0", "ungrammatical"),
)
_HEADS = {*_RIGHT, *_WRONG, "sentence_good", "sentence_bad", "sentence", "label"}


@dataclass(frozen=True)
class Sentences(Reader):
    """Lines of `good<TAB>bad`, or of `sentence<TAB>correct` followed by `sentence<TAB>wrong`."""

    name: ClassVar[str] = "sentences"
    summary: ClassVar[str] = (
        "reads pairs of sentences: sentences:FILE with lines good<TAB>bad, or sentence<TAB>correct"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        lines: Lines = []
        for number, line in enumerate(read_text(path).split("\n"), start=1):
            cells = [" ".join(cell.split()) for cell in line.split("\t")]
            if any(cells) and not (not lines and {cell.lower() for cell in cells} <= _HEADS):
                lines.append((f"{path}, line {number}", cells))
        choices = []
        for where, good, wrong in _judged(lines, bad) if _are_judged(lines) else _beside(lines, bad):
            with bad.row():
                try:
                    choices.append(Choice(where, *between_sentences(good, wrong)))
                except PivotalError as error:
                    raise PivotalError(f"{where}: {error}") from None
        return assemble(name_of(path), choices, bad)

    @classmethod
    def recognises(cls, sample: Sample) -> bool:
        lines = [line for line in sample.text.split("\n")[:20] if line.strip()]
        cells = [line.split("\t") for line in lines]
        return bool(lines) and all(len(row) == 2 and " " in row[0].strip() for row in cells)


Lines = list[tuple[str, list[str]]]


def _are_judged(lines: Lines) -> bool:
    """Whether the second cell of most lines says if the first is right."""
    verdicts = {*_RIGHT, *_WRONG}
    return 2 * sum(len(cells) == 2 and cells[1].lower() in verdicts for _, cells in lines) > len(lines)


def _beside(lines: Lines, bad: BadRows) -> list[tuple[str, str, str]]:
    found = []
    for where, cells in lines:
        with bad.row():
            wrong = ""
            if len(cells) == 1:
                wrong = "has no tab. An editor may have replaced it by spaces. Put it back"
            elif len(cells) > 2:
                wrong = f"has {len(cells) - 1} tabs. Remove the others"
            elif not all(cells):
                wrong = f"has nothing {'before' if cells[1] else 'after'} its tab. Add the sentence"
            if wrong:
                raise PivotalError(
                    f"{where}: a line has a good and a bad sentence with one tab between them, but "
                    f"“{' '.join(cells).strip():.60}” {wrong}.{SKIP}"
                )
            found.append((where, cells[0], cells[1]))
    return found


def _judged(lines: Lines, bad: BadRows) -> list[tuple[str, str, str]]:
    """A right and a wrong sentence follow each other, in any order. A line without its other one is left to `bad` on
    its own, so that the lines after it are paired as they should be."""
    right: list[bool | None] = [None] * len(lines)
    for i, (where, cells) in enumerate(lines):
        with bad.row():
            right[i] = _is_right(where, cells)
    found = []
    i = 0
    while i < len(lines):
        where, cells = lines[i]
        after = right[i + 1] if i + 1 < len(lines) else None
        if right[i] is not None and after is not None and after is not right[i]:
            both = cells[0], lines[i + 1][1][0]
            found.append((where, *(both if right[i] else both[::-1])))
            i += 2
            continue
        if right[i] is not None:
            with bad.row():
                other = "wrong" if right[i] else "right"
                raise PivotalError(
                    f"{where}: a right sentence and a wrong one follow each other, but the line after “{cells[0]:.60}” "
                    f"has no {other} sentence. Add it.{SKIP}"
                )
        i += 1
    return found


def _is_right(where: str, cells: list[str]) -> bool:
    verdict = cells[1].lower() if len(cells) == 2 else ""
    if not cells[0] or verdict not in (*_RIGHT, *_WRONG):
        raise PivotalError(
            f"{where}: a line has a sentence, a tab and correct or wrong, but it is “{' '.join(cells):.60}”. "
            f"Correct it.{SKIP}"
        )
    return verdict in _RIGHT
