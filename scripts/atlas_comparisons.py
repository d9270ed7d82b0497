"""The tables of docs/atlas-findings.md that compare: models, kinds of values, and the families of number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np

from atlas_tables import (
    VERDICTS,
    groups,
    lines,
    middle,
    number,
    percent,
)
from phenomenon_families import family_of
from pivotal.records.study import StudyRow, read_results
from pivotal.report.atlas.entries import Atlas
from pivotal.report.atlas.findings import RELIABLE

RESULTS = Path(__file__).parents[1] / "docs" / "results"
UNBOUNDED = RESULTS / "atlas_unbounded.jsonl"
"""The same cells of wiki-lstm, searched without bounds on the values (without the cross tables)."""
SHUFFLES = 9_999
ROUNDING = 1e-9


def values_table(atlas: Atlas) -> str:
    """Searches without bounds and inside the natural range: the same model and phenomena."""
    former = read_results(UNBOUNDED)
    rows = []
    for model, steps, entries in groups(atlas):
        now = {entry.row.phenomenon: entry.row for entry in entries if entry.row}
        before = {row.phenomenon: row for row in former if (row.model, row.steps) == (model, steps)}
        both = sorted(now.keys() & before.keys())
        if both:
            rows += [
                (steps, values, *_in_figures([one[name] for name in both]))
                for values, one in (("unbounded", before), ("natural", now))
            ]
    columns = (
        *("steps", "values", "phenomena", "flips", "90% or more", "units", "KL", "text", "interchange"),
        *VERDICTS[1:],
    )
    return lines(columns, rows)


def _in_figures(rows: Sequence[StudyRow]) -> tuple[object, ...]:
    flips = [row.accuracy or 0.0 for row in rows]
    judged = [row.judged for row in rows if row.judged]
    words = Counter(one.verdict for one in judged)
    return (
        *(len(rows), percent(median(flips)), sum(share >= RELIABLE for share in flips)),
        f"{fmean(row.units or 0 for row in rows):.1f}",
        number(middle(row.kl for row in rows)),
        number(middle(one.text for one in judged)),
        percent(middle(one.interchange for one in judged)),
        *(words[word] for word in VERDICTS[1:]),
    )


def number_test_table(atlas: Atlas) -> str:
    """Flips within the three families of number and between them, against a random division of the same phenomena.

    The division is shuffled over the phenomena, so the sizes of the families stay, and so does what belongs to a
    phenomenon alone, such as being easy to flip.
    """
    rows = []
    for model, steps, entries in groups(atlas):
        flips = {
            (entry.phenomenon, score.phenomenon): score.flipped
            for entry in entries
            if _is_number(entry.phenomenon)
            for score in entry.cross
            if score.flipped is not None
            and _is_number(score.phenomenon)
            and (model, score.phenomenon) not in atlas.unknown
        }
        of = {one for one, _ in flips}
        if len({family_of(name) for name in of}) > 1:
            within, between, p = _against_random_divisions(flips)
            rows.append((model, steps, len(of), percent(within), percent(between), f"{p:.4f}"))
    return lines(("model", "steps", "interventions", "same family", "other family", "p"), rows)


def _is_number(phenomenon: str) -> bool:
    return family_of(phenomenon).startswith("number")


def _against_random_divisions(flips: Mapping[tuple[str, str], float]) -> tuple[float, float, float]:
    """The mean flips within families and between them, and how often a random division has as large a difference."""
    names = sorted({name for pair in flips for name in pair})
    of, on = (np.array([names.index(pair[i]) for pair in flips]) for i in (0, 1))
    shares = np.array(list(flips.values()))
    rng, families = np.random.default_rng(0), np.array([family_of(name) for name in names])
    divisions = [families, *(rng.permutation(families) for _ in range(SHUFFLES))]
    same = np.array([division[of] == division[on] for division in divisions])
    within = same @ shares / same.sum(1)
    between = ~same @ shares / (~same).sum(1)
    differences = within - between
    as_large = differences >= differences[0] - ROUNDING  # the division itself is one of them
    return float(within[0]), float(between[0]), float(as_large.mean())


COMPARISONS: dict[str, Callable[[Atlas], str]] = {
    "values": values_table,
    "number-test": number_test_table,
}
