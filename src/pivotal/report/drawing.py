"""Draws charts: SVG for the page, PNG for slides, PDF for papers.

A chart is a Vega-Lite specification, which vl-convert renders without a browser. Text is drawn in `currentColor`, so
that one SVG is readable on a light page, on a dark page and by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from markupsafe import escape

from pivotal.errors import PivotalError, in_short
from pivotal.files import inside, write_text
from pivotal.jobs.run_folder import FIGURES
from pivotal.records.serial import plain
from pivotal.report.tables import Table

Spec = dict[str, Any]
"""A Vega-Lite specification."""

WIDTH = 500
# Mid tones, which are visible on white and on near-black, and distinct for colour-blind readers.
COLOURS = ("#3b82d6", "#e07b39", "#2a9d8f", "#b85fb0", "#c9a227", "#d6455d", "#7a8794", "#6f9e3f")
# On the page of a run, a colour has one meaning.
BY_LABEL = COLOURS[:2]
"""The two labels, which are also the directions."""
CHOSEN, OTHERS = COLOURS[2], COLOURS[6]
"""The run that the page is about; other runs, random sets and natural ranges."""
ABOVE, BELOW = COLOURS[3], COLOURS[7]
"""Activations above and below zero."""

# Labels are measured here but drawn by the browser, whose fonts may be wider. This is why there is padding.
_FONT = "Helvetica, Arial, sans-serif"
_PADDING = {"left": 26, "right": 22, "top": 8, "bottom": 6}
_ADDRESS_SPACE = 64 << 30
"""Bytes that the renderer may reserve: it contains a JavaScript engine. If `ulimit -v` allows less, it raises no
error but ends the process."""


class NotDrawn(PivotalError):
    """A chart that cannot be drawn on this machine. The message says why."""


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    alternative: str
    """The text alternative: what the figure shows."""
    svg: str
    """Empty if the figure could not be drawn."""
    data: Table

    @property
    def labelled(self) -> str:
        """The SVG with its text alternative inside."""
        return labelled(self.svg, self.alternative)


def labelled(svg: str, alternative: str) -> str:
    """An SVG with its text alternative."""
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alternative)}" ', 1)


def write_figures(folder: Path, drawn: Iterable[Figure]) -> None:
    for figure in filter(lambda figure: figure.svg, drawn):
        write_text(inside(folder, FIGURES, f"{figure.name}.svg"), figure.labelled + "\n")


def draw(chart: Any) -> str:
    """The chart as an SVG; empty if it cannot be drawn, so that a report is complete without its figures."""
    try:
        return svg(chart)
    except NotDrawn:
        return ""


def svg(chart: Any) -> str:
    """The chart, a specification or an altair chart, as an SVG that takes its text colour from the page and scales with
    it. Raises NotDrawn if it cannot be drawn."""
    drawn = render("svg", _styled(chart, "currentColor", "transparent")).decode()
    # Marks with a description show it when the pointer rests on them.
    drawn = re.sub(r'<(path|line) aria-label="([^"]*)"([^>]*)/>', r"<\1\3><title>\2</title></\1>", drawn)
    # A figure has one text alternative and a table. A label for each dot would be noise for screen readers.
    drawn = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", drawn)
    # A fixed size would overflow a phone. With the viewBox alone, the page decides the size.
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", drawn, count=1)


def picture(chart: Any) -> bytes:
    """The chart as a PNG in black on white, for slides and papers. Raises NotDrawn if it cannot be drawn."""
    return render("png", _styled(chart, "#1d2329", "white"), scale=3)


def printable(chart: Any) -> bytes:
    """The chart as a PDF in black on white, with selectable text. Raises NotDrawn if it cannot be drawn."""
    return render("pdf", _styled(chart, "#1d2329", "white"))


def render(form: Literal["svg", "png", "pdf"], spec: Spec, **options: Any) -> bytes:
    """The chart as a file of that form. Raises NotDrawn if the renderer cannot run or refuses the chart."""
    if address_space() < _ADDRESS_SPACE:
        raise NotDrawn(
            "The renderer of charts needs more address space than this process may use (ulimit -v), so the chart was "
            "not drawn. Raise the limit, then draw it with `pivotal show FOLDER --page`."
        )
    import vl_convert

    try:
        made = getattr(vl_convert, f"vegalite_to_{form}")(spec, **options)
    except ValueError as error:
        raise NotDrawn(f"The chart cannot be drawn ({in_short(error)}).") from None
    return made.encode() if isinstance(made, str) else bytes(made)


def address_space() -> float:
    """The bytes of address space that this process may use."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def _styled(chart: Any, ink: str, paper: str) -> Spec:
    text = {"labelColor": ink, "labelFontSize": 13}
    text |= {"titleColor": ink, "titleFontSize": 13, "titleFontWeight": "normal"}
    # Labels at the ends are not moved inwards (labelFlush), where they would touch their neighbours.
    axis = {**text, "gridColor": ink, "gridOpacity": 0.12, "domainColor": ink, "domainOpacity": 0.35, "tickColor": ink,
            "tickOpacity": 0.35, "labelLimit": 240, "labelFlush": False, "titlePadding": 10}  # fmt: skip
    legend = {**text, "orient": "bottom", "columnPadding": 24}
    look = {"aria": False, "background": paper, "font": _FONT, "padding": _PADDING, "view": {"stroke": None}}
    spec = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    # NaN and infinite numbers become null, a gap in the chart.
    styled: Spec = plain({**spec, "config": {**look, "axis": axis, "legend": legend}})
    return styled
