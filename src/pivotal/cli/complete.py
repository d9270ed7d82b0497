"""Shell completion of names. A shell runs this at every press of the Tab key, so nothing here imports torch."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import typer


def models(incomplete: str) -> list[str]:
    """Bundled and local models. For anything else the shell completes paths."""
    from pivotal.files import asset, models_home

    folders = [path.parent for path in asset("models").glob("*/config.json")]
    home = models_home()
    local = [path.parent for depth in ("*", "*/*") for path in home.glob(f"{depth}/config.json")]
    names = [folder.name for folder in folders] + [path.relative_to(home).as_posix() for path in local]
    return _starting(incomplete, [*names, "planted"])


def phenomena(incomplete: str) -> list[str]:
    from pivotal.questions.phenomena import phenomenon_names

    return _starting(incomplete, phenomenon_names())


def recipes(incomplete: str) -> list[str]:
    from pivotal.jobs.study.recipe import shipped

    return _starting(incomplete, shipped())


def searches(incomplete: str) -> list[str]:
    return _starting(incomplete, _declared("searches"))


def exports(incomplete: str) -> list[str]:
    return _starting(incomplete, _declared("exports"))


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, _declared("searches").get(ctx.params.get("search") or "learned", ()))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and not name.startswith("."))


def _declared(folder: str) -> dict[str, list[str]]:
    """The built-in plugins of a folder and their presets, read from the source: importing one imports torch."""
    found: dict[str, list[str]] = {}
    for path in (Path(__file__).parents[1] / folder).glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            values = {
                field.target.id: field.value
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            }
            name, given = values.get("name"), values.get("presets")
            if isinstance(name, ast.Constant):
                keys = given.keys if isinstance(given, ast.Dict) else []
                found[str(name.value)] = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
    return found
