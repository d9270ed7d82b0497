"""The tables of docs/results*.md that are made from the rows of benchmarks. Each takes the folder of the rows."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import peers
import verdict_rates
from pivotal.records.study import read_results
from pivotal.report.tables import interval, number, percent

Row = dict[str, Any]

PLURAL = ("regular_plural_subject_verb_agreement_1", "irregular_plural_subject_verb_agreement_1")
"""The paradigms of BLiMP that joint questions contain."""


def _rows(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A table whose first `text` columns hold words."""
    rule = ["---"] * text + ["---:"] * (len(columns) - text)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, rule, *rows))


def _share(found: Sequence[float] | None) -> str:
    return "" if not found else f"{percent(found[0])} ({interval(*found[1:])})"


# -- the paper ---------------------------------------------------------------------------------------------


def found_units(folder: Path) -> str:
    """The units that at least a third of the runs of the study `units` find, and how often."""
    runs: dict[tuple[str, str], list[set[str]]] = defaultdict(list)
    ablated: set[str] = set()
    for row in read_results(folder / "units" / "results.jsonl"):
        names = {f"{unit.site}:{unit.index}" for unit in row.found}
        ablated |= {f"{unit.site}:{unit.index}" for unit in row.found if unit.by_ablation}
        runs[row.cell["question"], row.cell["values"]].append(names)
    body = []
    for (question, values), sets in runs.items():
        often = {name: sum(name in one for one in sets) for name in set().union(*sets)}
        kept = sorted((name for name in often if 3 * often[name] >= len(sets)), key=lambda n: (-often[n], n))
        shown = ", ".join(f"{name}{'*' if name in ablated else ''} {often[name]}" for name in kept)
        body.append([question, values, shown, str(len(often) - len(kept))])
    return _markdown(["question", "values", "unit, and in how many of 10 runs", "rarer units"], body, text=3)


# -- searches ----------------------------------------------------------------------------------------------


def default_search(model: str) -> Callable[[Path], str]:
    """A line for each cell of a model with its default number of units, a column for each search: means over the
    runs."""

    def table(folder: Path) -> str:
        rows = [
            {**row, "line": row["cell"].removeprefix(f"{model} ")}
            for row in _rows(folder, "searches")
            if row["max_units"] is None and row["cell"].startswith(f"{model} ")
        ]
        return _by_search(sorted(rows, key=lambda row: row["search"] != "exchange"), "cell")

    return table


def bounded_search(folder: Path) -> str:
    """The default search with the KL of `learned`, in the same cell and run, as a bound, beside `learned`."""
    learned = {
        (row["cell"], row["seed"]): row
        for row in _rows(folder, "searches")
        if row["search"] == "learned" and row["max_units"] is None
    }
    body = [
        [row["cell"].removeprefix("wiki-lstm "), _means([row]), _means([learned[row["cell"], row["seed"]]])]
        for row in _rows(folder, "searches_bound")
    ]
    return _markdown(["cell", "exchange, bounded", "learned"], body)


def by_units(folder: Path) -> str:
    """Number at a single step by the kind of values and the number of units allowed, a column for each search."""
    rows = [
        {**row, "line": f"{row['cell'].rpartition(' ')[2]}, {row['max_units']}"}
        for row in _rows(folder, "searches")
        if row["max_units"] is not None and row["cell"].startswith("wiki-lstm number-agreement single ")
    ]
    rows.sort(key=lambda row: (row["cell"], row["max_units"], row["search"] != "exchange"))
    return _by_search(rows, "values, units allowed")


def _by_search(rows: Sequence[Row], first: str) -> str:
    found: dict[Any, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["line"]][row["search"]].append(row)
    searches = list(dict.fromkeys(row["search"] for row in rows))
    body = [[str(line), *(_means(some[one]) for one in searches)] for line, some in found.items()]
    return _markdown([first, *searches], body)


def _means(rows: Sequence[Row]) -> str:
    """Flips in percent with their range / KL / units / CPU seconds of the search."""
    if not rows:
        return ""
    flips, kl, units, seconds = (
        statistics.fmean(row[name] for row in rows) for name in ("flips", "kl", "units", "cpu_seconds")
    )
    least, most = min(row["flips"] for row in rows), max(row["flips"] for row in rows)
    spread = f" ({100 * least:.1f}–{100 * most:.1f})" if least < most else ""
    return f"{100 * flips:.1f}{spread} / {kl:.2f} / {units:.2g} / {seconds:.0f}"


# -- evidence ----------------------------------------------------------------------------------------------


def calibration(folder: Path) -> str:
    """What the verdict said of each kind of question whose truth is known."""
    return verdict_rates.by_kind(_rows(folder, "calibration"))


def calibration_rates(folder: Path) -> str:
    """How often it was wrong and right."""
    return verdict_rates.rates(_rows(folder, "calibration"))


def panel(folder: Path) -> str:
    """A line for each cell of the panel: the effect, how near it comes to the counterfactual, and the verdict."""
    columns = ["units", "flipped", "closed at the word", "closed from the cue", "KL"]
    body = []
    for row in _rows(folder, "panel"):
        near, text = row["fidelity"], row["text"]
        cells = [
            str(row["units"]),
            _share(row["flipped"]),
            _share(near["asked"]),
            percent(near["from_cue"][0]),
            number(row["kl"], 2),
            "" if near["kl_before"] is None else f"{near['kl_before']:.3f}",
            f"{max(factor[0] for factor in text.values()):.2f}",
            row["verdict"],
        ]
        body.append([*_cell(row), *cells])
    return _markdown([*_CELL, *columns, "KL before the cue", "text x", "verdict"], body, text=2)


def panel_checks(folder: Path) -> str:
    """A line for each cell of the panel: necessity, redundancy, side effects, the checks that did not pass."""
    columns = ["right / units held / random held", "points lost", "best random set", "disjoint sets"]
    body = []
    for row in _rows(folder, "panel"):
        held, full = row["necessity"], row["evidence"] == "full"
        few = [row["moved_too_far"], row["moved_by_random"], row["moved_by_cue"]]
        cells = [
            " / ".join(percent(one) for one in (held["untouched"][0], held["held"][0], held["random_least"])),
            _points(held.get("lost")),
            percent(row["random_best"]),
            str(row["disjoint_sets"] or ""),
            f"{few[0]}, {few[1]}, {few[2]} of {row['unrelated']}" if full else "",
            ", ".join([*row["failed"], *(f"({name})" for name in row["undecided"])]),
        ]
        body.append([*_cell(row), *cells])
    more = ["phenomena moved", "failed (not decided)"]
    return _markdown([*_CELL, *columns, *more], body, text=2)


def _points(lost: Sequence[float] | None) -> str:
    """A loss of accuracy in points, with its interval; empty in a row that has none."""
    if lost is None:
        return ""
    value, low, high = (f"{100 * one:.1f}".replace("-", "−") for one in lost)
    return f"{value} ({low} to {high})"


_CELL = ("question", "search")


def _cell(row: Row) -> list[str]:
    model = "" if row["model"] == "wiki-lstm" else f"{row['model']}, "
    units = "" if row["max_units"] is None else f", {row['max_units']} units"
    question = f"{model}{row['phenomenon'].partition('-')[0]}, {row['steps']}{units}"
    return [question, f"{row['values']}, {row['objective']}" if row["values"] == "natural" else row["values"]]


def bases(folder: Path) -> str:
    """Natural beside unbounded values, by basis: neurons of all blocks, and the residual stream of one."""
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    rows = [row for row in _rows(folder, "bases") if not row["sites"].startswith("mlp.15")]
    for row in sorted(rows, key=lambda row: row["phenomenon"], reverse=True):
        found[row["phenomenon"].partition("-")[0], row["sites"].partition(":")[0]][row["values"]] = row
    body = [
        [
            question,
            f"`{sites}`",
            *_in_basis(by_values.get("natural")),
            *_in_basis(by_values["unbounded"], moved=True),
        ]
        for (question, sites), by_values in found.items()
    ]
    natural = ["units", "flipped, natural", "text"]
    unbounded = ["units", "flipped, unbounded", "moved into the range", "text"]
    return _markdown(["question", "basis", *natural, *unbounded], body, text=2)


def _in_basis(row: Row | None, *, moved: bool = False) -> list[str]:
    if row is None:
        return [""] * 3
    into_range = [percent(row["in_natural_range"][0])] if moved else []
    text = max(factor[0] for factor in row["text"].values())
    return [str(row["units"]), _share(row["flipped"]), *into_range, f"x {text:.2f}"]


# -- transfer ----------------------------------------------------------------------------------------------


def keep(folder: Path) -> str:
    """What joint questions and kept questions reach in the neurons of SmolLM2."""
    body = []
    for row in _rows(folder, "keep_smollm2"):
        unrelated = [one["moved"] for one in row["paradigms"].values() if one["flipped"] is None]
        unread = row.get("unread", {}).values()
        body.append(
            [
                f"`{row['variant']}`",
                str(row["units"]),
                _share(row["flipped"]),
                *(_share(row["held_out"].get(name, [])[:3]) for name in PLURAL),
                number(row["kl"], 2),
                f"x {row['text']:.2f}",
                f"{100 * max(map(abs, unrelated)):.1f}",
                f"{100 * max(map(abs, unread)):.1f}" if unread else "",
            ]
        )
    flips = ["flipped (95% interval)", "regular plural", "irregular plural"]
    rest = ["KL", "text", "largest change, points", "of kept pairs not read"]
    return _markdown(["variant", "units", *flips, *rest], body)


def ravel(folder: Path) -> str:
    """A line for each model and method: what held-out entities and held-out prompts show."""
    body = []
    for row in _rows(folder, "ravel"):
        about = [f"{row['model']}, layer {row['layer']}", row["method"], str(row["dims"])]
        body.append([*about, *(_disentangled(row[split]) for split in ("entity", "prompt"))])
    return _markdown(["model", "method", "dims", "held-out entities", "held-out prompts"], body, text=2)


def _disentangled(found: Row) -> str:
    """Disentangle with its interval / cause / isolate."""
    value, low, high = found["disentangle"]
    parts = " / ".join(f"{found[name][0]:.2f}" for name in ("cause", "isolate"))
    return f"{value:.2f} ({low:.2f}–{high:.2f}) / {parts}"


# -- speed -------------------------------------------------------------------------------------------------


JUDGED = {
    "CNA, as published": "CNA, as published",
    "CNA, best settings": "CNA, best settings",
    "exchange, our default search": "pivotal, the default",
    "exchange, best settings": "pivotal, best settings",
}
"""The methods that are shown, of those of benchmarks/cna.py, and what they are called."""


def cna(folder: Path) -> str:
    """A line for each method and job: contrastive neuron attribution beside our default search."""
    body = []
    for row in (row for row in _rows(folder, "cna") if row.get("method") in JUDGED):
        about = (f"{row['job']}, {row['model']}", JUDGED[row["method"]])
        low, high = row["fidelity_interval"]
        fidelity = f"{100 * row['fidelity']:.0f} ({100 * low:.0f} to {100 * high:.0f})"
        costs = (number(row["kl"]), f"x {row['text']:.2f}", f"{row['seconds']:.0f}")
        body.append([*about, str(row["units"]), f"{100 * row['flips']:.0f}", fidelity, *costs])
    columns = ["job", "method", "units", "flipped %", "fidelity %", "KL", "text", "CPU s"]
    return _markdown(columns, body, text=2)


def _compared(folder: Path) -> peers.Rows:
    """Without the plain ways by hand, which nobody would write who knows the careful ones."""
    return [row for row in peers.rows_of(folder / "peers.jsonl") if not row["way"].startswith("plain")]


def updates(folder: Path) -> str:
    return peers.table([row for row in _compared(folder) if not peers.applies(row)])


def applying(folder: Path) -> str:
    return peers.table([row for row in _compared(folder) if peers.applies(row)])


def quality(values: str) -> Callable[[Path], str]:
    return lambda folder: peers.quality_table(peers.rows_of(folder / "quality.jsonl"), values)


TABLES: dict[str, Callable[[Path], str]] = {
    "found-units": found_units,
    "default-search": default_search("wiki-lstm"),
    "default-search-smollm2": default_search("smollm2-135m"),
    "bounded-search": bounded_search,
    "by-units": by_units,
    "calibration": calibration,
    "calibration-rates": calibration_rates,
    "panel": panel,
    "panel-checks": panel_checks,
    "bases": bases,
    "keep": keep,
    "ravel": ravel,
    "cna": cna,
    "updates": updates,
    "applying": applying,
    "quality-unbounded": quality("unbounded"),
    "quality-natural": quality("natural"),
}
"""The tables by name."""
