"""Draw what an update costs elsewhere, and print the table, from the figures of benchmarks/peers.

python scripts/peers.py docs/results/peers.jsonl docs/images/peers.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import altair as alt

from pivotal.report.drawing import COLOURS, draw


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| job | way | CPU ms | pivotal, CPU ms | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row['job']} | {row['way']} | {row['ms']:,} | {row['pivotal_ms']:,} | **{row['ratio']:.1f} x** |"
        )
    return "\n".join(lines)


def chart(rows: list[dict[str, Any]]) -> Any:
    jobs = list(dict.fromkeys(row["job"] for row in rows))

    def panel(job: str, colour: str) -> Any:
        some = [row for row in rows if row["job"] == job]
        x = alt.X(
            "ratio:Q",
            title="CPU time, as a multiple of pivotal's",
            scale=alt.Scale(domain=[0, most]),
            axis=alt.Axis(values=list(range(int(most) + 1))),
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

    most = 1.1 * max(row["ratio"] for row in rows)
    return alt.vconcat(*(panel(job, COLOURS[i]) for i, job in enumerate(jobs)))


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("figures", type=Path, help="what benchmarks/peers wrote with --out")
    parser.add_argument("out", type=Path, help="SVG file to write")
    args = parser.parse_args()
    rows = rows_of(args.figures)
    print(table(rows))
    args.out.write_text(draw(chart(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
