"""The table that is kept up to date while a study runs."""

from __future__ import annotations

import io

from rich.console import Console

from pivotal.cli.study_board import Board
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.jobs.study.watch import Standing
from pivotal.searches.base import Progress

CELLS = cells_of(
    parse_recipe("name: x\nruns: 4\ngrid:\n  max_units: [" + ", ".join(map(str, range(1, 21))) + "]")
)


def drawn(board: Board, console: Console) -> str:
    console.file = file = io.StringIO()
    console.print(board.drawn())
    return file.getvalue()


def test_a_line_per_cell_and_what_is_left() -> None:
    console = Console(width=100, height=40)
    board = Board(console)
    standings = [Standing(cell, 4) for cell in CELLS]
    standings[0] = Standing(CELLS[0], 4, done=4, seconds=65.0)
    standings[1] = Standing(CELLS[1], 4, failed=4, error="no room")
    board.began(CELLS[2])
    board.progress(CELLS[2], Progress("learn", 80, 160, [0.5], [12.0], [0.25]))
    board.stands(standings, 300.0)
    lines = drawn(board, console).splitlines()
    assert len(lines) == 22
    assert lines[1].split() == ["1", "4/4", "65", "s"]
    assert lines[2].split() == ["2", "0/4", "4", "no", "room"]
    assert "0/4" in lines[3] and "learn 80/160  loss 0.500  units 12.0  flipped 25.0%" in lines[3]
    assert lines[-1] == "4 of 80 runs done, about 5.0 minutes left"


def test_on_a_small_screen_what_is_under_way_comes_first() -> None:
    console = Console(width=100, height=10)
    board = Board(console)
    standings = [Standing(cell, 4, done=4) for cell in CELLS[:18]] + [
        Standing(cell, 4) for cell in CELLS[18:]
    ]
    board.stands(standings, None)
    board.began(CELLS[18])
    lines = drawn(board, console).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["19", "20"]
    assert len(lines) == 8 and lines[-1] == "72 of 80 runs done, 14 more cells"
