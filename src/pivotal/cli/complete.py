"""Shell completion of names. A shell runs this at every press of the Tab key, so nothing here imports torch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def models(incomplete: str) -> list[str]:
    """Bundled and local models. For anything else the shell completes paths."""
    from pivotal.files import asset, models_home

    home = models_home()
    local = [path.parent for depth in ("*", "*/*") for path in home.glob(f"{depth}/config.json")]
    bundled = [path.parent.name for path in asset("models").glob("*/config.json")]
    return _starting(
        incomplete, [*bundled, *(path.relative_to(home).as_posix() for path in local), "planted"]
    )


def phenomena(incomplete: str) -> list[str]:
    from pivotal.questions.phenomena import phenomenon_names

    return _starting(incomplete, phenomenon_names())


def recipes(incomplete: str) -> list[str]:
    from pivotal.jobs.study.recipe import shipped

    return _starting(incomplete, shipped())


def searches(incomplete: str) -> list[str]:
    return _starting(incomplete, _plugins("searches"))


def exports(incomplete: str) -> list[str]:
    return _starting(incomplete, _plugins("exports"))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and not name.startswith("."))


def _plugins(folder: str) -> list[str]:
    """The built-in plugins of a folder, by the line that names them: importing one imports torch."""
    paths = (Path(__file__).parents[1] / folder).glob("*.py")
    named = re.compile(r'^    name: ClassVar\[str\] = "([\w-]+)"$', re.M)
    return [name for path in paths for name in named.findall(path.read_text(encoding="utf-8"))]
