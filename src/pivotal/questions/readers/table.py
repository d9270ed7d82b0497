"""Readers of rows with a good and a bad word: tables with columns of their own, plain sentences, and JSON prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import read_text
from pivotal.questions.minimal_pair import joined
from pivotal.questions.pairs import PairSet, read_pairs
from pivotal.questions.pairs_file import index_or_word
from pivotal.questions.readers.base import Reader
from pivotal.questions.readers.choices import Choice, assemble, between_sentences, choices_in, with_twins
from pivotal.questions.rows import SKIP, BadRows, name_of, rows_of

_ROLES: dict[str, tuple[str, ...]] = {
    "prefix": ("prefix", "context", "prompt", "clean_prefix", "clean", "one_prefix_prefix", "query"),
    "good": ("good", "sentence_good", "good_sentence", "correct", "right", "grammatical", "acceptable", "clean_answer",
             "one_prefix_word_good", "target", "answer"),
    "bad": ("bad", "sentence_bad", "bad_sentence", "incorrect", "wrong", "ungrammatical", "unacceptable",
            "patch_answer", "one_prefix_word_bad", "foil", "distractor", "wrong_answer"),
    "other": ("other", "patch_prefix", "corrupt", "corrupted", "counterfactual"),
    "cue": ("cue",),
    "label": ("label",),
    "group": ("group", "construction", "template", "condition", "uid", "category"),
}  # fmt: skip
"""What a column may hold, and usual names of such columns, which need no map."""


@dataclass(frozen=True)
class TableReader(Reader):
    """Rows with a good and a bad word after a prefix, or with two sentences that differ in one word. Also a pairs file,
    with counterfactual prefixes from similar rows."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = (
        "reads tables: table:FILE (.csv, .tsv, .json, .jsonl, .parquet) with --columns good=NAME,bad=NAME"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        rows = list(rows_of(path, bad))
        names = list(dict.fromkeys(key for _, row in rows for key in row))
        if not self.reading.columns and any(name.partition(".")[0] in ("words", "word") for name in names):
            return with_twins(read_pairs(path, skip_bad=self.reading.skip_bad))
        with BadRows(skip=False).row(str(path)):
            columns = columns_of(self.reading.columns, names)
        choices = choices_in(rows, bad, lambda where, row: [_choice(where, row, columns)])
        made = assemble(name_of(path), choices, bad)
        note = "Columns: " + ", ".join(f"{role}={column}" for role, column in columns.items()) + "."
        return replace(made, notes=(note, *made.notes))


def columns_of(text: str, columns: Sequence[str]) -> dict[str, str]:
    """The column of each role, from `prefix=sentence,good=right`, or by the usual names if the text is empty."""
    given: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        role, _, column = (part.strip() for part in item.partition("="))
        if role not in _ROLES or not column or role in given:
            said = f"Columns are given as prefix=NAME,good=NAME,bad=NAME, each role once, not as {item!r}."
            raise PivotalError(f"{said}{did_you_mean(role, _ROLES)}")
        if column not in columns:
            raise PivotalError(f"There is no column {column!r} for {role}.{did_you_mean(column, columns)}")
        given[role] = column
    if not given:
        by_lower = {column.lower(): column for column in reversed(columns)}
        usual = {
            role: [by_lower[name] for name in names if name in by_lower] for role, names in _ROLES.items()
        }
        given = {role: found[0] for role, found in usual.items() if found}
    if missing := [role for role in ("good", "bad") if role not in given]:
        raise PivotalError(
            f"A table needs a column with the {' and one with the '.join(missing)} word or sentence, but its columns "
            f"are {', '.join(columns)}. Name it: --columns prefix=COLUMN,good=COLUMN,bad=COLUMN. If these are no "
            "names, put a line with the names first."
        )
    return given


def _choice(where: str, row: Mapping[str, Any], columns: Mapping[str, str]) -> Choice:
    """The choice of a row. Good and bad differ in one word, with or without a prefix before them."""
    texts = {role: _text(column, row.get(column)) for role, column in columns.items()}
    whole = texts["good"].split()[:1] == texts["bad"].split()[:1]  # sentences need no prefix
    for role in ("good", "bad") if whole else ("prefix", "good", "bad"):
        if not texts.get(role, "-"):
            raise PivotalError(f"The cell is empty, but every row needs it. Fill it.{SKIP}", columns[role])
    before = f"{texts.get('prefix', '')} "
    between = between_sentences(before + texts["good"], before + texts["bad"])
    cue = index_or_word(texts.get("cue", ""))
    more: Any = {role: texts.get(role, "") for role in ("other", "group", "label")}
    return Choice(where, *between, cue=cue, **more)


def _text(column: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise PivotalError(f"A cell must be text, not {value!r:.60}.", column)
    return "" if value is None else " ".join(str(value).split())


# -- plain sentences --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentences(Reader):
    """Lines of `good<TAB>bad`."""

    name: ClassVar[str] = "sentences"
    summary: ClassVar[str] = "reads pairs of sentences: sentences:FILE with lines good<TAB>bad"

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        lines = enumerate(read_text(path).split("\n"), start=1)
        rows = ((f"{path}, line {number}", line) for number, line in lines if line.strip())
        choices = choices_in(rows, bad, lambda where, line: [Choice(where, *_between(line))])
        return assemble(name_of(path), choices, bad)


def _between(line: str) -> tuple[str, str, str]:
    cells = [" ".join(cell.split()) for cell in line.split("\t")]
    if len(cells) != 2 or not all(cells):
        said = f"A line is GOOD<TAB>BAD, but “{line.strip():.60}” has {len(cells) - 1} tabs or an empty side."
        raise PivotalError(f"{said} An editor may have replaced a tab by spaces.{SKIP}")
    return between_sentences(*cells)


# -- prompts of circuit papers ----------------------------------------------------------------------------------------

_NAMES = (
    ("clean_prefix", "patch_prefix", "clean_answer", "patch_answer"),
    ("clean", "corrupt", "answers", "wrong_answers"),
)


@dataclass(frozen=True)
class Circuits(Reader):
    """A JSON list of prompts, or a JSON object on every line, with a clean and a patched prefix and the answer to each.

    The patched prefix is the counterfactual of the clean one. It is also asked itself, with the other answer as the
    right one.
    """

    name: ClassVar[str] = "circuits"
    summary: ClassVar[str] = (
        "reads prompts of circuit papers: circuits:FILE.json with clean_prefix, patch_prefix, clean_answer …"
    )

    def pairs(self) -> PairSet:
        path, bad = Path(self.path), BadRows(self.reading.skip_bad)
        return assemble(name_of(path), choices_in(rows_of(path, bad), bad, _choices), bad)


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
