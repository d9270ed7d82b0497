"""A trace as a file. The suffix of the file decides its kind."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import check_output, disk, write_atomically
from pivotal.records.serial import encode
from pivotal.records.traces import Trace
from pivotal.report.drawing import picture, printable
from pivotal.report.html import Section, document, figure_of
from pivotal.report.renderer import NotDrawn, check_renderer
from pivotal.report.trace import told, verdict
from pivotal.report.trace_figure import alternative, trace_chart, trace_figure


def check_path(name: str, *, overwrite: bool = False) -> Path:
    """The path, checked before any work. PivotalError if it cannot be written."""
    path = Path(name)
    if path.suffix.lower() not in _KINDS:
        raise PivotalError(
            f"A trace is written to a file that ends in {', '.join(_KINDS)}, but {name!r} does not."
        )
    return check_output(path, overwrite=overwrite)


def write_trace(trace: Trace, path: Path) -> None:
    content = _KINDS[path.suffix.lower()](trace)
    with disk(path):
        write_atomically(path, lambda partial: Path(partial).write_bytes(content))


def trace_page(trace: Trace) -> str:
    """A page of its own, with the figure and its numbers."""
    section = Section("Step by step", figure_of(trace_figure(trace)))
    return document(f"“{trace.prefix} …”", told(trace), [section], description=verdict(trace))


def _svg(trace: Trace) -> bytes:
    figure = trace_figure(trace)
    if not figure.svg:
        check_renderer()
        raise NotDrawn(
            f"The trace of “{trace.prefix} …” cannot be drawn. Write its numbers with --out FILE.json."
        )
    return (figure.labelled + "\n").encode()


def _described(png: bytes, text: str) -> bytes:
    """The picture with its text alternative, as a `Description` chunk after the header."""
    content = b"iTXtDescription\0\0\0\0\0" + text.encode()
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return png[:_PNG_HEADER] + chunk + png[_PNG_HEADER:]


_PNG_HEADER = 33
"""The bytes of a PNG's signature and its first chunk."""

_KINDS: dict[str, Callable[[Trace], bytes]] = {
    ".svg": _svg,
    ".png": lambda trace: _described(picture(trace_chart(trace)), alternative(trace)),
    ".pdf": lambda trace: printable(trace_chart(trace)),
    ".html": lambda trace: trace_page(trace).encode(),
    ".json": lambda trace: (encode(trace.as_dict()) + "\n").encode(),
}
