"""Draw what updates and applied interventions cost elsewhere, and print the tables of benchmarks/peers.

python scripts/peers.py docs/results/peers.jsonl docs/results/quality.jsonl docs/images/peers.svg
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from pivotal.report.drawing import COLOURS, draw

Rows = list[dict[str, Any]]

BARS = {"unbounded": (0.98, 0.95), "natural": (0.94, 0.93)}
"""The shares of held-out pairs that a set must flip, by what units may be set to."""
RANKING = {"gradient times activation": 4, "integrated gradients": 32}
"""The updates without KL that take as long as a ranking. 512 prefixes are four batches; `integrated` has 8 points."""


def rows_of(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def applies(row: dict[str, Any]) -> bool:
    return "applying" in row["job"]


def table(rows: Rows) -> str:
    lines = ["| job | way | CPU ms | pivotal, CPU ms | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['job']} | {row['way']} | {row['ms']:,} | {row['pivotal_ms']:,} | **{row['ratio']:.1f} x** |"
        )
    return "\n".join(lines)


def quality_table(rows: Rows, values: str) -> str:
    """What each way needs to pass the bars, with a careful loop where it is none of pivotal's, and where it ends."""
    bars = BARS[values]
    seconds = " | ".join(f"CPU s to {bar:.0%} (seeds)" for bar in bars)
    lines = [f"| way | {seconds} | at the end: flipped % | units | KL |", "|---|---|---|---|---|---|"]
    of_values = [row for row in rows if row.get("values") == values]
    most = max(row["kl"] for row in of_values if row["way"].startswith("pivotal"))
    for way in dict.fromkeys(row["way"] for row in of_values):
        some = [row for row in of_values if row["way"] == way]
        loop = "" if "seconds" in some[0] else "careful"
        passed = [first_to_pass(some, bar, most, rows, loop) for bar in bars]
        seeds = len({row["seed"] for row in some})
        cells = [
            f"{way}, careful loop" if loop else f"**{way}**",
            *(f"{_median([spent for spent, _ in found])} ({len(found)} of {seeds})" for found in passed),
            *(_each(at_the_end(some), name) for name in ("flips", "units", "kl")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def first_to_pass(points: Rows, bar: float, most: float, costs: Rows, loop: str) -> list[tuple[float, int]]:
    """For each seed that passes, the fewest CPU seconds to a set that flips enough at that KL, and its updates."""
    cheapest: dict[int, tuple[float, int]] = {}
    for point in points:
        if point["flips"] >= bar and point["kl"] <= most:
            found = seconds_of(point, costs, loop), point.get("updates", 0) + point.get("refit", 0)
            cheapest[point["seed"]] = min(found, cheapest.get(point["seed"], found))
    return list(cheapest.values())


def seconds_of(point: dict[str, Any], costs: Rows, loop: str) -> float:
    """The measured CPU seconds of a search, or those of its updates by a loop written by hand."""
    if "seconds" in point:
        return float(point["seconds"])
    each: dict[str, list[float]] = {row["cost"]: [] for row in costs if "cost" in row}
    for row in costs:
        if row.get("loop") == loop:
            each[row["cost"]] += row["seconds"]
    without = " without KL" if point["way"].endswith("without KL") else ""
    update, refit, rank = (
        statistics.median(each[kind]) for kind in (f"update{without}", f"refit{without}", "update without KL")
    )
    return point["updates"] * update + point["refit"] * refit + RANKING.get(point["way"], 0) * rank


def at_the_end(points: Rows) -> Rows:
    """The last point of each seed."""
    return list({point["seed"]: point for point in points}.values())


def _median(numbers: Sequence[float]) -> str:
    return f"{statistics.median(numbers):.0f}" if numbers else "not reached"


def _each(points: Rows, name: str) -> str:
    scale, spec = {"flips": (100, ".1f"), "units": (1, "d"), "kl": (1, ".2f")}[name]
    return ", ".join(f"{scale * point[name]:{spec}}" for point in points)


def chart(rows: Rows) -> Any:
    def panel(job: str, colour: str, most: float) -> Any:
        some = [row for row in rows if row["job"] == job]
        x = alt.X(
            "ratio:Q",
            title="CPU time, as a multiple of pivotal's",
            scale=alt.Scale(domain=[0, most], nice=False),
            axis=alt.Axis(values=list(range(0, int(most) + 1, 1 if most < 12 else 2))),
        )
        y = alt.Y("way:N", title=None, sort=[row["way"] for row in some], axis=alt.Axis(labelLimit=220))
        base = alt.Chart(alt.Data(values=some)).encode(x=x, y=y)
        text = base.mark_text(align="left", dx=4, color="currentColor").encode(
            text=alt.Text("ratio:Q", format=".1f")
        )
        same = alt.Chart(alt.Data(values=[{"ratio": 1}])).mark_rule(strokeDash=[4, 3], color=COLOURS[6])
        title = alt.TitleParams(job, color="currentColor", fontSize=13, anchor="start")
        bars = base.mark_bar(color=colour, size=14)
        layers = alt.layer(bars, text, same.encode(x=x))
        return layers.properties(width=330, height=alt.Step(22), title=title)

    def column(rows: Rows, colour: str) -> Any:
        most = 1.15 * max(row["ratio"] for row in rows)
        return alt.vconcat(*(panel(job, colour, most) for job in dict.fromkeys(row["job"] for row in rows)))

    updates, applied = [row for row in rows if not applies(row)], [row for row in rows if applies(row)]
    return alt.hconcat(column(updates, COLOURS[0]), column(applied, COLOURS[1]))


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("figures", type=Path, help="what lstm.py and transformer.py wrote with --out")
    parser.add_argument("quality", type=Path, help="what quality.py wrote with --out")
    parser.add_argument("out", type=Path, help="SVG file to write")
    args = parser.parse_args()
    rows, quality = rows_of(args.figures), rows_of(args.quality)
    print(table([row for row in rows if not applies(row)]), "\n")
    print(table([row for row in rows if applies(row)]), "\n")
    for values in dict.fromkeys(row["values"] for row in quality if "values" in row):
        print(f"{values}:\n\n{quality_table(quality, values)}\n")
    args.out.write_text(draw(chart(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
