"""The format of a pairs file: JSON Lines, or a table with columns such as word.singular and lexeme.subject."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pivotal.errors import PivotalError, did_you_mean, nearest
from pivotal.files import suffix_of, write_bytes
from pivotal.questions.minimal_pair import MinimalPair, clean_text, find_cue, members
from pivotal.questions.rows import DELIMITERS, OTHER_FORMATS, Row

SUFFIXES = (".jsonl", *DELIMITERS)
"""The files that pivotal writes."""
_COLUMNS = {"word": "words", "lexeme": "lexemes", "counterfactual": "counterfactual"}
"""What stands before the dot in the names of columns, and the keys that they belong to."""


class PairRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pair as a file states it. The types are checked, the content is not."""

    prefix: str
    cue: int | str | None = None
    words: dict[str, str | list[str]] = {}
    """By label. The words of a set are a list, or one string with `|` between them. None: what follows at all is asked,
    and the row states its label and a counterfactual prefix."""
    label: str | None = None
    group: str | None = None
    lexemes: dict[str, str] | None = None
    counterfactual: dict[str, str] | None = None
    features: str | list[str] = ""
    """What the question is about, such as number: a list, or one string with `|` between them."""

    def __post_init__(self) -> None:
        if not self.words and not self.counterfactual:
            raise ValueError("Object missing required field `words`")


def pair_row(row: Mapping[str, Any], *, table: bool) -> PairRow:
    """A row of a file, whose keys and types are checked."""
    if not isinstance(row, Mapping):
        raise PivotalError(f"A pair is a dictionary with keys such as prefix and words, not {row!r:.60}.")
    try:
        return msgspec.convert(_nested(row) if table else dict(row), PairRow)
    except msgspec.ValidationError as error:
        reason, _, key = str(error).replace("`", "").partition(" - at $.")
        _, of, field = reason.partition(" field ")
        if not of:
            labelled = key in ("words", "counterfactual") and reason.startswith("Expected object")
            cure = ' Write one per label, such as {"singular": "is", "plural": "are"}.' if labelled else ""
            raise PivotalError(f"{reason}.{cure}", key) from None
        missing = "missing" in reason
        said = "This is missing." if missing else f"A pairs file has no such {'column' if table else 'key'}."
        near = "" if missing else nearest(field, PairRow.__struct_fields__)
        cure = f" Did you mean '{near}'?" if near else OTHER_FORMATS
        raise PivotalError(
            f"{said}{cure} This row has {', '.join(row)}. A pairs file has prefix and words, which are two columns in "
            f"a table, such as word.singular and word.plural.{OTHER_FORMATS if near else ''}",
            field,
        ) from None


def _nested(cells: Mapping[str, Any]) -> Row:
    """The cells of a table with those of word.LABEL, lexeme.SLOT and counterfactual.LABEL in dictionaries."""
    row: Row = {}
    for name, cell in cells.items():
        kind, dot, inner = name.partition(".")
        if dot and kind in _COLUMNS:
            if kind == "word" or str(cell).strip():
                row.setdefault(_COLUMNS[kind], {})[inner] = cell
        else:
            row[name] = index_or_word(cell.strip()) if name == "cue" and isinstance(cell, str) else cell
    return row


def index_or_word(cue: str) -> int | str | None:
    """Digits are an index. If the cue is the word "7", a file can give the index of that word."""
    return int(cue) if cue.isascii() and cue.isdigit() and len(cue) < 10 else cue or None


def labels_of_row(row: PairRow) -> list[str]:
    """The two labels: those of the words or, without words, that of the row and that of its counterfactual prefix."""
    others = list(row.counterfactual or {})
    return list(row.words) or [*([row.label] if row.label and row.label not in others else []), *others]


def pair_of_row(row: PairRow, labels: tuple[str, str]) -> MinimalPair:
    """The pair of a row, whose words belong to these labels."""
    words = {clean_text(label, "words"): word for label, word in row.words.items()}
    if words and set(words) != set(labels):
        said = f"This row has words for {' and '.join(words)}, but the others for {' and '.join(labels)}."
        raise PivotalError(f"{said} Correct the labels, or add the words.", "words")
    label = clean_text(row.label or "", "label")
    others = {clean_text(name, "counterfactual"): text for name, text in (row.counterfactual or {}).items()}
    for field, stated in (("label", [label] if label else []), ("counterfactual", list(others))):
        for name in stated:
            if name not in labels:
                raise PivotalError(f"'{name}' is not one of the labels.{did_you_mean(name, labels)}", field)
    if others and label:  # the prefix itself is the counterfactual of its own label
        others.setdefault(label, row.prefix)
    return MinimalPair(
        row.prefix,
        find_cue(row.prefix, row.cue),
        (words.get(labels[0], ""), words.get(labels[1], "")),  # type: ignore[arg-type]
        label,
        row.group or "",
        tuple((row.lexemes or {}).items()),
        (others.get(labels[0], ""), others.get(labels[1], "")),
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def write_pairs(
    path: Path, labels: tuple[str, str], pairs: Sequence[MinimalPair], features: Sequence[str] = ()
) -> None:
    """Write pairs to a file atomically. Its suffix decides the format. Every row states the features."""
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise PivotalError(f"{path}: a pairs file ends in one of {', '.join(SUFFIXES)}, not '{path.suffix}'.")
    about = {"features": list(features)} if features else {}
    rows = [_row_of(pair, labels) | about for pair in pairs]
    if suffix == ".jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        text = _table(rows, DELIMITERS[suffix])
    write_bytes(
        path, gzip.compress(text.encode(), mtime=0) if path.suffix.lower() == ".gz" else text.encode()
    )


def _row_of(pair: MinimalPair, labels: tuple[str, str]) -> Row:
    words = {label: members(entry) for label, entry in zip(labels, pair.words, strict=True) if entry}
    others = {label: text for label, text in zip(labels, pair.counterfactuals, strict=True) if text}
    row = {
        "prefix": pair.prefix,
        "cue": pair.cue,
        "words": {label: entry[0] if len(entry) == 1 else list(entry) for label, entry in words.items()},
        "label": pair.label,
        "group": pair.group,
        "lexemes": dict(pair.lexemes),
        "counterfactual": others,
    }
    return {key: value for key, value in row.items() if value not in ("", None, {})}


def _table(rows: Sequence[Row], delimiter: str) -> str:
    cells = [_flat(row) for row in rows]
    named = dict.fromkeys(name for row in cells for name in row)
    columns = ["prefix", "cue", *(name for name in named if name.startswith("word.")), "label", "group"]
    columns += [
        name
        for start in ("lexeme.", "counterfactual.", "features")
        for name in sorted(named)
        if name.startswith(start)
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return out.getvalue()


def _flat(row: Row) -> Mapping[str, object]:
    """The cells of a row: the reverse of `_nested`."""
    flat = {name: value for name, value in row.items() if name not in _COLUMNS.values()}
    if "features" in flat:
        flat["features"] = "|".join(flat["features"])
    for column, key in _COLUMNS.items():
        for name, value in row.get(key, {}).items():
            flat[f"{column}.{name}"] = value if isinstance(value, str) else "|".join(value)
    return flat
