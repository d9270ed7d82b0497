"""Empty figures in place of real ones, which take longer to draw than a search on a planted model. tests/report and
tests/browser look at real ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pivotal.report import drawing

REAL = {name: getattr(drawing, name) for name in ("_styled", "render")}


@contextmanager
def empty_figures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_styled", lambda chart, ink, paper: {})
        patch.setattr(drawing, "render", lambda form, spec, **options: b'<svg width="9" height="9"></svg>')
        yield


@contextmanager
def real_figures() -> Iterator[None]:
    """Within `empty_figures`, draw figures again."""
    with pytest.MonkeyPatch.context() as patch:
        for name, function in REAL.items():
            patch.setattr(drawing, name, function)
        yield
