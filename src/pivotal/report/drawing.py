"""Draws charts: SVG for the page, PNG for slides, PDF for papers.

Text is drawn in `currentColor`, so that one SVG is readable on a light page, on a dark page and by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from pivotal.files import inside, write_text
from pivotal.jobs.run_folder import FIGURES
from pivotal.records.serial import plain
from pivotal.report.renderer import NotDrawn, render
from pivotal.report.tables import Table

WIDTH = 500
# Mid tones, which are visible on white and on near-black, and distinct for colour-blind readers.
COLOURS = ("#3b82d6", "#e07b39", "#2a9d8f", "#b85fb0", "#c9a227", "#d6455d", "#7a8794", "#6f9e3f")
# On the page of a run, a colour has one meaning.
BY_LABEL = COLOURS[:2]
"""The two labels, which are also the directions."""
CHOSEN, OTHERS, REAL = COLOURS[2], COLOURS[6], COLOURS[4]
"""The run that the page is about; other runs and random sets; a real change of the cue."""
ABOVE, BELOW = COLOURS[3], COLOURS[7]
"""Activations above and below zero."""

# KL ranges from almost zero to several nats; a symmetric logarithm shows both ends.
KL_SCALE = {"type": "symlog", "constant": 0.01, "domainMin": 0, "nice": False}
KL_TICKS = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

# Labels are measured here but drawn by the browser, whose fonts may be wider. This is why there is padding.
FONT = "Helvetica, Arial, sans-serif"


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
        return self.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(self.alternative)}" ', 1)


def write_figures(folder: Path, drawn: Iterable[Figure]) -> None:
    for figure in filter(lambda figure: figure.svg, drawn):
        write_text(inside(folder, FIGURES, f"{figure.name}.svg"), figure.labelled + "\n")


def draw(chart: Any) -> str:
    """The chart as an SVG that takes its text colour from the page and scales with it; empty if it cannot be drawn, so
    that a report is complete without its figures."""
    try:
        svg = render("svg", _styled(chart, "currentColor", "transparent")).decode()
    except NotDrawn:
        return ""
    # The marks of `hover` show their text when the pointer rests on them.
    svg = re.sub(r'<(path|line) aria-label="([^"]*)"([^>]*)/>', r"<\1\3><title>\2</title></\1>", svg)
    # A figure has one text alternative and a table. A label for each dot would be noise for screen readers.
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    # A fixed size would overflow a phone. With the viewBox alone, the page decides the size.
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg, count=1)


def picture(chart: Any) -> bytes:
    """The chart as a PNG in black on white, for slides and papers. Raises NotDrawn if it cannot be drawn."""
    return render("png", _styled(chart, "#1d2329", "white"), scale=3)


def printable(chart: Any) -> bytes:
    """The chart as a PDF in black on white, with selectable text. Raises NotDrawn if it cannot be drawn."""
    return render("pdf", _styled(chart, "#1d2329", "white"))


HOVER: dict[str, Any] = {"aria": True}
"""For a mark whose data have a field `hover`: the text that is shown when the pointer rests on it. Such a mark encodes
`description="hover:N"`."""


def _styled(chart: Any, ink: str, paper: str) -> dict[str, Any]:
    faint = {"gridColor": ink, "gridOpacity": 0.12, "domainOpacity": 0.35, "tickOpacity": 0.35}
    text = {"labelColor": ink, "titleColor": ink, "titleFontWeight": "normal"}
    # Labels at the ends are not moved inwards (labelFlush), where they would touch their neighbours.
    axis = {**faint, **text, "domainColor": ink, "tickColor": ink, "labelLimit": 240, "labelFlush": False,
            "labelFontSize": 13, "titleFontSize": 13, "titlePadding": 10}  # fmt: skip
    spec = (
        chart.configure(
            aria=False, background=paper, font=FONT, padding={"left": 26, "right": 22, "top": 8, "bottom": 6}
        )
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_legend(**text, labelFontSize=13, titleFontSize=13, orient="bottom", columnPadding=24)
        .to_dict(validate=False)
    )
    styled: dict[str, Any] = plain(spec)  # NaN and infinite numbers become null, a gap in the chart
    return styled
