"""Parts of the documentation that `mkdocs build` makes from the code: commands, searches and records.

A comment such as `<!-- commands -->` marks the place in a page. Read as plain Markdown, the page lacks that part.
"""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from pivotal.cli.list import entries
from pivotal.cli.main import app
from record_schemas import RECORDS, schema


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of every page."""
    for name, filled in FILLED.items():
        mark = f"<!-- {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, filled())
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end: writes llms.txt, the list of pages for programs that read (llmstxt.org)."""
    text = (Path(config["docs_dir"]) / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (.*\]\(.*\).*) \|$", text, re.MULTILINE)
    lines = [
        f"- [{title}]({page.replace('.md', '.html')}): to {purpose}"
        for purpose, links in rows
        for title, page in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", links)
    ]
    said = [
        f"# {config['site_name']}",
        f"> {config['site_description']}",
        "## Documentation",
        "\n".join(lines),
    ]
    (Path(config["site_dir"]) / "llms.txt").write_text("\n\n".join(said) + "\n", encoding="utf-8")


# -- verbs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a verb, as typer is told of it."""

    name: str
    kind: Any
    default: Any
    about: ArgumentInfo | OptionInfo

    @property
    def flags(self) -> list[str]:
        """`--max-units`, or both of `--tied/--no-tied`; none of an argument."""
        if isinstance(self.about, ArgumentInfo):
            return []
        # Within Annotated, typer takes the first flag for the default.
        texts = (self.about.default, *(self.about.param_decls or ()))
        declared = [flag for text in texts if isinstance(text, str) for flag in text.split("/")]
        return declared or [f"--{self.name.replace('_', '-')}"]

    @property
    def value(self) -> str:
        """What is written for it; nothing for a switch."""
        if self.about.metavar or isinstance(self.about, ArgumentInfo):
            return self.about.metavar or self.name.upper()
        return _written(self.kind)

    @property
    def panel(self) -> str:
        plain = "Arguments" if isinstance(self.about, ArgumentInfo) else "Options"
        return self.about.rich_help_panel if isinstance(self.about.rich_help_panel, str) else plain

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def row(self) -> tuple[str, str, str]:
        shown = ", ".join(f"`{flag}`" for flag in self.flags)
        unset = self.default is None or self.default is False
        default = "required" if self.required else "" if unset else f"`{self.default}`"
        name = f"{shown} `{self.value}`" if shown and self.value else shown or f"`{self.value}`"
        return name, _prose(self.about.help or ""), default


def commands() -> str:
    """Every verb with its arguments and options, in the panels of its help."""
    return "\n".join(
        _verb(str(info.name), info.callback) for info in app.registered_commands if info.callback
    )


def parameters_of(verb: Callable[..., Any]) -> list[Parameter]:
    found = []
    for name, parameter in inspect.signature(verb, eval_str=True).parameters.items():
        if parameter.annotation is not typer.Context:
            kind, about = get_args(parameter.annotation)
            found.append(Parameter(name, kind, parameter.default, about))
    return found


def _verb(name: str, verb: Callable[..., Any]) -> str:
    parameters = parameters_of(verb)
    arguments = [p.value if p.required else f"[{p.value}]" for p in parameters if not p.flags]
    needed = [f"{p.flags[0]} {p.value}" for p in parameters if p.flags and p.required]
    usage = " ".join(["pivotal", name, *arguments, *needed, "[OPTIONS]"])
    parts = [f"## pivotal {name}\n", f"```\n{usage}\n```\n", f"{_prose(inspect.getdoc(verb) or '')}\n"]
    for panel in dict.fromkeys(p.panel for p in parameters):
        rows = [p.row() for p in parameters if p.panel == panel]
        parts.append(_table((panel, "", "default"), rows))
    return "\n".join(parts)


def _written(kind: Any) -> str:
    """A type as a reader of help sees it."""
    if get_origin(kind) is Annotated:
        return _written(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    inner = [part for part in get_args(kind) if part is not NoneType]
    if inner:
        return _written(inner[0])
    return {bool: "", int: "INTEGER", float: "NUMBER"}.get(kind, "TEXT")


# -- searches -------------------------------------------------------------------------------------------------------


def searches() -> str:
    """Every search with its options and presets, as `pivotal list searches` shows them."""
    parts = []
    for entry in entries("searches"):
        parts.append(f"### {entry['name']}\n\n{_prose(entry['summary'])}\n")
        rows = [
            (
                f"`{o['name']}`",
                _prose(o["help"] or o["takes"]),
                "" if o["default"] is None else f"`{o['default']}`",
            )
            for o in entry["options"]
        ]
        parts.append(_table(("option", "", "default"), rows))
        for preset, values in entry["presets"].items():
            settings = " ".join(f"{name}={value}" for name, value in values.items())
            parts.append(f"`--preset {preset}`: `{settings}`\n")
    return "\n".join(parts)


def records() -> str:
    """Every file with its record, and the fields of that record and of those within it."""
    parts = []
    for name, (file, kind) in RECORDS.items():
        parts.append(
            f"## {file}\n\n{_prose(inspect.getdoc(kind) or '')} [JSON Schema](schemas/{name}.json)\n"
        )
        for title, definition in schema(kind)["$defs"].items():
            if title != kind.__name__:
                about = _prose(definition.get("description", ""))
                parts.append(f"### {title} {{: #{name}-{title.lower()} }}\n\n{about}\n")
            rows = [
                (
                    f"`{field}`",
                    _kind(name, given),
                    _prose(given.get("description", "")),
                    "" if field in definition.get("required", ()) else "may be absent",
                )
                for field, given in definition["properties"].items()
            ]
            parts.append(_table(("field", "type", "", ""), rows))
    return "\n".join(parts)


def _kind(record: str, given: dict[str, Any]) -> str:
    """A type of JSON Schema in words, with a link where it is a record."""
    if "$ref" in given:
        title = given["$ref"].rpartition("/")[2]
        return f"[{title}](#{record}-{title.lower()})"
    if "anyOf" in given:
        named = [word for one in given["anyOf"] for word in _kind(record, one).split(" or ")]
        return " or ".join(dict.fromkeys(named))
    if "enum" in given:
        return " or ".join(f"`{value}`" for value in given["enum"])
    kinds = given.get("type", "anything")
    if kinds == "array":
        within = given.get("items") or given.get("prefixItems", [{}])[0]
        return f"list of {_kind(record, within)}"
    if kinds == "object" and isinstance(values := given.get("additionalProperties"), dict) and values:
        return f"object of {_kind(record, values)}"
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


FILLED: dict[str, Callable[[], str]] = {"commands": commands, "searches": searches, "records": records}


# -- Markdown -------------------------------------------------------------------------------------------------------


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (columns, ("---",) * len(columns), *rows)]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    """Help is plain text with code in backticks: everything else must mean itself."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    pieces = re.split(r"(`[^`]*`)", "\n\n".join(paragraphs))
    return "".join(piece if piece.startswith("`") else _plain(piece) for piece in pieces)


def _plain(text: str) -> str:
    return re.sub(r"([\\*_|\[\]])", r"\\\1", html.escape(text, quote=False))
