"""`pivotal list`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pivotal.cli import asked, show


def list_names(
    kind: Annotated[
        Literal["models", "phenomena", "searches", "masks", "recipes"],
        typer.Argument(help="What to list.", show_default=False),
    ],
    json: asked.Json = False,
) -> None:
    """List the models, phenomena, searches (with options and presets), masks or recipes of studies that have a name."""
    listed = entries(kind)
    if json:
        show.as_json({kind: listed})
        return
    for i, entry in enumerate(listed):
        if entry["options"] and i:
            show.line("")
        _print(entry, width=max(len(e["name"]) for e in listed))


def entries(kind: str) -> list[dict[str, Any]]:
    if kind == "models":
        from pivotal.models import list_models

        return [_plain_entry(name, summary) for name, summary in list_models()]
    if kind == "recipes":
        from pivotal.jobs.study.recipe import read_recipe
        from pivotal.jobs.study.shipped import shipped

        return [_plain_entry(name, read_recipe(path).about) for name, path in shipped().items()]
    found = [_entry(name, cls) for name, cls in _registry(kind).items()]
    if kind == "phenomena":  # their options are for Python: the command line has no way to give them
        found = [{**entry, "options": []} for entry in found]
    return found


def _plain_entry(name: str, summary: str) -> dict[str, Any]:
    return {"name": name, "summary": summary, "options": [], "presets": {}}


def _registry(kind: str) -> Any:
    if kind == "phenomena":
        from pivotal.questions.phenomena import PHENOMENA

        return PHENOMENA
    if kind == "searches":
        from pivotal.searches import SEARCHES

        return SEARCHES
    from pivotal.searches.masks import MASKS

    return MASKS


def _entry(name: str, cls: type) -> dict[str, Any]:
    from pivotal.options import options_of

    options = [
        {
            "name": o.name,
            "takes": o.allowed,
            "default": None if o.required else _plain(o.default),
            "help": o.help,
        }
        for o in options_of(cls)
        if o.name != "path"
    ]
    title = f"{name}:PATH" if getattr(cls, "takes_path", False) else name
    presets = {preset: dict(values) for preset, values in getattr(cls, "presets", {}).items()}
    return {"name": title, "summary": getattr(cls, "summary", ""), "options": options, "presets": presets}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | type(None)) else str(value)


def _print(entry: dict[str, Any], width: int) -> None:
    from pivotal.report.tables import Table

    show.line(f"{entry['name']:<{width}}  {entry['summary']}")
    if entry["options"]:
        rows = tuple((f"  {o['name']}", str(o["default"]), o["help"] or o["takes"]) for o in entry["options"])
        show.table(Table("", ("  option", "default", ""), rows))
    for preset, values in entry["presets"].items():
        settings = " ".join(f"{name}={value}" for name, value in values.items())
        show.line(f"  --preset {preset}: {settings}")
