"""Which columns of a table hold what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.pairs_file import SKIP
from pivotal.questions.readers.choice import Choice, between_sentences

ROLES = ("prefix", "good", "bad", "other", "cue", "label", "group")
_USUAL: dict[str, tuple[str, ...]] = {
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
"""Usual names of columns, which need no map."""


@dataclass(frozen=True)
class Columns:
    """The name of the column of each role."""

    of: Mapping[str, str]

    @staticmethod
    def parse(text: str, there: Iterable[str]) -> Columns:
        """From `prefix=sentence,good=right`, or by the usual names if the text is empty."""
        columns = list(there)
        if not text.strip():
            return Columns.usual(columns)
        of: dict[str, str] = {}
        for item in text.split(","):
            role, equals, column = (part.strip() for part in item.partition("="))
            if not equals or not role or not column:
                raise PivotalError(
                    f"Columns are given as prefix=NAME,good=NAME,bad=NAME, but {item.strip()!r} is not of this form.",
                    "columns",
                )
            if role not in ROLES:
                raise PivotalError(
                    f"A column is one of {', '.join(ROLES)}, not {role!r}.{did_you_mean(role, ROLES)}",
                    "columns",
                )
            if role in of:
                raise PivotalError(
                    f"There is one column for each role, but {role} has two. Remove one.", "columns"
                )
            of[role] = column
        for role, column in of.items():
            if column not in columns:
                free = [name for name in columns if name not in of.values()]
                raise PivotalError(
                    f"There is no column {column!r} for {role}.{did_you_mean(column, free or columns)}",
                    "columns",
                )
        return Columns(of).checked(columns)

    @staticmethod
    def usual(columns: list[str]) -> Columns:
        """The columns with usual names. Capitals are ignored."""
        by_lower = {column.lower(): column for column in reversed(columns)}
        found = {
            role: next((by_lower[name] for name in names if name in by_lower), "")
            for role, names in _USUAL.items()
        }
        return Columns({role: column for role, column in found.items() if column}).checked(columns)

    def checked(self, columns: list[str]) -> Columns:
        missing = [role for role in ("good", "bad") if role not in self.of]
        if missing:
            raise PivotalError(
                f"A table needs a column with the good word or sentence and one with the bad one, but no column is "
                f"known for {' and '.join(missing)} among {', '.join(columns)}. Name them: --columns "
                "prefix=COLUMN,good=COLUMN,bad=COLUMN. If these are no names, put a line with the names first.",
                "columns",
            )
        return self

    def note(self) -> str:
        return "Columns: " + ", ".join(f"{role}={column}" for role, column in self.of.items()) + "."

    def choice(self, where: str, row: Mapping[str, Any]) -> Choice:
        """The choice of a row. Good and bad differ in one word, with or without a prefix before them."""
        texts = {role: _text(where, column, row.get(column)) for role, column in self.of.items()}
        self._check_filled(where, texts)
        try:
            before = f"{texts['prefix']} " if texts.get("prefix") else ""
            prefix, good, bad = between_sentences(before + texts["good"], before + texts["bad"])
        except PivotalError as error:
            raise PivotalError(f"{where}: {error}") from None
        cue = texts.get("cue", "")
        return Choice(
            where,
            prefix,
            good,
            bad,
            other=texts.get("other", ""),
            cue=int(cue) if cue.isascii() and cue.isdigit() and len(cue) < 10 else cue or None,
            group=texts.get("group", ""),
            label=texts.get("label", ""),
        )

    def _check_filled(self, where: str, texts: Mapping[str, str]) -> None:
        """A prefix may be empty if good and bad are whole sentences."""
        begin_alike = texts["good"].split()[:1] == texts["bad"].split()[:1]
        for role in ("prefix", "good", "bad"):
            if not texts.get(role, "-") and not (role == "prefix" and begin_alike):
                raise PivotalError(
                    f"{where}, column '{self.of[role]}': the cell is empty, but every row needs its {role} text. Fill "
                    f"it.{SKIP}"
                )


def _text(where: str, column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PivotalError(f"{where}, column '{column}': must be text, not {value!r:.60}.")
    return " ".join(str(value).split())
