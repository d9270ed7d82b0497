"""A trace: in words, as a table of coloured cells for pages, notebooks and the terminal, and as a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, isnan
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import check_output, write_bytes
from pivotal.printing import chance, counted
from pivotal.questions.minimal_pair import shown
from pivotal.records.serial import encode
from pivotal.records.traces import Trace
from pivotal.report.charts import heat_map
from pivotal.report.drawing import Spec, labelled, picture, printable, svg
from pivotal.report.tables import activation, number, percent
from pivotal.report.templates import macros, page

_UNITS, _LAYERS = 40, 48
"""The most units and layers that a picture shows; `--out FILE.json` writes all."""
_SHADES = 7
"""The shades of a colour in the style sheet."""
_STEP, _LETTER, _ROW, _MARGIN = 58, 8, 20, 130
"""Pixels of a figure: the least width of a step, a letter, the height of a row, and the margin for names. They are the
same in all panels, so that the steps are aligned."""
_UPRIGHT, _MEASURED = 9, 14
"""The most steps for which tokens are horizontal, and for which the cells of a figure show their numbers."""

# -- in words ---------------------------------------------------------------------------------------------------------


def shares(trace: Trace) -> tuple[list[float], list[float]]:
    """The share of the words flipped to in the probability of the words of both labels, at every step, untouched and
    edited. Above one half they are preferred."""
    t = trace.target
    untouched, edited = (
        [1 / (1 + exp(min(700.0, b - a))) for a, b in zip(side[t], side[1 - t], strict=True)]
        for side in (trace.log_p.untouched, trace.log_p.edited)
    )
    return untouched, edited


def asked(trace: Trace) -> tuple[str, str]:
    """The two words as they are shown. A long set of words is shortened."""
    first, second = trace.words
    return shown(first), shown(second)


def told(trace: Trace) -> str:
    """The outcome, in some sentences."""
    wanted, other = asked(trace)[trace.target], asked(trace)[1 - trace.target]
    before, after = shares(trace)
    units = counted(sum(_acting(trace)), "unit")
    mean_kl = sum(trace.kl) / (len(trace.kl) + 1)  # with the prediction of the first word, as in all scores
    if trace.frame.steps == "every":
        when = "at every word"
    else:
        when = f"at “{trace.tokens[trace.cue]}”" if trace.cue is not None else "at the cue"
    return (
        f"“{trace.prefix} …” with {units} of {trace.frame.model} set {when} for {trace.direction}: the share of "
        f"“{wanted}” in the probability of “{wanted}” and “{other}” is {percent(before[-1])} untouched and "
        f"{percent(after[-1])} edited. "
        f"{verdict(trace)} KL {number(mean_kl)}, averaged over {len(trace.kl) + 1} positions: those shown, and the "
        "start of the sentence, where it is 0."
    )


def verdict(trace: Trace) -> str:
    before, after = trace.log_odds
    wanted, other = asked(trace)[trace.target], asked(trace)[1 - trace.target]
    if trace.flipped:
        return f"The preference flips from “{other}” to “{wanted}”."
    if before > 0:
        turned = "." if after > 0 else f", and the edit turns it to “{other}”."
        return f"The untouched model prefers “{wanted}” already{turned}"
    return f"The preference stays with “{other}”."


def alternative(trace: Trace) -> str:
    """The text alternative of the figure."""
    before, after = trace.log_odds
    return (
        f"Heat maps of {len(trace.frame.units)} units over {len(trace.tokens)} steps, without and with the "
        f"intervention, the probability of {' and '.join(asked(trace))}, KL, and the change of each layer. "
        f"{told(trace)} Log-odds of {asked(trace)[trace.target]}: {before:.2f} before, {after:.2f} after. "
        f"KL is largest after “{trace.tokens[trace.kl.index(max(trace.kl))]}”."
    )


# -- the picture ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TraceCell:
    """A number of the trace."""

    text: str
    share: float
    """The strength of its colour: from -1 to 1, or from 0 in a block of quantities that grow from zero."""
    set: bool = False
    """Whether the unit is set here."""


@dataclass(frozen=True)
class Block:
    """Rows of cells, one for each step, with a title above them."""

    title: str
    names: Sequence[str]
    cells: Sequence[Sequence[TraceCell]]
    signed: bool = False
    """Whether numbers below zero have a colour of their own."""

    def look(self, cell: TraceCell) -> str:
        """The classes of a cell in the style sheet."""
        tone = "grey" if not self.signed else "high" if cell.share > 0 else "low"
        shade = round(_SHADES * min(1.0, abs(cell.share)))
        return " ".join([f"{tone}{shade}"] * bool(shade) + ["set"] * cell.set)


def blocks(trace: Trace, units: int = _UNITS, layers: int = _LAYERS) -> list[Block]:
    """The whole trace, with at most so many units and layers."""
    wanted = asked(trace)[trace.target]
    chosen = most_moved(trace, units)
    names = [trace.frame.units[unit] for unit in chosen]
    before, after = ([unit_cells(trace, unit)[side] for unit in chosen] for side in range(2))
    probabilities = [
        [[trace.probability(word, step)[side] for step in range(len(trace.tokens))] for word in range(2)]
        for side in range(2)
    ]
    likely = _largest([row for rows in probabilities for row in rows])
    share = [[TraceCell(percent(value), 2 * value - 1) for value in line] for line in shares(trace)]
    spread = spread_layers(trace, layers)
    moved = [trace.change[layer] for layer in spread]
    return [
        Block("Units, untouched", names, before, signed=True),
        Block("Units, with the edit", names, after, signed=True),
        Block(f"Share of “{wanted}” among both words", ("untouched", "with the edit"), share, signed=True),
        Block("Probability of each word, untouched", asked(trace), _grown(probabilities[0], chance, likely)),
        Block(
            "Probability of each word, with the edit", asked(trace), _grown(probabilities[1], chance, likely)
        ),
        Block("KL to the untouched model", ("KL",), _grown([trace.kl], number)),
        Block(
            "Change of each layer",
            [trace.frame.layers[i] for i in spread],
            _grown(moved, lambda x: number(x, 2)),
        ),
    ][: 7 if spread else 6]


def unit_cells(trace: Trace, unit: int) -> tuple[list[TraceCell], list[TraceCell]]:
    """A unit at every step, untouched and edited. Each unit has its own scale, because units of transformers have no
    common one."""
    untouched, edited = trace.activation.untouched[unit], trace.activation.edited[unit]
    top, acts = _largest([untouched, edited]), _acting(trace)[unit]
    return (
        [TraceCell(activation(value), value / top) for value in untouched],
        [
            TraceCell(activation(v), v / top, bool(acts and on))
            for v, on in zip(edited, trace.edited, strict=True)
        ],
    )


def _grown(
    rows: Sequence[Sequence[float]], text: Callable[[float], str], top: float | None = None
) -> list[list[TraceCell]]:
    top = top or _largest(rows)
    return [
        [TraceCell("–" if isnan(v) else text(v), 0.0 if isnan(v) else v / top) for v in row] for row in rows
    ]


def _largest(rows: Sequence[Sequence[float]]) -> float:
    return max((abs(value) for row in rows for value in row), default=0.0) or 1.0


def steps_of(trace: Trace) -> list[tuple[str, str]]:
    """The tokens, each with a mark: the cue, or a step at which units are set."""
    return [
        (token.strip() or "␣", "cue" if step == trace.cue else "set" if trace.edited[step] else "")
        for step, token in enumerate(trace.tokens)
    ]


def most_moved(trace: Trace, most: int) -> list[int]:
    """The units whose activation changes most, in their own order."""

    def moved(unit: int) -> float:
        rows = (trace.activation.untouched[unit], trace.activation.edited[unit])
        return max(abs(a - b) for a, b in zip(*rows, strict=True))

    units = sorted(range(len(trace.frame.units)), key=moved, reverse=True)
    return sorted(units[:most])


def spread_layers(trace: Trace, most: int) -> list[int]:
    """All layers, or at most `most` of them, from the last unchanged layer to the last layer."""
    layers = len(trace.change)
    if layers <= most:
        return list(range(layers))
    reached = next((i for i, line in enumerate(trace.change) if any(line)), 1)
    first = min(max(0, reached - 1), layers - most)
    return sorted({first + round(i * (layers - 1 - first) / (most - 1)) for i in range(most)})


def _acting(trace: Trace) -> list[bool]:
    """Whether each unit is set. With a mask per direction, units of the other direction are not set."""
    return [value is not None for value in trace.frame.values[trace.target]]


def trace_table(trace: Trace) -> str:
    """The trace as HTML, for a page that has its style sheet."""
    made = macros()
    return str(made.trace(trace.prefix, steps_of(trace), blocks(trace)) + made.trace_legend())


def trace_chart(trace: Trace) -> Spec:
    """The same blocks as a figure, an extension of the paper's figure."""
    names = [f"▲ {token}" if step == trace.cue else token for step, token in enumerate(trace.tokens)]
    upright = len(names) <= _UPRIGHT
    width = max(_STEP, _LETTER * max(map(len, names)) if upright else 0) * len(names)
    # Steps are numbers with tokens as labels, because a token may occur twice.
    labels = {
        "labelExpr": f"{json.dumps(names, ensure_ascii=False)}[datum.value]",
        "labelAngle": 0 if upright else -40,
    }
    x = {"field": "step", "type": "ordinal", "title": None, "scale": {"domain": list(range(len(names)))},
         "axis": {**labels, "grid": False, "ticks": False}}  # fmt: skip
    panels = []
    for block in blocks(trace):
        rows = [
            {"step": step, "name": name, "share": cell.share, "text": cell.text, "set": cell.set}
            for name, cells in zip(block.names, block.cells, strict=True)
            for step, cell in enumerate(cells)
        ]
        y = {"field": "name", "type": "nominal", "title": None, "sort": list(block.names),
             "axis": {"minExtent": _MARGIN, "ticks": False}}  # fmt: skip
        size, numbers = (width, _ROW * len(block.names)), len(names) <= _MEASURED
        panels.append(
            heat_map(rows, x, y, signed=block.signed, title=block.title, size=size, numbers=numbers)
        )
    return {"vconcat": panels, "spacing": 16, "resolve": {"scale": {"color": "independent"}}}


# -- as a file --------------------------------------------------------------------------------------------------------


def check_path(name: str, *, overwrite: bool = False) -> Path:
    """The path, checked before any work. PivotalError if it cannot be written."""
    path = Path(name)
    if path.suffix.lower() not in _KINDS:
        raise PivotalError(f"The file of a trace ends in {', '.join(_KINDS)}, but {name!r} does not.")
    return check_output(path, overwrite=overwrite)


def write_trace(trace: Trace, path: Path) -> None:
    write_bytes(path, _KINDS[path.suffix.lower()](trace))


def trace_page(trace: Trace) -> str:
    """A page of its own."""
    head = {"title": f"“{trace.prefix} …”", "lead": told(trace), "description": verdict(trace)}
    return page("trace.html", **head, steps=steps_of(trace), blocks=blocks(trace))


_KINDS: dict[str, Callable[[Trace], bytes]] = {
    ".svg": lambda trace: labelled(svg(trace_chart(trace)), alternative(trace)).encode(),
    ".png": lambda trace: picture(trace_chart(trace)),
    ".pdf": lambda trace: printable(trace_chart(trace)),
    ".html": lambda trace: trace_page(trace).encode(),
    ".json": lambda trace: (encode(trace.as_dict()) + "\n").encode(),
}
