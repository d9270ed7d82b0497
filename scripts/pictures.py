"""Draws the pictures of the documentation, docs/images/*.svg, that explain an idea.

    python scripts/pictures.py [--check]

With --check nothing is written: the exit code is 1 if a picture is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images"

_STYLE = """
  :root { color-scheme: light dark }
  text { font: 15px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #1d2433 }
  .ground { fill: #ffffff } .box { fill: #f1f3f9; stroke: #b9c0d4 } .step { fill: #fff4e6; stroke: #c8741b }
  .good { fill: #e4f4f1; stroke: #2a9d8f } .unit { fill: #c9cfdd }
  .set { fill: #2a9d8f; stroke: #14564e; stroke-width: 2 }
  .moved { fill: #a9dcd5 } .soft { fill: #4a5468; font-size: 14px } .head { font-weight: 600; font-size: 16px }
  .cue { fill: #ffe9a8 } .line { stroke: #7d88a3; stroke-width: 1.6; fill: none } .tip { fill: #7d88a3 }
  .grid { stroke: #dfe3e8 } .strong { stroke: #2a9d8f; stroke-width: 2.4; fill: none } .strongtip { fill: #2a9d8f }
  .one { fill: #2a9d8f } .other { fill: #7a8794 } .mid { text-anchor: middle } .end { text-anchor: end }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaee } .ground { fill: #14171f } .box { fill: #222836; stroke: #4a5468 }
    .step { fill: #38291a; stroke: #c8741b } .good { fill: #173531; stroke: #2a9d8f } .unit { fill: #4a5468 }
    .moved { fill: #1f5f57 } .soft { fill: #a9b2c3 } .cue { fill: #5a4a12 } .grid { stroke: #323a42 }
  }
"""


class Picture:
    """An SVG that is drawn part by part."""

    def __init__(self, title: str, about: str, width: int, height: int) -> None:
        self._size, self._title, self._about = (width, height), title, about
        self._parts = [f'<rect class="ground" width="{width}" height="{height}"/>']

    def text(self, x: float, y: float, said: str, look: str = "") -> None:
        self._parts.append(f'<text x="{x:g}" y="{y:g}" class="{look}">{escape(said)}</text>')

    def box(
        self, x: float, y: float, w: float, h: float, lines: Sequence[str] = (), look: str = "box"
    ) -> None:
        """A rounded box with centred lines; the first one is bold."""
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7" class="{look}"/>')
        for i, line in enumerate(lines):
            weight = "head mid" if i == 0 else "soft mid"
            self.text(x + w / 2, y + h / 2 + 5 + 20 * (i - (len(lines) - 1) / 2), line, weight)

    def dot(self, x: float, y: float, r: float, look: str) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" class="{look}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, look: str = "line") -> None:
        self._parts.append(f'<path d="M{x1:g},{y1:g} L{x2:g},{y2:g}" class="{look}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, look: str = "line") -> None:
        """A horizontal or vertical arrow."""
        self.line(x1, y1, x2, y2, look)
        dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
        back, side = (x2 - 9 * dx, y2 - 9 * dy), (5 * dy, 5 * dx)
        corners = (
            (x2 + dx, y2 + dy),
            (back[0] + side[0], back[1] + side[1]),
            (back[0] - side[0], back[1] - side[1]),
        )
        points = " ".join(f"{x:g},{y:g}" for x, y in corners)
        self._parts.append(
            f'<polygon points="{points}" class="{"strongtip" if look == "strong" else "tip"}"/>'
        )

    def svg(self) -> str:
        width, height = self._size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-labelledby="title about">\n<title id="title">{escape(self._title)}</title>\n'
            f'<desc id="about">{escape(self._about)}</desc>\n<style>{_STYLE}</style>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


WORDS, CUE = ("The", "doctors", "near", "the", "car"), 1
_COLUMN, _UNITS = 132, 5


def _unrolled(on: Picture, top: float, edited: Sequence[int], *, words: bool = True) -> None:
    """Two layers over five words. A unit of the upper layer is set at the edited steps, and moves what follows."""
    first = min(edited)
    for step, word in enumerate(WORDS):
        x = 40 + _COLUMN * step
        for layer, y in ((1, top), (0, top + 66)):
            on.box(x, y, 100, 36)
            for unit in range(_UNITS):
                is_set = layer == 1 and unit == 2 and step in edited
                moved = layer == 1 and (step > first or (step == first and unit == 2))
                on.dot(
                    x + 18 + 16 * unit,
                    y + 18,
                    7 if is_set else 5.5,
                    "set" if is_set else "moved" if moved else "unit",
                )
            if step:
                changed = layer == 1 and step > first
                on.arrow(x - 32, y + 18, x - 3, y + 18, "strong" if changed else "line")
        on.arrow(x + 50, top + 64, x + 50, top + 39)
        if words:
            on.arrow(x + 50, top + 126, x + 50, top + 105)
            if step == CUE:
                on.box(x + 8, top + 128, 84, 28, look="cue")
            on.text(x + 50, top + 147, word, "mid")


def unrolled() -> Picture:
    about = (
        "A recurrent model with two layers reads the words The doctors near the car. At every word, one unit of the "
        "upper layer is replaced by a fixed value. The change passes to the later words, and to the prediction of the "
        "next word, which flips from were to was."
    )
    on = Picture("An LSTM, unrolled over the words, with one unit set", about, 860, 250)
    on.text(40, 30, "One unit is set to a fixed value", "head")
    on.text(40, 50, "The model runs as usual; the changed state passes on to the later words.", "soft")
    _unrolled(on, 78, range(5))
    on.arrow(670, 96, 706, 96, "strong")
    on.box(712, 70, 132, 54, ("was", "instead of were"), "good")
    on.text(712, 155, "the preferred", "soft")
    on.text(712, 173, "next word", "soft")
    return on


def single_every() -> Picture:
    about = (
        "Above, a single step: the unit is set at the cue, doctors, only; later states change because they follow from "
        "it. Below, every step: the unit is set at all words of the prefix."
    )
    on = Picture("Single step and every step", about, 720, 400)
    on.text(40, 30, "--steps single: set once, at the cue", "head")
    _unrolled(on, 48, [CUE], words=False)
    on.text(40, 200, "--steps every: set at each word of the prefix", "head")
    _unrolled(on, 218, range(5))
    return on


def pairs_to_verdict() -> Picture:
    about = (
        "Minimal pairs are divided into training pairs and held-out pairs. A search uses the training pairs to find "
        "units and values. The held-out pairs score them and feed the checks, which lead to the verdict: decide, "
        "switch, nudge or no evidence."
    )
    on = Picture("From pairs to a verdict", about, 860, 290)
    on.box(20, 105, 150, 70, ("minimal pairs", "prefix, two words"))
    on.box(230, 30, 160, 66, ("training pairs", "seen by the search"))
    on.box(230, 190, 160, 66, ("held-out pairs", "never seen by it"))
    on.line(170, 140, 200, 140)
    on.line(200, 63, 200, 223)
    on.arrow(200, 63, 226, 63)
    on.arrow(200, 223, 226, 223)
    on.box(450, 30, 160, 66, ("search", "chooses the units"), "step")
    on.arrow(390, 63, 446, 63)
    on.box(670, 30, 170, 66, ("intervention", "units and values"), "step")
    on.arrow(610, 63, 666, 63)
    on.box(450, 160, 160, 110, ("checks", "flips, random sets,", "natural values,", "ordinary text, …"))
    on.arrow(390, 223, 446, 223)
    on.line(755, 96, 755, 128)
    on.line(755, 128, 530, 128)
    on.arrow(530, 128, 530, 156)
    on.box(670, 175, 170, 80, ("verdict", "decide · switch", "nudge · no evidence"), "good")
    on.arrow(610, 215, 666, 215)
    return on


def neighbourhood() -> Picture:
    about = (
        "A certificate looks at the sets near the found set of three units, A, B and C. Sets without one of its units: "
        "every unit matters if none of them flips as much. Sets with one unit swapped for another, such as A, B and D: "
        "none may flip clearly more. Smaller sets of any units: none may be as good."
    )
    on = Picture("The neighbourhood that a certificate examines", about, 860, 300)
    on.box(345, 115, 170, 70, ("A  B  C", "the found set"), "good")
    rows = (
        (30, "Leave one out", ("A B", "A C", "B C"), "Every unit matters:", "none flips as much."),
        (570, "Swap one", ("A B D", "A E C", "F B C"), "No swap is better:", "none flips clearly more."),
    )
    for x, title, sets, claim, more in rows:
        on.text(x + 130, 32, title, "head mid")
        for i, one in enumerate(sets):
            on.box(x + 80, 48 + 46 * i, 100, 34)
            on.text(x + 130, 70 + 46 * i, one, "mid")
        on.text(x + 130, 212, claim, "soft mid")
        on.text(x + 130, 231, more, "soft mid")
    on.arrow(341, 150, 216, 150)
    on.arrow(519, 150, 645, 150)
    on.arrow(430, 189, 430, 220)
    for i, one in enumerate(("A", "D E", "G")):
        on.box(295 + 94 * i, 226, 82, 32)
        on.text(336 + 94 * i, 247, one, "mid")
    on.text(430, 284, "Smaller sets: none is as good.", "soft mid")
    return on


PICTURES: dict[str, Callable[[], Picture]] = {
    "unrolled": unrolled,
    "single-every": single_every,
    "pairs-to-verdict": pairs_to_verdict,
    "neighbourhood": neighbourhood,
}


def texts() -> dict[Path, str]:
    return {IMAGES / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}


def main() -> int:
    made = texts()
    if "--check" not in sys.argv[1:]:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"{', '.join(stale)}: out of date. Run: python scripts/pictures.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
