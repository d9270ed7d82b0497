"""Turns the specification of a chart into SVG, PNG or PDF.

The renderer, vl-convert, contains a JavaScript engine that reserves a large address space. If a limit on the address
space (`ulimit -v`) is too low, it does not raise an error: it ends the process. Under such a limit it therefore runs in
a process of its own, and a chart that cannot be drawn costs the chart only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any, Literal

from pivotal.errors import PivotalError, in_short

Form = Literal["svg", "png", "pdf"]

_CHILD = """
import json, sys, vl_convert
made = getattr(vl_convert, "vegalite_to_" + sys.argv[1])(json.load(sys.stdin), **json.loads(sys.argv[2]))
sys.stdout.buffer.write(made.encode() if isinstance(made, str) else made)
"""
_SECONDS = 120


class NotDrawn(PivotalError):
    """A chart that cannot be drawn on this machine. The message says why."""


def render(form: Form, spec: dict[str, Any], **options: Any) -> bytes:
    """The chart as a file of that form. Raises NotDrawn if the renderer fails."""
    if limited():
        check_renderer()
        return _in_child(form, spec, options)
    import vl_convert

    try:
        made = getattr(vl_convert, f"vegalite_to_{form}")(spec, **options)
    except ValueError as error:
        raise NotDrawn(f"The chart cannot be drawn ({in_short(error)}).") from None
    return made.encode() if isinstance(made, str) else bytes(made)


def limited() -> bool:
    """Whether the address space of this process is limited."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


@cache
def _works() -> bool:
    """Whether the renderer starts under the limit; tried once, because a failure takes a second."""
    try:
        _in_child("svg", {"mark": "point", "data": {"values": []}}, {})
    except NotDrawn:
        return False
    return True


def check_renderer() -> None:
    if not _works():
        raise NotDrawn(
            "The renderer of charts needs more address space than this process may use (ulimit -v), so the chart was "
            "not drawn. Raise the limit, then draw it with `pivotal report`."
        )


def _in_child(form: Form, spec: dict[str, Any], options: dict[str, Any]) -> bytes:
    command = [sys.executable, "-c", _CHILD, form, json.dumps(options)]
    try:
        done = subprocess.run(
            command, input=json.dumps(spec).encode(), capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotDrawn(f"The chart cannot be drawn ({in_short(error)}).") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotDrawn(f"The chart cannot be drawn ({said[-1]}).")
    return done.stdout
