"""Sources of minimal pairs: bundled template files, and phenomena in code, one module each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pivotal.errors import PivotalError, nearest
from pivotal.files import suffix_of
from pivotal.options import build
from pivotal.questions import pairs_file
from pivotal.questions.pairs import PairSet, read_pairs
from pivotal.questions.phenomena.base import Phenomenon
from pivotal.questions.readers import READERS, ReadOptions, reader_of
from pivotal.questions.templates import template_file as templates
from pivotal.registry import Registry

__all__ = [
    "PHENOMENA",
    "Listed",
    "Phenomenon",
    "check_reading",
    "list_phenomena",
    "load_phenomenon",
    "phenomenon_names",
]

PHENOMENA: Registry[Phenomenon] = Registry(
    "phenomena",
    "pivotal.questions.phenomena",
    Phenomenon,  # type: ignore[type-abstract]
)
"""The phenomena that are classes, such as plugins. The bundled template files are `templates.bundled()`."""


@dataclass(frozen=True)
class Listed:
    """What `pivotal list phenomena` shows of a phenomenon."""

    name: str
    """As users write it: `number-agreement`, or `blimp:PATH`."""
    labels: tuple[str, ...]
    """The two labels; empty if they depend on a file."""
    summary: str
    pairs: int | None
    """The number of pairs, or None if it depends on a file."""


def load_phenomenon(spec: str | Path, reading: ReadOptions | None = None, **options: object) -> PairSet:
    """Load pairs by name ("number-agreement"), with a reader ("blimp:FILE"), or from a file: a template file
    ("my.yaml") or a pairs file ("my.jsonl"). `reading` says how files in other formats are read."""
    reading = reading or ReadOptions()
    if (reader := reader_of(spec, reading)) is not None:
        _check_no_options(options)
        return reader.pairs()
    name, _, path = str(spec).partition(":")
    bundled = templates.bundled()
    if name in bundled or name in PHENOMENA:
        if path:
            raise PivotalError(f"'{name}' makes its own pairs and takes no path, not '{path}'. Write {name}.")
        if name in bundled:
            return _from_template(bundled[name], options)
        return build(PHENOMENA.get(name), options).pairs()
    suffix = suffix_of(Path(spec))
    if suffix in templates.SUFFIXES:
        return _from_template(Path(spec), options)
    if suffix in pairs_file.SUFFIXES or Path(spec).exists():
        _check_no_options(options)
        if reading.columns:  # a table in another format
            return READERS.get("table")(str(spec), reading).pairs()
        return read_pairs(spec, skip_bad=reading.skip_bad)
    near = nearest(name, [one.rstrip(":") for one in phenomenon_names()])
    raise PivotalError(
        f"A phenomenon is a known name, a template file ({', '.join(templates.SUFFIXES)}), a pairs file "
        f"({', '.join(pairs_file.SUFFIXES)}) or a file in another format (blimp:PATH …), but '{spec}' is "
        f"not one of these.{f' Did you mean {near!r}?' if near else ''} `pivotal list phenomena` lists the names."
    )


def check_reading(specs: Sequence[str], reading: ReadOptions) -> None:
    """PivotalError if no phenomenon is read with an option that is given."""
    made = {*templates.bundled(), *PHENOMENA.names()}
    files = [s for s in specs if s not in made and suffix_of(Path(s)) not in templates.SUFFIXES]
    tables = [s for s in files if s.startswith("table:") or reader_of(s) is None]
    for option, given, readable, kind in (
        ("--columns", reading.columns, tables, "the columns of a table (.csv, .tsv, .jsonl, table:PATH)"),
        ("--skip-bad", reading.skip_bad, files, "the rows of a file"),
    ):
        if given and not readable:
            raise PivotalError(f"{option} is about {kind}, but {specs[0]} has none. Leave {option} out.")


def phenomenon_names() -> list[str]:
    """All names in alphabetical order; `blimp:` if a path must follow. No file is read."""
    return sorted([*templates.bundled(), *PHENOMENA.names(), *(f"{name}:" for name in READERS.names())])


def list_phenomena() -> list[Listed]:
    """All phenomena in alphabetical order."""
    found = []
    for name, path in templates.bundled().items():
        file = templates.read_template(path)
        found.append(Listed(name, file.labels, file.summary, file.size()))
    found += [Listed(name, cls.labels, cls.summary, len(cls().pairs())) for name, cls in PHENOMENA.items()]
    found += [Listed(f"{name}:PATH", (), cls.summary, None) for name, cls in READERS.items()]
    return sorted(found, key=lambda one: one.name)


def _check_no_options(options: dict[str, object]) -> None:
    if options:
        raise PivotalError(f"A file of pairs takes no options, not '{next(iter(options))}'.")


@dataclass(frozen=True)
class _Sampling:
    """The options of a template file."""

    seed: int = 0
    """Seed of the choice among the possible sentences."""


def _from_template(path: Path, options: dict[str, object]) -> PairSet:
    file = templates.read_template(path)
    return file.pairs(build(_Sampling, options, f"'{file.name}'").seed)
