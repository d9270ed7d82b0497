"""Reader of plain pairs of sentences: a good one, a tab, and a bad one that differs in one word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.files import read_text
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import SKIP, BadRows, name_of
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.choices import Choice, assemble, between_sentences


@dataclass(frozen=True)
class Sentences(Reader):
    """Lines of `good<TAB>bad`."""

    name: ClassVar[str] = "sentences"
    summary: ClassVar[str] = "reads pairs of sentences: sentences:FILE with lines good<TAB>bad"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        choices = []
        for number, line in enumerate(read_text(path).split("\n"), start=1):
            if line.strip():
                where = f"{path}, line {number}"
                with bad.row(where):
                    choices.append(Choice(where, *_between(line)))
        return assemble(name_of(path), choices, bad)


def _between(line: str) -> tuple[str, str, str]:
    cells = [" ".join(cell.split()) for cell in line.split("\t")]
    if len(cells) != 2 or not all(cells):
        raise PivotalError(
            f"A line has a good and a bad sentence with one tab between them, but “{line.strip():.60}” has "
            f"{len(cells) - 1} tabs or an empty side. An editor may have replaced a tab by spaces.{SKIP}"
        )
    return between_sentences(*cells)
