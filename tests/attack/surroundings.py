"""What surrounds a case: a scratch folder, no network, and work that is left out to be quick."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.processes import undrawn

from pivotal.searches.tools.refit import Refit


@contextmanager
def settled(root: Path) -> Iterator[Path]:
    """A scratch folder as the current one, with no network and a cache of its own. The live page is made, listens and
    ends at once."""
    with tempfile.TemporaryDirectory(dir=root) as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIVOTAL_HOME", str(Path(scratch) / "home"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        if "huggingface_hub" in sys.modules:  # it reads the variable once, when it is imported
            patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        patch.setenv("COLUMNS", "200")
        patch.setattr("webbrowser.open", lambda *_: True)
        if find_spec("uvicorn"):
            patch.setattr("uvicorn.Server.run", lambda *_, **__: None)
        before = Path.cwd()
        (Path(scratch) / "here").mkdir()
        os.chdir(Path(scratch) / "here")
        try:
            yield Path(scratch)
        finally:
            os.chdir(before)


@contextmanager
def hastened(*, real: bool = False, brief: bool = False) -> Iterator[None]:
    """Leave out what takes seconds and does not depend on the input: the drawing of charts, and the expansion of all
    bundled phenomena. With `real`, leave out nothing. With `brief`, leave out more, for the tests: charts are not even
    described, and the fits of a certificate are short."""
    with pytest.MonkeyPatch.context() as patch:
        if brief:
            patch.setattr(
                "pivotal.evidence.certify.Refit", lambda terms, _, looks: Refit(terms, 1, looks=looks)
            )
            for name in ("page.figures", "study.study_figures"):
                patch.setattr(f"pivotal.report.{name}", lambda *_: [])
        if not real:
            patch.setattr("pivotal.report.drawing.render", undrawn)
            patch.setattr("pivotal.lm.assess.load_phenomenon", _sampled)
            for module in ("side_effects", "summarise"):
                patch.setattr(
                    f"pivotal.evidence.{module}.bundled_phenomena",
                    lambda: [_sampled(name) for name in ("number-agreement", "gender-bias", "planted")],
                )
        yield


def _sampled(name: str, *more: Any) -> Any:
    """A hundred pairs of a bundled phenomenon. Phenomena with a path are read in full, every time."""
    from pivotal.questions.phenomena import load_phenomenon

    return load_phenomenon(name, *more) if ":" in name else _bundled(name)


@cache
def _bundled(name: str) -> Any:
    from pivotal.questions.phenomena import load_phenomenon

    return load_phenomenon(name).sample(100, seed=0)
