"""The one serialiser: records to JSON and back, checked against their types.

Every JSON file that pivotal writes and reads back goes through this module. A record is a frozen `Record` with typed
fields. Content that does not fit its type raises one `PivotalError` that names the file, the place in it and the rule.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from pivotal.errors import PivotalError
from pivotal.files import reading, write_text
from pivotal.options import of_python

T = TypeVar("T")

if TYPE_CHECKING:
    Number = float
else:

    class _IsFloat(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, int | float)

    class Number(metaclass=_IsFloat):
        """A number that may be NaN or infinite. They are written to JSON as null and read as NaN."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all records. An unknown key is an error: it is a mistake, or another version wrote it. The
    tag of a record, under the key `format`, names its version."""


_CURE = "The file is damaged, or another version of pivotal wrote it."


def encode(content: Any, *, indent: int = 1) -> str:
    """JSON text of a record, or of dictionaries and lists of records; `indent=0` gives a single line."""
    return msgspec.json.format(msgspec.json.encode(content, enc_hook=_builtin), indent=indent).decode()


def plain(content: Any) -> Any:
    """Content as plain JSON values: dictionaries, lists, text, numbers, None."""
    return msgspec.json.decode(msgspec.json.encode(content, enc_hook=_builtin))


def decode(data: bytes | str, kind: type[T], where: str, cure: str = _CURE) -> T:
    """The record that a JSON text holds; `where` names the text in messages."""
    data = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_number)
    except msgspec.ValidationError as error:
        raise PivotalError(f"{where}: {_sentence(str(error))} {cure}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PivotalError(
            f"{where} must be JSON, but it cannot be read ({_position(str(error), data)}). {cure}"
        ) from None
    except RecursionError:
        raise PivotalError(f"{where} cannot be read: its values are nested too deeply. {cure}") from None


def read(path: Path, kind: type[T], *, missing: str = "", cure: str = _CURE) -> T:
    """The record in a file; `missing` is the message if there is no such file."""
    with reading(path, missing=missing):
        data = path.read_bytes()
    return decode(data, kind, str(path), cure)


def write(path: Path, record: Any) -> None:
    """Write a record atomically as indented JSON."""
    write_text(path, encode(record) + "\n")


def convert(content: Any, kind: type[T], where: str) -> T:
    """The record in JSON content that was read before. If `kind` is a dataclass, unknown keys are skipped."""
    try:
        return msgspec.convert(content, kind, dec_hook=_number)
    except msgspec.ValidationError as error:
        raise PivotalError(f"{where}: {_sentence(str(error))} {_CURE}") from None


def _builtin(value: object) -> object:
    """Called by msgspec for other types, such as numpy.float64 or the version string of torch."""
    if (plain := of_python(value)) is not value or isinstance(value, str):
        return str(plain) if isinstance(plain, str) else plain
    raise TypeError(f"A record holds text, numbers, lists and records, but not a {type(value).__name__}.")


def _number(kind: type, value: object) -> int | float:
    """Called by msgspec for the type `Number`."""
    if value is None:
        return math.nan
    if type(value) in (int, float):
        return value  # type: ignore[return-value]
    raise ValueError(f"Expected `float | null`, got `{_JSON_NAMES.get(type(value), 'object')}`")


# -- messages -----------------------------------------------------------------------------------------------

_JSON_NAMES = {str: "str", bool: "bool", list: "array", dict: "object"}
_NAMES = {
    "float": "a number",
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def _sentence(error: str) -> str:
    """What msgspec says, such as "Expected `float`, got `str` - at `$.runs[2].kl`", as a sentence."""
    said, _, at = error.partition(" - at ")
    place = at.strip("`").removeprefix("$").lstrip(".")
    subject = place or "the content"
    if match := re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`", said):
        return f"{subject} must be {_named(match[1])}, but it is {_named(match[2])}."
    if match := re.fullmatch(r"Object (missing required|contains unknown) field `([^`]*)`", said):
        key = f"{place}.{match[2]}" if place else match[2]
        return f"{key} is missing." if "missing" in match[1] else f"there is no key {key} in this format."
    if match := re.fullmatch(r"Invalid (?:enum )?value (.*)", said):
        return f"{subject} cannot be {match[1]}."
    return f"{subject}: {said[:1].lower()}{said[1:]}."


def _named(kinds: str) -> str:
    return " or ".join(_NAMES.get(kind, kind) for kind in kinds.split(" | "))


def _position(error: str, data: bytes) -> str:
    """The error with line and column in place of the number of the byte."""
    if match := re.search(r" \(byte (\d+)\)", error):
        before = data[: int(match[1])]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        place = f"line {line}, column {column}" if b"\n" in data else f"column {column}"
        return f"{error[: match.start()]} in {place}"
    return error


__all__ = ["Number", "Record", "convert", "decode", "encode", "plain", "read", "replace", "write"]
