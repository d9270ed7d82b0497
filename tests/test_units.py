import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotal import PivotalError
from pivotal.errors import did_you_mean
from pivotal.printing import duration
from pivotal.units import Site, Unit, UnitSpace, pattern_of, select_sites, sites_in_bases

LSTM = (Site("hidden.0", 650, bounds=(-1.0, 1.0)), Site("hidden.1", 650))
PCA = tuple(Site(f"mlp.{i}@pca", 4, within=f"mlp.{i}", basis="ab") for i in (2, 3, 4))
GPT = tuple(Site(f"{kind}.{i}", 4) for i in range(12) for kind in ("attn", "mlp"))


def test_a_unit_is_named_by_its_site_and_its_index_there():
    space = UnitSpace(LSTM)
    assert space.unit(649) == Unit("hidden.0", 649)
    assert space.unit(650) == Unit("hidden.1", 0)
    assert str(space.unit(775)) == str(UnitSpace(LSTM[1:]).unit(125)) == "hidden.1:125"


@given(st.integers(0, 1299))
def test_flat_and_unit_are_inverse(flat):
    space = UnitSpace(LSTM)
    assert space.flat(space.unit(flat)) == flat


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("all", [site.name for site in GPT]),
        ("mlp", [f"mlp.{i}" for i in range(12)]),
        ("mlp.9-11", ["mlp.9", "mlp.10", "mlp.11"]),
        (" attn.3 , mlp.2-2", ["mlp.2", "attn.3"]),  # the model's order, not the pattern's
        ("mlp.2@pca", ["mlp.2@pca"]),
        ("mlp@pca", ["mlp.2@pca", "mlp.3@pca", "mlp.4@pca"]),
        ("all@pca", ["mlp.2@pca", "mlp.3@pca", "mlp.4@pca"]),
        ("mlp.0-1, mlp.3@pca", ["mlp.0", "mlp.1", "mlp.3@pca"]),
    ],
)
def test_patterns_select_sites(pattern, names):
    assert [site.name for site in select_sites([*GPT, *PCA], pattern)] == names


MANY = pytest.param(f"mlp.{'9' * 5000}", id="more digits than Python reads")
MANY_TO = pytest.param(f"mlp.1-{'9' * 5000}", id="more digits in a range")


@pytest.mark.parametrize(
    "pattern", ["", "mpl", "mlp.12", "mpl.2-3", "mlp.x", "mlp,", "hidden.0", MANY, MANY_TO]
)
def test_patterns_that_match_nothing_are_refused(pattern):
    with pytest.raises(PivotalError, match=r"must match a site of the model.*Available: attn"):
        select_sites(GPT, pattern)


@pytest.mark.parametrize("pattern", ["mlp.10-99", "mlp.5-3", "mlp.12-14", "attn.0,mlp.11-12"])
def test_a_range_goes_up_and_stays_within_the_model(pattern):
    said = rf"{pattern.rpartition(',')[2]}' leaves the layers 0 to 11. .*mlp\.0-11"
    with pytest.raises(PivotalError, match=said):
        select_sites(GPT, pattern)


@pytest.mark.parametrize("sites", [(), (LSTM[0], LSTM[0])])
def test_a_space_has_different_sites(sites):
    with pytest.raises(PivotalError, match=r"at least one site|named once"):
        UnitSpace(sites)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (Unit("mlp.0", 0), r"not in the sites hidden.0, hidden.1. Include"),
        (Unit("hidden.0", 650), "has 650 units; there is no hidden.0:650"),
        (Unit("hidden.1", -1), "there is no hidden.1:-1"),
    ],
)
def test_units_outside_the_space_are_refused(unit, message):
    with pytest.raises(PivotalError, match=message):
        UnitSpace(LSTM).flat(unit)


def test_bounds_are_infinite_where_a_site_has_none():
    low, high = UnitSpace(LSTM).bounds()
    assert (low[649], high[649], low[650], high[650]) == (-1.0, 1.0, -math.inf, math.inf)
    assert len(low) == len(high) == len(UnitSpace(LSTM)) == 1300


def test_the_pattern_of_sites_in_a_basis_selects_them():
    assert pattern_of([*GPT[:4], *PCA]) == "attn.0-1, mlp.0-1, mlp.2-4@pca"
    assert select_sites([*GPT, *PCA], pattern_of(PCA)) == PCA


def test_a_site_is_searched_in_one_basis():
    with pytest.raises(PivotalError, match=r"mlp\.2@pca and mlp\.2 have the same coordinates"):
        UnitSpace((Site("mlp.2", 4), PCA[0]))
    with pytest.raises(PivotalError, match="Choose one"):
        UnitSpace((PCA[0], Site("mlp.2@das", 4, within="mlp.2", basis="cd")))


def test_bases_are_asked_for_by_site_kind_and_argument():
    asked = sites_in_bases(GPT, "attn.0, mlp.2-3@das:2, mlp.4@sae:C:/a folder/x.y")
    assert [(one.name, one.argument) for one in asked] == [
        ("mlp.2@das", "2"),
        ("mlp.3@das", "2"),
        ("mlp.4@sae", "C:/a folder/x.y"),
    ]
    with pytest.raises(PivotalError, match=r"the basis of one site, but .* selects 2"):
        sites_in_bases(GPT, "mlp.2-3@sae:a/folder")
    with pytest.raises(PivotalError, match="named twice"):
        sites_in_bases(GPT, "mlp.2@sae:a, mlp.2@sae:b")


# -- misspelt names --


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("gredy", ["learned", "greedy"], " Did you mean 'greedy'? Available: greedy, learned."),
        ("BASE", ["Base"], " Did you mean 'Base'? Available: Base."),
        ("zzz", ["a"], " Available: a."),
        ("zzz", [], " None is available."),
    ],
)
def test_did_you_mean(name, known, hint):
    assert did_you_mean(name, known) == hint


# -- numbers as people read them --


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0.2, "0 s"), (41.4, "41 s"), (119, "119 s")),
        *((372, "6.2 minutes"), (7199, "120.0 minutes"), (9000, "2.5 hours")),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
