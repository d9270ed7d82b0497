"""`pivotal list`: the names that can be given to other verbs, and the runs made so far."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument
from pivotal.errors import PivotalError

RUNS = "runs"

Entry = dict[str, Any]


def list_names(
    kind: Annotated[
        Literal["models", "phenomena", "searches", "masks", "bases", "recipes", "exports", "runs"],
        argument("What to list."),
    ],
    folder: Annotated[str | None, argument(f"For runs: the folder that holds them. Default: {RUNS}.")] = None,
    json: shared_options.Json = False,
) -> None:
    """List models, phenomena, searches (with options and presets), masks, bases, study recipes, export targets, or
    runs."""
    from pivotal.report.tables import Table

    if folder is not None and kind != "runs":
        raise PivotalError(f"A folder goes with `pivotal list runs` only, not with {kind}. Leave it out.")
    listed = run_entries(folder or RUNS) if kind == "runs" else entries(kind)
    if json:
        terminal.as_json({kind: listed})
    elif kind == "runs":
        _print_runs(listed, folder or RUNS)
    elif kind == "phenomena":
        columns = ("phenomenon", "labels", "pairs", "")
        rows = [(e["name"], " / ".join(e["labels"]), _shown(e["pairs"]), e["summary"]) for e in listed]
        terminal.table(Table("", columns, tuple(rows), frozenset({2})))
    else:
        for entry in listed:
            _print(entry)


# -- names ----------------------------------------------------------------------------------------------------------


def entries(kind: str) -> list[Entry]:
    """The things of a kind, each with its name and a sentence; plugins also have options and presets."""
    if kind == "phenomena":
        from pivotal.questions.phenomena import list_phenomena

        return list(map(asdict, list_phenomena()))
    if kind == "models":
        from pivotal.models import list_models

        return [{"name": name, "summary": summary} for name, summary in list_models()]
    if kind == "recipes":
        from pivotal.jobs.study.recipe import read_recipe, shipped

        return [{"name": name, "summary": read_recipe(path).about} for name, path in shipped().items()]
    from pivotal.exports import TARGETS
    from pivotal.problem.bases import BASES
    from pivotal.searches import SEARCHES
    from pivotal.searches.masks import MASKS

    registry: Any = {"exports": TARGETS, "bases": BASES, "searches": SEARCHES, "masks": MASKS}[kind]
    return [_plugin(name, cls) for name, cls in registry.items()]


def _plugin(name: str, cls: type) -> Entry:
    from pivotal.options import options_of
    from pivotal.records.serial import plain

    options = [
        {"name": o.name, "takes": o.allowed, "default": plain(o.default), "help": o.help}
        for o in options_of(cls)
    ]
    values: dict[str, str] = getattr(cls, "preset_values", {})
    presets = {
        preset: ({"values": values[preset]} if preset in values else {}) | settings
        for preset, settings in getattr(cls, "presets", {}).items()
    }
    return {"name": name, "summary": getattr(cls, "summary", ""), "options": options, "presets": presets}


def _print(entry: Entry) -> None:
    """A name and a sentence, and the options and presets of a plugin."""
    from pivotal.report.tables import Table

    terminal.line(f"{entry['name']:<16}  {entry['summary']}")
    if options := entry.get("options"):
        rows = [(f"  {o['name']}", _shown(o["default"]), o["help"] or o["takes"]) for o in options]
        terminal.table(Table("", ("  option", "default", ""), tuple(rows)))
    for preset, values in entry.get("presets", {}).items():
        settings = " ".join(f"{name}={value}" for name, value in values.items())
        terminal.line(f"  --preset {preset}: {settings}")
    if options:
        terminal.line("")


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if type(value) is int else str(value)


# -- runs -----------------------------------------------------------------------------------------------------------


def run_entries(folder: str) -> list[Entry]:
    """The runs and studies in a folder, or the runs of a study if the folder is a study."""
    from pivotal.jobs.run_folder import RUN
    from pivotal.jobs.runs import listed_run, run_paths
    from pivotal.records.study import STUDY

    given = Path(folder)
    if not given.is_dir():
        raise PivotalError(f"There is no folder {folder}. Make {RUNS}/ with `pivotal find`, or name another.")
    if (given / RUN).is_file():
        return [listed_run(given)]
    found = list(map(listed_run, run_paths(given)))
    found += [_study(path.parent) for path in given.glob(f"*/{STUDY}")]
    return sorted(found, key=lambda entry: str(entry["path"]))


def _study(path: Path) -> Entry:
    from pivotal.report.study import StudyFolder

    try:
        study = StudyFolder.open(path)
    except PivotalError as error:
        return {"path": str(path), "kind": "unreadable", "finished": False, "error": str(error)}
    rows = study.rows
    done, failed = sum(row.done for row in rows), sum(row.failed for row in rows)
    named = {"name": study.info.name, "started": study.info.started}
    return {"path": str(path), "kind": "study", **named, "done": done, "failed": failed, "error": None}


def _print_runs(listed: list[Entry], folder: str) -> None:
    from pivotal.report.tables import Table, percent

    if not listed:
        terminal.line(f"There are no runs in {folder}.")
        return
    rows = []
    for e in listed:
        scores = e.get("verdict") or "", percent(e.get("flip_accuracy")), _shown(e.get("units"))
        rows.append((e["path"], *_about(e), *scores))
    columns = ("folder", "question", "state", "verdict", "flipped", "units")
    terminal.table(Table("", columns, tuple(rows), frozenset({4, 5})))
    terminal.line("`pivotal show FOLDER` shows one of them.", style="dim")


def _about(entry: Entry) -> tuple[str, str]:
    """The question and the state of a run or a study."""
    from pivotal.printing import counted

    if entry["error"] is not None:
        return "–", str(entry["error"])
    if entry["kind"] == "study":
        failed = f", {entry['failed']} failed" if entry["failed"] else ""
        return str(entry["name"]), f"{counted(entry['done'], 'run')} done{failed}"
    state = "finished" if entry["finished"] else "unfinished"
    return f"{entry['phenomenon']} in {entry['model']}, {entry['steps']}", state
