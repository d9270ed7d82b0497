"""A trace in words, on a terminal and as a figure, for sentences that nobody would choose to draw."""

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from rich.console import Console
from tests.records.test_traces import FRAME, TRACE

from pivotal.cli import terminal as printing
from pivotal.cli.heatmap import show_trace
from pivotal.printing import chance
from pivotal.records.serial import replace
from pivotal.records.traces import Both, Trace
from pivotal.report.drawing import draw
from pivotal.report.trace import (
    blocks,
    most_moved,
    shares,
    spread_layers,
    told,
    trace_chart,
    trace_page,
    verdict,
    write_trace,
)

ODD = ('"', "\\", "</svg>", "<b>", "&amp;", "’s", "日本", "x" * 30, "", " ")
SPREAD = tuple((0.0,) * 10 if layer < 20 else (0.0, *(layer / 100,) * 9) for layer in range(60))


def long_trace() -> Trace:
    """Ten odd tokens, fifty units, sixty layers."""
    units, steps = 50, len(ODD)
    still, moved = (0.5,) * steps, (0.5, *(-300.0,) * (steps - 1))
    frame = replace(
        FRAME,
        units=tuple(f"mlp.3:{i}" for i in range(units)),
        values=((1.0,) * units, (-1.0,) * units),
        layers=tuple(f"resid.{i}" for i in range(60)),
    )
    return replace(
        TRACE,
        frame=frame,
        tokens=ODD,
        edited=(False, *(True,) * (steps - 1)),
        activation=Both((still,) * units, (*(still,) * 48, moved, still)),
        log_p=Both(((-1.0,) * steps, (-2.0,) * steps), ((-900.0,) * steps, (-0.1,) * steps)),
        kl=(0.0,) * steps,
        change=SPREAD,
    )


def test_numbers_as_text():
    assert [chance(p) for p in (1.0, 0.5, 0.0123, 0.00012, 3.4e-6, 1e-12)] == [
        *("100%", "50%", "1.2%", "0.012%", "0.00034%", "<0.0001%")
    ]


def test_what_is_said_of_it():
    assert verdict(TRACE) == "The preference flips from “runs” to “run”."
    assert verdict(replace(TRACE, log_p=Both(TRACE.log_p.untouched, TRACE.log_p.untouched))) == (
        "The preference stays with “runs”."
    )
    back = replace(TRACE, direction="singular")
    assert verdict(back) == "The untouched model prefers “runs” already, and the edit turns it to “run”."
    text = told(TRACE)
    assert "2 units of m set at ““doctor””" in text and "is 4.7% untouched and 62.2% edited" in text
    assert told(replace(TRACE, frame=replace(FRAME, steps="every"))).count("set at every word") == 1
    assert shares(long_trace())[1][-1] == 1.0, "no overflow where one word has no probability left"


def test_a_unit_that_is_left_alone_in_a_direction_is_not_said_to_be_set():
    framed = [
        [row["name"] for row in trace_chart(trace)["vconcat"][1]["layer"][-1]["data"]["values"]]
        for trace in (TRACE, replace(TRACE, direction="singular"))
    ]
    assert framed == [["hidden.0:3", "hidden.1:5"], ["hidden.0:3"]]
    assert "with 1 unit of m set" in told(replace(TRACE, direction="singular"))


def test_what_is_shown_of_much():
    trace = long_trace()
    assert most_moved(trace, 1) == [48], "the only unit that moves"
    layers = spread_layers(trace, 12)
    assert layers[0] == 19 and layers[-1] == 59 and len(layers) == 12
    assert spread_layers(trace, 60) == list(range(60))
    assert spread_layers(replace(trace, change=((0.0,) * 10,) * 60), 3) == [0, 30, 59]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., io.StringIO]:
    def of(width: int, colour: str | None = None) -> io.StringIO:
        out = io.StringIO()
        console = Console(file=out, width=width, force_terminal=True, color_system=colour, highlight=False)
        monkeypatch.setattr(printing, "out", lambda: console)
        return out

    return of


def test_a_narrow_terminal_gets_the_steps_in_parts(terminal):
    out = terminal(72)
    show_trace(long_trace())
    lines = out.getvalue().splitlines()
    assert max(map(len, lines[1:-2])) <= 72
    heads = " ".join(lines).split()
    assert all(mark in heads for mark in (ODD[0], f"[{ODD[1]}]*", *(f"{token}*" for token in ODD[2:8])))
    assert "Not shown: 34 units with smaller changes" in out.getvalue()


def test_colour_is_on_top_of_the_numbers(terminal):
    plain = terminal(100)
    show_trace(TRACE)
    coloured = terminal(100, "truecolor")
    show_trace(TRACE)
    assert "\x1b[30;48;2;" in coloured.getvalue() and "\x1b[30;48;2;" not in plain.getvalue()
    assert "[“doctor”]*" in plain.getvalue()
    for number in ("+0.25", "−0.25", "+1.00", "0.375", "0.50"):
        assert number in plain.getvalue()


@pytest.mark.slow
def test_a_figure_of_odd_tokens(check_page):
    drawn = "".join(ET.fromstring(draw(trace_chart(long_trace()))).itertext())
    for token in (*ODD[:7], "x" * 20):
        assert token in drawn
    assert "resid.59" in drawn and "resid.19" in drawn and "mlp.3:49" not in drawn
    assert [len(block.names) for block in blocks(long_trace(), 50, 60)] == [50, 50, 2, 2, 2, 1, 60]
    check_page(trace_page(long_trace()))


def test_a_trace_is_written_as_the_suffix_says(tmp_path):
    begins = {
        ".SVG": b'<svg role="img" aria-label="Heat maps of 2 units',
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
    }
    for suffix, start in {**begins, ".html": b"<!doctype html>", ".json": b"{"}.items():
        write_trace(TRACE, tmp_path / f"trace{suffix}")
        assert (tmp_path / f"trace{suffix}").read_bytes().startswith(start)
