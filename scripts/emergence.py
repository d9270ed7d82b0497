"""Draw when in training the units appear: flips, accuracy and perplexity over the tokens that a model has read.

    pivotal study emergence --out runs/emergence
    python scripts/emergence.py docs/results/emergence docs/images/emergence.svg

Flips and accuracy are those of the study. Tokens and perplexity are in the cards of its models, which are looked up by
the paths in the rows, from the working directory or among the local models.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import altair as alt

from pivotal.errors import PivotalError
from pivotal.models.recurrent.folder import local_folder
from pivotal.records.study import RESULTS, read_results
from pivotal.report.drawing import COLOURS, draw, picture

SHOWN = (1, 2, 3, 5, 10)
"""Units allowed, a line each."""
_STYLE = """<style>
  svg { color: #1d2329; background: #ffffff }
  @media (prefers-color-scheme: dark) { svg { color: #e6eaee; background: #14171f } }
</style>"""
"""A picture in a README cannot take its colours from the page."""


def points(study: Path) -> list[dict[str, Any]]:
    """A point per run that is done."""
    found = []
    for row in filter(lambda row: row.done, read_results(study / RESULTS)):
        folder, _ = local_folder(row.model)
        if folder is None:
            raise PivotalError(
                f"The cards of the models state their tokens and perplexity, but {row.model} is neither here nor among "
                "the local models. Run this where the models are."
            )
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
        found.append(
            {
                "tokens": card["tokens"]["read"],
                "seed": f"seed {card['seed']}",
                "perplexity": card["validation"]["perplexity"],
                "units": row.options["max_units"],
                "flipped": row.accuracy,
                "accuracy": row.clean_accuracy,
            }
        )
    return found


def chart(rows: list[dict[str, Any]]) -> Any:
    ticks = alt.Axis(
        values=[m * 10**e for e in (6, 7, 8, 9) for m in (1, 3)],
        labelExpr="replace(format(datum.value, '~s'), 'G', 'B')",
    )
    read = [row["tokens"] for row in rows]
    # A margin on both sides, so that the axis labels the smallest number of tokens, which is a little above 10M.
    along = alt.Scale(type="log", nice=False, domain=[0.9 * min(read), 1.1 * max(read)])
    x = alt.X("tokens:Q", title="tokens read", scale=along, axis=ticks)
    seeds = sorted({row["seed"] for row in rows})
    dash = alt.StrokeDash("seed:N", scale=alt.Scale(domain=seeds, range=[[1, 0], [4, 3]]), legend=None)
    flips = [row for row in rows if row["units"] in SHOWN]
    units = alt.Color(
        "units:O", title="units allowed", scale=alt.Scale(domain=SHOWN, range=COLOURS[: len(SHOWN)])
    )
    models = list({(row["tokens"], row["seed"]): row for row in rows}.values())

    def panel(data: list[dict[str, Any]], field: str, title: str, **more: Any) -> Any:
        y = alt.Y(f"mean({field}):Q", title=title, **more.pop("y"))
        base = alt.Chart(alt.Data(values=data)).encode(x=x, y=y, strokeDash=dash, **more)
        return base.mark_line(point=True).properties(width=210, height=200)

    names = zip(("solid", "dashed"), seeds, strict=False)
    lines = "; ".join(f"{line} line: {seed}" for line, seed in names)
    share = alt.Axis(format="%")
    flipped = {"scale": alt.Scale(domain=[0, 1]), "axis": share}
    accuracy = {"scale": alt.Scale(domain=[0.4, 1]), "axis": share}
    perplexity = {
        "scale": alt.Scale(type="log", nice=False),
        "axis": alt.Axis(values=[40, 50, 70, 100, 150, 200]),
    }
    return alt.hconcat(
        panel(flips, "flipped", "preferences flipped", y=flipped, color=units),
        panel(models, "accuracy", "agreement without intervention", y=accuracy),
        panel(models, "perplexity", "validation perplexity", y=perplexity),
        title=alt.TitleParams(lines, color="currentColor", fontSize=12, fontWeight="normal"),
    )


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("study", type=Path, help="folder of the study")
    parser.add_argument("out", type=Path, help="SVG or PNG file to write")
    args = parser.parse_args()
    try:
        drawn = chart(points(args.study))
    except PivotalError as error:
        parser.error(str(error))
    if args.out.suffix == ".png":
        args.out.write_bytes(picture(drawn))
    else:
        start, end, rest = draw(drawn).partition(">")
        args.out.write_text(start + end + _STYLE + rest, encoding="utf-8")


if __name__ == "__main__":
    main()
