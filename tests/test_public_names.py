"""The names of `import pivotal as pv`: they exist, are documented, and do not make the import slow."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property

import pytest

import pivotal as pv
from pivotal.searches import SEARCHES


def public_members(cls: type) -> Iterator[str]:
    """The methods and properties that pivotal defines, inherited ones included."""
    for ancestor in cls.__mro__:
        if ancestor.__module__.startswith("pivotal"):
            for name, value in vars(ancestor).items():
                plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if not name.startswith("_") and (
                    inspect.isfunction(plain) or isinstance(plain, property | cached_property)
                ):
                    yield name


@pytest.mark.parametrize("name", [name for name in pv.__all__ if name != "__version__"])
def test_every_public_name_and_method_has_a_docstring(name: str) -> None:
    value = getattr(pv, name)
    assert inspect.getdoc(value), name
    if inspect.isclass(value):
        missing = [member for member in public_members(value) if not inspect.getdoc(getattr(value, member))]
        assert not missing, f"{name}: {', '.join(missing)}"


def test_every_search_is_exported() -> None:
    built_in = {cls for _, cls in SEARCHES.items() if cls.__module__.startswith("pivotal.")}
    assert built_in <= {getattr(pv, name) for name in pv.__all__ if name != "__version__"}


@pytest.mark.slow
def test_names_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, pivotal as pv; assert 'torch' not in sys.modules; "
        "assert set(dir(pv)) == set(pv.__all__); pv.Greedy; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'Gredy'"):
        pv.Gredy  # noqa: B018


def test_threads_do_not_spin_for_long() -> None:
    """torch reads the setting when it is loaded, so `import pivotal` must have made it."""
    code = "import os, pivotal; print(os.environ['GOMP_SPINCOUNT'])"
    for given, expected in ({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"):
        environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected
