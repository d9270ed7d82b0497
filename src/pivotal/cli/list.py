"""`pivotal list`: the names that can be given to other verbs, and the runs made so far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pivotal.cli import shared_options, terminal
from pivotal.errors import PivotalError

RUNS = "runs"


def list_names(
    kind: Annotated[
        Literal["models", "phenomena", "searches", "masks", "bases", "recipes", "exports", "runs"],
        typer.Argument(help="What to list.", show_default=False),
    ],
    folder: Annotated[
        str | None,
        typer.Argument(help=f"For runs: the folder that holds them. Default: {RUNS}.", show_default=False),
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """List models, phenomena, searches (with their options and presets), masks, bases, recipes of studies, exports
    (targets of `pivotal export`), or runs."""
    if folder is not None and kind != "runs":
        raise PivotalError(f"A folder is given for `pivotal list runs` only, not for {kind}. Leave it out.")
    listed = run_entries(folder or RUNS) if kind == "runs" else entries(kind)
    if json:
        terminal.as_json({kind: listed})
    elif kind == "runs":
        _print_runs(listed, folder or RUNS)
    elif kind == "phenomena":
        _print_phenomena(listed)
    else:
        for i, entry in enumerate(listed):
            if entry["options"] and i:
                terminal.line("")
            _print(entry, width=max(len(e["name"]) for e in listed))


# -- names ----------------------------------------------------------------------------------------------------------


def entries(kind: str) -> list[dict[str, Any]]:
    if kind == "models":
        from pivotal.models import list_models

        return [_plain_entry(name, summary) for name, summary in list_models()]
    if kind == "recipes":
        from pivotal.jobs.study.recipe import read_recipe, shipped

        return [_plain_entry(name, read_recipe(path).about) for name, path in shipped().items()]
    if kind == "phenomena":
        from pivotal.questions.phenomena import listed_phenomena

        return [_phenomenon(one) for one in listed_phenomena()]
    if kind == "exports":
        from pivotal.exports import TARGETS

        return [_plain_entry(name, cls.summary) for name, cls in TARGETS.items()]
    return [_entry(name, cls) for name, cls in _registry(kind).items()]


def _plain_entry(name: str, summary: str) -> dict[str, Any]:
    return {"name": name, "summary": summary, "options": [], "presets": {}}


def _phenomenon(one: Any) -> dict[str, Any]:
    """An entry with labels and size. Options are for Python only."""
    return {**_plain_entry(one.name, one.summary), "labels": list(one.labels), "pairs": one.pairs}


def _registry(kind: str) -> Any:
    if kind == "searches":
        from pivotal.searches import SEARCHES

        return SEARCHES
    if kind == "bases":
        from pivotal.problem.bases import BASES

        return BASES
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
    ]
    stated: dict[str, str] = getattr(cls, "preset_values", {})
    presets = {
        preset: ({"values": stated[preset]} if preset in stated else {}) | settings
        for preset, settings in getattr(cls, "presets", {}).items()
    }
    return {"name": name, "summary": getattr(cls, "summary", ""), "options": options, "presets": presets}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | type(None)) else str(value)


def _print(entry: dict[str, Any], width: int) -> None:
    from pivotal.report.tables import Table

    terminal.line(f"{entry['name']:<{width}}  {entry['summary']}")
    if entry["options"]:
        rows = tuple(
            (f"  {o['name']}", "–" if o["default"] is None else str(o["default"]), o["help"] or o["takes"])
            for o in entry["options"]
        )
        terminal.table(Table("", ("  option", "default", ""), rows))
    for preset, values in entry["presets"].items():
        settings = " ".join(f"{name}={value}" for name, value in values.items())
        terminal.line(f"  --preset {preset}: {settings}")


def _print_phenomena(listed: list[dict[str, Any]]) -> None:
    from pivotal.report.tables import Table

    rows = tuple(
        (
            entry["name"],
            " / ".join(entry["labels"]),
            "–" if entry["pairs"] is None else f"{entry['pairs']:,}",
            entry["summary"],
        )
        for entry in listed
    )
    terminal.table(Table("", ("phenomenon", "labels", "pairs", ""), rows, frozenset({2})))


# -- runs -----------------------------------------------------------------------------------------------------------


def run_entries(folder: str) -> list[dict[str, Any]]:
    """The runs and studies in a folder, or the runs of a study if the folder is a study."""
    from pivotal.jobs.run_folder import RUN
    from pivotal.records.study import STUDY

    given = Path(folder)
    if not given.is_dir():
        raise PivotalError(
            f"There is no folder {folder}. `pivotal find` makes {RUNS}/; or name another folder."
        )
    if (given / RUN).is_file():
        return [_run(given)]
    pattern = f"runs/*/*/{RUN}" if (given / STUDY).is_file() else f"*/{RUN}"
    found = [_run(path.parent) for path in given.glob(pattern)]
    found += [_study(path.parent) for path in given.glob(f"*/{STUDY}")]
    return sorted(found, key=lambda entry: str(entry["path"]))


def _run(path: Path) -> dict[str, Any]:
    from pivotal.jobs.run_folder import RunFolder

    try:
        folder = RunFolder.open(path)
        flipped, units = _scores(folder)
        return {
            "path": str(path),
            "kind": "run",
            "phenomenon": folder.settings.get("phenomenon"),
            "model": folder.settings.get("model"),
            "steps": folder.settings.get("steps"),
            "finished": folder.finished,
            "flip_accuracy": flipped,
            "units": units,
            "started": folder.info.started,
        }
    except PivotalError as error:
        return _unreadable(path, error)


def _scores(folder: Any) -> tuple[float | None, int | None]:
    """Flip accuracy and number of units of a finished run: those of its best run."""
    if not folder.finished:
        return None, None
    summary = folder.summary()
    return summary.flip_accuracy, summary.units


def _study(path: Path) -> dict[str, Any]:
    from pivotal.records import serial
    from pivotal.records.study import RESULTS, STUDY, StudyRecord, read_results

    try:
        info, rows = serial.read(path / STUDY, StudyRecord), read_results(path / RESULTS).rows
    except PivotalError as error:
        return _unreadable(path, error)
    return {
        "path": str(path),
        "kind": "study",
        "name": info.name,
        "done": sum(row.done for row in rows),
        "failed": sum(row.failed for row in rows),
        "started": info.started,
    }


def _unreadable(path: Path, error: PivotalError) -> dict[str, Any]:
    """The entry of a damaged folder, which must not hide the others."""
    return {"path": str(path), "kind": "unreadable", "finished": False, "error": str(error)}


def _print_runs(listed: list[dict[str, Any]], folder: str) -> None:
    from pivotal.report.tables import Table, percent

    if not listed:
        terminal.line(f"There are no runs in {folder}.")
        return
    rows = tuple(
        (
            entry["path"],
            entry["kind"],
            _about(entry),
            _state(entry),
            percent(entry.get("flip_accuracy")),
            "–" if entry.get("units") is None else str(entry["units"]),
        )
        for entry in listed
    )
    terminal.table(
        Table("", ("folder", "kind", "question", "state", "flipped", "units"), rows, frozenset({4, 5}))
    )
    terminal.line("`pivotal show FOLDER` shows one run.", style="dim")


def _about(entry: dict[str, Any]) -> str:
    if entry["kind"] == "study":
        return str(entry["name"])
    if "error" in entry:
        return "–"
    return f"{entry['phenomenon']} in {entry['model']}, {entry['steps']}"


def _state(entry: dict[str, Any]) -> str:
    from pivotal.report.tables import counted

    if entry["kind"] == "study":
        failed = f", {entry['failed']} failed" if entry["failed"] else ""
        return f"{counted(entry['done'], 'run')} done{failed}"
    if "error" in entry:
        return str(entry["error"])
    return "finished" if entry["finished"] else "unfinished"
