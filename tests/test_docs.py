"""The Python in the documentation runs, from the first block of a page to its last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["add-a-model.md"])
def test_python_of_a_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert "run" in capsys.readouterr().out
