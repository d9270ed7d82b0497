"""The matrix of verdicts of the atlas as a figure: all phenomena, models and kinds of steps on one screen."""

from __future__ import annotations

from html import escape

from phenomenon_families import FAMILIES
from pivotal.report.atlas.entries import STANDINGS, Atlas, Entry, Standing

COLOURS: dict[Standing, str] = {
    "decide": "#1c7a6e",
    "switch": "#5cb8ab",
    "nudge": "#e3c35c",
    "no evidence": "#9aa5b0",
    "not searched": "#dbe7f3",
    "unknown": "#ffffff",
    "failed": "#d6455d",
    "not run": "#f1f3f5",
}
_LEGEND: dict[Standing, str] = {
    "not searched": "known, not searched yet",
    "unknown": "the model does not know it",
}
_SHORT = {"determiner_noun_agreement": "det_noun_agr", "verb_agreement": "verb_agr", "_agreement_": "_agr_"}
"""Names of BLiMP are long."""
_ROW, _CELL, _GAP, _NAME, _HEAD, _PANELS = 13, 12, 5, 182, 84, 3


def matrix_svg(atlas: Atlas) -> str:
    steps = list(dict.fromkeys(entry.steps for entry in atlas.entries))
    entries = {(entry.phenomenon, entry.model, entry.steps): entry for entry in atlas.entries}
    blocks = [
        [(family, ""), *((name, name) for name in names if name in atlas.phenomena)]
        for family, names in FAMILIES.items()
    ]
    panels = _panels(blocks)
    group = _CELL * len(steps) + _GAP
    wide = _NAME + group * len(atlas.models) + 14
    width, height = wide * len(panels) + 34, _HEAD + _ROW * max(map(len, panels)) + 44
    parts = [f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>']
    for p, panel in enumerate(panels):
        left = 10 + p * wide
        for m, model in enumerate(atlas.models):
            x = left + _NAME + m * group + group / 2
            parts.append(f'<text transform="translate({x:g},{_HEAD - 6}) rotate(-60)">{escape(model)}</text>')
        for r, (text, name) in enumerate(panel):
            y = _HEAD + r * _ROW
            look = "f" if not name else "b" if text.startswith("BLiMP ") else ""
            parts.append(f'<text x="{left}" y="{y + 10}" class="{look}">{escape(_shortened(text))}</text>')
            for m, model in enumerate(atlas.models if name else ()):
                for s, step in enumerate(steps):
                    entry = entries.get((name, model, step))
                    parts.append(_square(entry, left + _NAME + m * group + s * _CELL, y + 1))
    parts += _key(atlas, steps, height)
    counts = ", ".join(f"{atlas.count(one)} {one}" for one in STANDINGS if atlas.count(one))
    about = f"{len(atlas.phenomena)} phenomena in {len(atlas.models)} models: {counts}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">\n'
        f'<title id="t">The atlas: verdicts</title>\n<desc id="d">{escape(about)}</desc>\n'
        "<style>text{font:9.5px Helvetica,Arial,sans-serif;fill:#1d2329}.f{font-weight:bold}.b{font-style:italic}"
        "rect.c{stroke:#b9c1c9;stroke-width:.6}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _panels(blocks: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """The blocks in columns of about the same height."""
    target = sum(map(len, blocks)) / _PANELS
    panels: list[list[tuple[str, str]]] = [[]]
    for block in blocks:
        if len(panels) < _PANELS and len(panels[-1]) + len(block) / 2 > target:
            panels.append([])
        panels[-1] += block
    return panels


def _shortened(text: str) -> str:
    text = text.removeprefix("BLiMP ")
    for long, short in _SHORT.items():
        text = text.replace(long, short)
    return text


def _square(entry: Entry | None, x: float, y: float) -> str:
    standing: Standing = "not run" if entry is None else entry.standing
    said = (
        ""
        if entry is None
        else f"<title>{escape(f'{entry.phenomenon}, {entry.column}: {standing} {entry.said}')}</title>"
    )
    dashed = ' stroke-dasharray="2 1.5"' if standing == "not run" else ""
    size = f'x="{x:g}" y="{y:g}" width="{_CELL - 1}" height="{_ROW - 2}"'
    square = f'<rect class="c" {size} fill="{COLOURS[standing]}"{dashed}'
    return f"{square}>{said}</rect>" if standing != "not run" else f"{square}/>"


def _key(atlas: Atlas, steps: list[str], height: int) -> list[str]:
    parts, x, y = [], 10.0, height - 26
    for standing in STANDINGS:
        if not atlas.count(standing):
            continue
        dashed = ' stroke-dasharray="2 1.5"' if standing == "not run" else ""
        parts.append(
            f'<rect class="c" x="{x:g}" y="{y}" width="11" height="11" fill="{COLOURS[standing]}"{dashed}/>'
        )
        said = _LEGEND.get(standing, standing)
        parts.append(f'<text x="{x + 16:g}" y="{y + 9}">{said}</text>')
        x += 34 + 5.2 * len(said)
    order = " and ".join(f"{step} step" if step == "every" else f"a {step} step" for step in steps)
    parts.append(
        f'<text x="{x:g}" y="{y + 9}">Left and right square: units set at {order}. Italics: BLiMP.</text>'
    )
    return parts
