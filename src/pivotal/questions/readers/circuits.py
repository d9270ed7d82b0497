"""Reader of prompts and answers as papers on circuits publish them.

Each entry has a clean and a patched prefix and the answer to each: `clean_prefix`, `patch_prefix`, `clean_answer`,
`patch_answer`; or `clean`, `corrupt`, `answers`, `wrong_answers`. The patched prefix is the counterfactual of the clean
one. It is also asked itself, with the other answer as the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import joined
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows, name_of
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.choices import Choice, assemble
from pivotal.questions.readers.rows import rows_of

_NAMES = (
    ("clean_prefix", "patch_prefix", "clean_answer", "patch_answer"),
    ("clean", "corrupt", "answers", "wrong_answers"),
)


@dataclass(frozen=True)
class Circuits(Reader):
    """A JSON list of prompts, or a JSON object on every line."""

    name: ClassVar[str] = "circuits"
    summary: ClassVar[str] = (
        "reads prompts of circuit papers: circuits:FILE.json with clean_prefix, patch_prefix, clean_answer …"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        choices = []
        for where, row in rows_of(path, bad):
            with bad.row(where):
                choices += _choices(where, row)
        return assemble(name_of(path), choices, bad)


def _choices(where: str, row: Mapping[str, Any]) -> list[Choice]:
    """The question after the clean prefix and, if there is one, after the patched prefix."""
    names = next((names for names in _NAMES if names[0] in row), _NAMES[0])
    texts = [row.get(name, "") for name in names]
    clean, patch = texts[:2]
    if not isinstance(clean, str) or not isinstance(patch, str) or not clean.strip():
        raise PivotalError(f"{names[0]} and {names[1]} must be texts, not {clean!r:.60} and {patch!r:.60}.")
    good, bad = (_answers(name, text) for name, text in zip(names[2:], texts[2:], strict=True))
    clean, patch, group = " ".join(clean.split()), " ".join(patch.split()), str(row.get("case", ""))
    found = [Choice(where, clean, good, bad, other=patch, group=group)]
    if patch and patch != clean:
        found.append(Choice(where, patch, bad, good, other=clean, group=group))
    return found


def _answers(name: str, value: Any) -> str:
    """An answer, or several of which any is right. Of an answer of several words the first is asked."""
    answers = value if isinstance(value, list) else [value]
    if not all(isinstance(answer, str) for answer in answers) or not "".join(answers).strip():
        raise PivotalError(f"Must be a text or a list of texts, not {value!r:.60}.", name)
    words = [answer.split()[0] for answer in answers if answer.strip()]
    return joined(list(dict.fromkeys(words)))
