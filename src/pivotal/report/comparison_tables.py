"""Sentences and tables about a comparison, for the command line, the page and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pivotal.records.comparison import ComparisonRecord, ComparisonRow, RunSpread
from pivotal.report.tables import Table, counted, interval, number, percent, table

OVER = 1.1
"""A search that spends more than this many times its budget is marked."""

MODES = {"converged": "each search with its own settings", "equal": "equal budgets"}


def rows_of(result: ComparisonRecord, mode: str) -> list[ComparisonRow]:
    return [row for row in result.rows if row.mode == mode]


def modes_of(result: ComparisonRecord) -> list[str]:
    return [mode for mode in MODES if rows_of(result, mode)]


def searches_of(rows: Sequence[ComparisonRow]) -> list[str]:
    return list(dict.fromkeys(row.search for row in rows))


# -- numbers as text ---------------------------------------------------------------------------------------


def shares(spread: RunSpread) -> str:
    """Mean ± standard deviation, in percent."""
    sd = spread.sd
    return percent(spread.mean) if sd is None else f"{100 * spread.mean:.1f} ± {100 * sd:.1f}%"


def numbers(spread: RunSpread, digits: int = 3) -> str:
    sd = "" if spread.sd is None else f" ± {number(spread.sd, digits)}"
    return number(spread.mean, digits) + sd


def millions(nodes: int) -> str:
    return f"{nodes / 1e6:,.2f}"


def _kl(row: ComparisonRow) -> str:
    return numbers(row.kl) + ("" if row.bound_kept else " *")


def _cost(row: ComparisonRow, shown: str) -> str:
    return shown + (" †" if _over(row) else "")


def _over(row: ComparisonRow) -> bool:
    return row.budget is not None and row.nodes > OVER * row.budget


# -- sentences ---------------------------------------------------------------------------------------------


def sentence(result: ComparisonRecord) -> str:
    """The flips of all searches at the largest number of units, the best search first."""
    mode = modes_of(result)[0]
    rows = rows_of(result, mode)
    size = max(row.size for row in rows)
    order = sorted((row for row in rows if row.size == size), key=lambda row: -row.flip_accuracy.mean)
    first, *others = ((row.search, shares(row.flip_accuracy)) for row in order)
    listed = ", ".join([" flips ".join(first), *map(" ".join, others)])
    of = f" (mean ± standard deviation of {result.runs} runs)" if result.runs > 1 else ""
    return (
        f"{result.phenomenon} in {result.model}, {MODES[mode]}: with at most {counted(size, 'unit')} "
        f"{listed} of {result.pairs.test:,} held-out preferences{of}."
    )


def budget_sentence(result: ComparisonRecord) -> str:
    """The meaning of the mode `equal`; empty if the comparison does not use it."""
    if not rows_of(result, "equal"):
        return ""
    spent = (
        f"{result.budget:,} node evaluations"
        if result.budget is not None
        else f"as many node evaluations as {result.reference} takes with its own settings"
    )
    return (
        f"Equal budgets: for each number of units, all runs of a search together get about {spent}, "
        "forward and backward. Some searches have no setting that limits their cost; the table shows what they spent."
    )


def values_sentence(result: ComparisonRecord) -> str:
    """Which searches used other values than those of the question; empty if none did."""
    others = [
        f"{label} ({own['values']} values)"
        for label, own in result.searches.items()
        if own.get("values") not in (None, result.values)
    ]
    if not others:
        return ""
    return f"Units have {result.values} values, except in {' and '.join(others)}, as stated by the preset."


def bound_sentence(result: ComparisonRecord) -> str:
    """Which sets exceed the KL bound of their search; empty when none does."""
    broken = [row for row in result.rows if not row.bound_kept]
    if not broken:
        return ""
    return f"* KL of some run on held-out pairs is more than a tenth above its bound of {broken[0].max_kl:g}."


def over_sentence(result: ComparisonRecord) -> str:
    """Empty when every search kept its budget."""
    if not any(map(_over, result.rows)):
        return ""
    return "† More than a tenth above the budget: the search cannot spend less."


# -- tables ------------------------------------------------------------------------------------------------


def frontier_tables(result: ComparisonRecord, mode: str) -> list[Table]:
    """A row per search, a column per number of units: flips, KL, cost."""
    of = f", mean ± sd of {result.runs} runs" if result.runs > 1 else ""
    return [
        _matrix(result, mode, f"Flipped by units allowed{of}", lambda row: shares(row.flip_accuracy)),
        _matrix(result, mode, f"KL{of}", _kl, bound_sentence(result)),
        _matrix(
            result,
            mode,
            "Cost: seconds (million node evaluations)",
            lambda row: _cost(row, f"{row.seconds:.1f} ({millions(row.nodes)})"),
            over_sentence(result) if mode == "equal" else "",
        ),
    ]


def _matrix(
    result: ComparisonRecord, mode: str, title: str, cell: Callable[[ComparisonRow], str], note: str = ""
) -> Table:
    rows = rows_of(result, mode)
    cells = {(row.search, row.size): cell(row) for row in rows}
    shown = [
        (search, *(cells.get((search, size), "–") for size in result.sizes)) for search in searches_of(rows)
    ]
    named = f"{title} ({MODES[mode]})" if len(modes_of(result)) > 1 else title
    return table(named, ("search", *map(str, result.sizes)), shown, note=note)


COLUMNS = (
    "search", "mode", "units", "used", "flipped", "min–max", "median", "best run", "KL", "KL after edit",
    "seconds", "forward", "backward",
)  # fmt: skip


def full_table(result: ComparisonRecord) -> Table:
    rows = [
        (
            row.search,
            row.mode,
            str(row.size),
            f"{row.units.mean:.3g}",
            shares(row.flip_accuracy),
            interval(row.flip_accuracy.min, row.flip_accuracy.max),
            percent(row.flip_accuracy.median),
            percent(row.flip_accuracy.best),
            _kl(row),
            numbers(row.kl_after_edit),
            f"{row.seconds:.1f}",
            _cost(row, millions(row.forward_nodes)),
            millions(row.backward_nodes),
        )
        for row in result.rows
    ]
    note = (
        "Units: the number allowed. Used: the mean number of units found. Best run: the held-out score of the run with "
        "the best score on training pairs. Forward and backward: million node evaluations of all runs together. "
        + " ".join(filter(None, (values_sentence(result), bound_sentence(result), over_sentence(result))))
    ).strip()
    return table("All rows", COLUMNS, rows, text=2, note=note)


def units_table(result: ComparisonRecord) -> Table:
    """The units of the best run of each row."""
    rows = []
    for row in result.rows:
        best = row.runs[row.best]
        rows.append(
            (row.search, row.mode, str(row.size), ", ".join(map(str, best.unit_numbers)),
             f"{row.interventions}/{row.best}")
        )  # fmt: skip
    content = table("Units of the best runs", ("search", "mode", "units", "unit numbers", "folder"), rows)
    return Table(content.title, content.columns, content.rows, frozenset({2}))
