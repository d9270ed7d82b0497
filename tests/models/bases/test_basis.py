import pytest
import torch
from tests.models.bases.making import ACTIVATIONS, autoencoder, every_kind, states
from tests.models.tiny import PREFIXES as SENTENCES
from tests.models.tiny import shared_lm

from pivotal import PivotalError
from pivotal.models.bases import Basis
from pivotal.models.bases.basis import completed, pca
from pivotal.models.bases.edit import writes_of
from pivotal.models.edits import MaskedEdit
from pivotal.models.planted import plant
from pivotal.models.tree import PrefixTree
from pivotal.records.basis import read_bases, write_bases
from pivotal.testing import check_basis
from pivotal.units import Unit

PREFIXES = ["The noun0a near", "The noun0a near often", "The noun0as", "The noun1b near quite", "The"]


@pytest.mark.parametrize(("name", "site"), [*((name, "resid.1") for name in every_kind(8)), ("pca", "mlp.0")])
def test_an_empty_mask_changes_nothing_in_any_basis_of_a_transformer(name, site):
    llama = shared_lm("llama")
    width = next(one.width for one in llama.sites if one.name == site)
    check_basis(llama.in_bases({f"{site}@{name}": every_kind(width)[name]}), SENTENCES)


def test_the_unit_basis_edits_the_units_themselves():
    model = plant(hidden=24).model
    same = model.in_bases({"hidden.0@rotation": Basis.rotation("rotation", torch.eye(24))})
    tree = PrefixTree.build([model.encode(text).ids for text in PREFIXES], [0] * 5, [0, 1, 0, 1, 0], "every")
    noise = torch.Generator().manual_seed(1)
    mask = (torch.rand(3, 2, 24, generator=noise) < 0.3).float()
    values = torch.rand(3, 2, 24, generator=noise)
    states = [
        there.states(there.prepare(tree), MaskedEdit(there.unit_space(site), mask, values))
        for there, site in ((model, "hidden.0"), (same, "hidden.0@rotation"))
    ]
    assert torch.allclose(*states, atol=1e-6)


def test_an_edit_in_an_orthonormal_basis_sets_its_coordinates_and_leaves_the_others():
    basis, h = pca(states(10)), states(10, 5, seed=3)
    z = basis.encode(h)
    new = z.clone()
    new[:, [2, 7]] = torch.tensor([1.5, -2.0])
    assert torch.allclose(basis.encode(h + basis.decode(new - z)), new, atol=1e-4)


def test_principal_components_are_orthonormal_centred_and_sorted():
    rows = states(10, 400)
    basis = pca(rows)
    assert torch.allclose(basis.decoder @ basis.decoder.T, torch.eye(10), atol=1e-5)
    z = basis.encode(rows)
    assert z.mean(0).abs().max() < 1e-4
    assert (z.var(0).diff() < 1e-4).all()


def test_a_completed_basis_begins_with_the_given_directions():
    first = torch.linalg.qr(states(10, 10, seed=5)).Q.T[:2]
    for count in (400, 3):  # also with fewer states than coordinates
        basis = completed("probe", first, states(10, count))
        assert torch.allclose(basis.decoder[:2], first, atol=1e-6)
        assert torch.allclose(basis.decoder @ basis.decoder.T, torch.eye(10), atol=1e-5)


def test_top_k_keeps_the_largest_coordinates():
    basis = autoencoder(8, "topk")
    z = basis.encode(states(8, 30))
    assert ((z != 0).sum(1) <= 6).all() and (z >= 0).all()
    linear = Basis("sae", basis.encoder, basis.decoder, basis.bias).encode(states(8, 30))
    assert torch.equal(z.amax(1), linear.amax(1))


def test_a_jump_relu_is_zero_up_to_its_threshold():
    basis = autoencoder(8, "jumprelu")
    z = basis.encode(states(8, 30))
    assert (z[z != 0] > basis.threshold.expand_as(z)[z != 0]).all() and (z == 0).any()


@pytest.mark.parametrize("activation", ["none", *ACTIVATIONS])
def test_a_part_of_a_basis_has_the_coordinates_of_the_whole(activation, tmp_path):
    basis = pca(states(8)) if activation == "none" else autoencoder(8, activation)
    stored = basis.stored([5, 2])
    path = tmp_path / "bases.safetensors"
    write_bases(path, {"resid.0@sae": stored})
    part = Basis.of(read_bases(path, {"resid.0@sae": stored.card})["resid.0@sae"])
    assert part.fingerprint == basis.fingerprint and part.coordinates == basis.coordinates
    h, columns = states(8, 5, seed=2), torch.tensor([2, 5])
    z = basis.encode(h)
    assert torch.allclose(part.encode(h, columns), z[:, columns], atol=1e-6)
    assert torch.allclose(part.encode(h)[:, columns], z[:, columns], atol=1e-6)
    change = torch.zeros(5, basis.coordinates)
    change[:, columns] = 1.0
    assert torch.allclose(part.decode(change), basis.decode(change), atol=1e-6)
    assert torch.allclose(part.decode(change[:, columns], columns), basis.decode(change), atol=1e-6)
    small = part.stored([2]).arrays["encoder"].shape[1]
    assert small == (basis.coordinates if activation == "topk" else 2)


def test_a_basis_must_fit_the_model():
    model = plant(hidden=24).model
    with pytest.raises(PivotalError, match=r"has the width 8, but hidden\.0 has 24"):
        model.in_bases({"hidden.0@pca": pca(states(8))})
    with pytest.raises(PivotalError, match=r"with the site resid\.3, which planted lacks"):
        model.in_bases({"resid.3@pca": pca(states(24))})
    broken = pca(states(24))
    broken.decoder[0, 0] = torch.nan
    with pytest.raises(PivotalError, match=r"The decoder in .* not finite"):
        model.in_bases({"hidden.0@pca": broken})


def test_rows_are_divided_when_there_are_many_coordinates(monkeypatch):
    model = plant(hidden=24).model.in_bases({"hidden.0@sae": autoencoder(24, "relu", 50)})
    tree = PrefixTree.build([model.encode(text).ids for text in PREFIXES], [0] * 5, [0, 1, 0, 1, 0], "every")
    noise = torch.Generator().manual_seed(1)
    start = (torch.rand(2, 2, 50, generator=noise) < 0.3).float()

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        mask = start.clone().requires_grad_()
        edit = MaskedEdit(model.unit_space("hidden.0@sae"), mask, torch.ones(2, 2, 50))
        found = model.states(model.prepare(tree), edit)
        found.square().sum().backward()
        return found.detach(), mask.grad

    whole = run()
    monkeypatch.setattr("pivotal.models.bases.edit._ENTRIES", 100)
    for found, expected in zip(run(), whole, strict=True):
        assert torch.allclose(found, expected, atol=1e-5)


def test_a_coordinate_writes_its_row_of_the_decoder():
    model = plant(hidden=24).model
    basis = autoencoder(24, "relu")
    there = model.in_bases({"hidden.0@sae": basis})
    written = writes_of(there, [Unit("hidden.0@sae", 3), Unit("hidden.0", 5)])
    assert torch.allclose(written[0], basis.decoder[3])
    assert torch.equal(written[1], torch.eye(24)[5])
