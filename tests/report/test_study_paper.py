"""What is written down of the paper is what the paper prints."""

from __future__ import annotations

import re

import pytest
from tests.paths import SHARED

from pivotal.jobs.study.recipe import Recipe, read_recipe, shipped
from pivotal.report.study_tables import Printed, lines_of, printed_beside, printed_in

PAPER = SHARED / "paper" / "sparse-interventions.tex"
ORDER = (
    "tab:summary",
    "tab:svna_every",
    "tab:reinfoce_vs_ours",
    "tab:svna_single",
    "tab:gb_single",
    "tab:gb_every",
)
"""LaTeX numbers tables in the order in which they stand."""


def numbers_of(latex: str) -> list[float]:
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", latex)]


@pytest.fixture(scope="module")
def tables() -> dict[str, list[list[float]]]:
    """The numbers in each line of each table of the paper."""
    if not PAPER.is_file():
        pytest.skip("the paper is not at hand")
    text = PAPER.read_text(encoding="utf-8")
    tables = {}
    for body, label in re.findall(
        r"\\begin{tabular}(.*?)\\end{tabular}.*?\\label{(tab:\w+)}", text, flags=re.DOTALL
    ):
        lines = (re.sub(r"\\\w+", " ", line).replace("$", " ") for line in body.split(r"\\")[1:])
        tables[f"Table {ORDER.index(label) + 1}"] = [
            numbers for line in lines if len(numbers := numbers_of(line)) > 2
        ]
    assert len(tables) == len(ORDER)
    return tables


def flat(printed: Printed) -> list[float]:
    shares = (round(100 * share, 1) for share in printed["flip_accuracy"])
    return [*shares, *printed["units"], *printed.get("kl", [])]


def test_scores(tables: dict[str, list[list[float]]]) -> None:
    summary = [flat(printed) for printed in printed_in("scores") if printed["source"] == "Table 1"]
    assert summary == tables["Table 1"]
    efficiency = [[*flat(p), p["hours"]] for p in printed_in("scores") if p["source"] == "Table 3"]
    assert efficiency == [[n for n in line if n not in (0.05, 0.02)] for line in tables["Table 3"]]


def test_units(tables: dict[str, list[list[float]]]) -> None:
    for printed in printed_in("units"):
        rows = [
            [
                unit["number"],
                *(x for label in printed["labels"] for x in unit["values"][label]),
                round(100 * unit["prevalence"]),
            ]
            for unit in printed["units"]
        ]
        assert rows == tables[printed["source"]]


def test_every_line_of_the_paper_stands_beside_one_line_of_ours() -> None:
    recipes: dict[str, Recipe] = {name: read_recipe(path) for name, path in shipped().items()}
    for kind in ("scores", "units"):
        for printed in printed_in(kind):
            assert printed["beside"]
            for study in printed["beside"]:
                lines = lines_of(recipes[study], [])
                beside = [printed_beside(kind, study, line.label) is printed for line in lines]
                assert sum(beside) == 1, (study, printed)
