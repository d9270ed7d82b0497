"""h -> (1 - m) * h + m * b, where and only where a span says so; and rows that are picked as indexing picks them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotal import Intervention, PivotalError
from pivotal.models.edits import MaskedEdit, Sources, dense
from pivotal.models.planted import plant
from pivotal.models.tensors import distinct_rows, shared_rows
from pivotal.models.tree import PrefixTree, Span
from pivotal.units import Site, Unit, UnitSpace

SPACE = UnitSpace((Site("a", 3), Site("b", 2)))


def drawn(runs: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (runs, 2, len(SPACE))
    return torch.rand(shape, generator=generator), torch.randn(shape, generator=generator)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """Rows of a level, and up to two disjoint spans among them, one per direction."""
    cuts = sorted(draw(st.lists(st.integers(0, 8), min_size=4, max_size=4)))
    found = [Span(cuts[0], cuts[1], 0), Span(cuts[2], cuts[3], 1)]
    return draw(st.integers(max(1, cuts[3]), 9)), [span for span in found if span.stop > span.start]


@given(spans(), st.integers(1, 3), st.booleans(), st.sampled_from(["apart", "shared", "sources"]))
@settings(max_examples=100, deadline=None)
def test_an_edit_interpolates_in_its_spans_only_and_its_gradients_are_the_formulas(
    level, runs, together, kind
):
    """With a mask for each direction or one for both, and with values or the states of other nodes. The runs come
    together, as before the first edit, or apart."""
    rows, where = level
    where = [replace(span, nodes=torch.arange(span.start, span.stop)) for span in where]
    mask, values = (tensor.double().requires_grad_() for tensor in drawn(runs))
    given_mask, used = (mask[:, 0], mask[:, :1].expand(-1, 2, -1)) if kind == "shared" else (mask, mask)
    h = torch.randn(rows, 1 if together else runs, 3, dtype=torch.float64, requires_grad=True)
    states = torch.randn(4, 3, dtype=torch.float64)
    sources = Sources({"a": states}, torch.randint(4, (rows,))) if kind == "sources" else None
    edit = MaskedEdit(SPACE, given_mask, values, sources=sources)
    found = edit("a", where, h)
    assert edit.reached == {"a": sum(span.stop - span.start for span in where), "b": 0}
    pieces = list(h.expand(-1, found.shape[1], -1).unbind(0))
    for span in where:
        m, b = used[:, span.direction, :3], values[:, span.direction, :3]
        for row in range(span.start, span.stop):
            value = b if sources is None else states[sources.of[row]]
            pieces[row] = (1 - m) * pieces[row] + m * value
    expected = torch.stack(pieces)
    assert torch.allclose(found, expected)
    weights, learned = torch.randn(found.shape, dtype=torch.float64), [h, mask, values]
    how = {"allow_unused": True, "materialize_grads": True}
    ours = torch.autograd.grad((found * weights).sum(), learned, **how)
    plain = torch.autograd.grad((expected * weights).sum(), learned, **how)
    assert all(torch.allclose(a, b) for a, b in zip(ours, plain, strict=True))


def test_an_edit_of_a_site_that_the_model_lacks_is_an_error():
    """Also if it names others: a site in a basis is computed only by the model with that basis."""
    model = plant().model
    prepared = model.prepare(PrefixTree.build([model.encode("The noun0a").ids], [1], [0], "single"))
    both = UnitSpace((model.sites[0], Site("hidden.0@pca", 3, within="hidden.1")))
    mask = torch.ones(1, len(both))
    said = r"planted has no hidden.0@pca. A site in a basis needs the model with"
    with pytest.raises(PivotalError, match=said):
        model.states(prepared, MaskedEdit(both, mask, torch.zeros(1, 2, both.coordinates)))


def test_dense_puts_an_intervention_in_its_place():
    units = (Unit("b", 1), Unit("a", 0))  # not in the order of the space
    values, active = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[True, True], [False, True]])
    intervention = Intervention(units, ("x", "y"), values, "every", "m", "f", "p", "d", active=active)
    mask, values = dense(intervention, SPACE)
    assert mask.tolist() == [[[1, 0, 0, 0, 1], [1, 0, 0, 0, 0]]]
    assert (mask * values).tolist() == [[[2, 0, 0, 0, 1], [4, 0, 0, 0, 0]]]
    with pytest.raises(PivotalError, match="not in the sites a"):
        dense(intervention, UnitSpace(SPACE.sites[:1]))


def test_of_many_sites_only_those_that_a_mask_touches_are_edited():
    space = UnitSpace(tuple(Site(f"mlp.{i}", 3) for i in range(10)))
    mask, values = torch.zeros(2, 2, 30), torch.zeros(2, 2, 30)
    mask[1, 0, 13] = mask[0, 1, 29] = 1.0
    assert MaskedEdit(space, mask, values).sites == {"mlp.4", "mlp.9"}
    assert len(MaskedEdit(space, torch.zeros_like(mask), values).sites) == 1, "an edit has a site"
    # A mask that is being learned may have a slope where it is zero.
    learned = mask.clone().requires_grad_()
    assert len(MaskedEdit(space, learned, values).sites) == 10
    assert MaskedEdit(space, learned, values, zeros_stay=True).sites == {"mlp.4", "mlp.9"}


ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
@pytest.mark.parametrize("pick, rows", [(distinct_rows, [4, 0, 2]), (shared_rows, [4, 0, 0, 2, 4, 4])])
def test_rows_and_their_gradients_are_those_of_indexing(pick, rows, device):
    x = torch.randn(5, 2, 3, dtype=torch.float64, device=device, requires_grad=True)
    at = torch.tensor(rows, device=device)
    weights = torch.randn(len(rows), 2, 3, dtype=torch.float64, device=device)
    ours, theirs = pick(x, at), x[at]
    assert torch.equal(ours, theirs)
    (found,) = torch.autograd.grad((ours * weights).sum(), x)
    (expected,) = torch.autograd.grad((theirs * weights).sum(), x)
    torch.testing.assert_close(found, expected)


@ON_GPU
def test_a_gpu_adds_in_the_same_order_every_time():
    x = torch.randn(7, 3, 650, device="cuda", requires_grad=True)
    at = torch.randint(0, 7, (4000,), device="cuda")
    weights = torch.randn(4000, 3, 650, device="cuda")
    first, *others = (torch.autograd.grad((shared_rows(x, at) * weights).sum(), x)[0] for _ in range(5))
    assert all(torch.equal(first, other) for other in others)
