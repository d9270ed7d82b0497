"""The names of `import pivotal` and of its namespaces: they exist, are documented, and do not make it slow."""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property

import pytest
from tests.paths import ROOT
from tests.processes import code

import pivotal
from pivotal.searches import SEARCHES

NAMESPACES = {
    name: getattr(pivotal, name) for name in pivotal.__all__ if inspect.ismodule(getattr(pivotal, name))
}
TOP = [name for name in pivotal.__all__ if name not in NAMESPACES and name != "__version__"]
PUBLIC = [(pivotal, name) for name in TOP] + [
    (space, n) for space in NAMESPACES.values() for n in space.__all__
]


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


@pytest.mark.parametrize(("space", "name"), PUBLIC)
def test_every_public_name_and_method_has_a_docstring(space, name):
    value = getattr(space, name)
    assert inspect.getdoc(value), name
    if inspect.isclass(value):
        missing = [member for member in public_members(value) if not inspect.getdoc(getattr(value, member))]
        assert not missing, f"{name}: {', '.join(missing)}"


def test_a_name_has_one_spelling():
    """What is at the top is in no namespace, and a namespace shares no name with another."""
    names = [name for _, name in PUBLIC]
    assert len(names) == len(set(names)), sorted(names)
    assert not {name for name in names if name in NAMESPACES}


def test_the_api_page_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: (\S+)$", page, re.M)) == sorted(
        f"{s.__name__}.{name}" for s, name in PUBLIC
    )


def test_every_search_is_public():
    built_in = {cls for _, cls in SEARCHES.items() if cls.__module__.startswith("pivotal.")}
    assert built_in <= {getattr(pivotal.searches, name) for name in pivotal.searches.__all__}


@pytest.mark.slow
def test_names_are_imported_when_they_are_used():
    code(
        "import sys, pivotal; assert 'torch' not in sys.modules; "
        "assert set(dir(pivotal)) == set(pivotal.__all__); pivotal.searches.Greedy; assert 'torch' in sys.modules"
    )
    with pytest.raises(AttributeError, match="has no attribute 'Gredy'"):
        pivotal.Gredy  # noqa: B018


def test_threads_do_not_spin_for_long(monkeypatch):
    """torch reads the setting when it is loaded, so `import pivotal` must have made it."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    for given, expected in ({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"):
        assert code("import os, pivotal; print(os.environ['GOMP_SPINCOUNT'])", env=given).strip() == expected
