"""The unrolled network against torch's own: the fused modules, and a plain loop with the edit written out."""

from dataclasses import dataclass
from inspect import unwrap
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pivotal import PivotalError, load_model
from pivotal.models import RecurrentLM
from pivotal.models.edits import MaskedEdit
from pivotal.models.tree import PrefixTree
from pivotal.units import Steps

WORDS = ["<eos>", "<unk>", *"abcdef"]
FUSED = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}
SENTENCES = [[2, 3, 4, 5], [2, 3, 4, 6, 7], [2, 3], [3, 3, 4], [2, 3, 4, 5], [7]]
CUES = [1, 1, 0, 2, 3, 0]  # the first and the fifth sentence are the same but for their cues
DIRECTIONS = [0, 1, 0, 1, 1, 0]

ALL_KINDS = pytest.mark.parametrize(
    ("cell", "layers"),
    [("lstm", 1), ("lstm", 2), ("lstm", 3), ("gru", 1), ("gru", 2), ("rnn", 1), ("rnn", 3)],
)
BOTH_STEPS = pytest.mark.parametrize("steps", ["single", "every"])


@dataclass
class Network:
    """The three modules of a random language model, and ours made from them."""

    cell: str
    layers: int
    priming: str = "<eos>"
    bias: bool = True
    hidden: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.encoder = nn.Embedding(len(WORDS), 4)
        self.rnn = FUSED[self.cell](4, self.hidden, num_layers=self.layers, bias=self.bias, batch_first=True)
        self.decoder = nn.Linear(self.hidden, len(WORDS), bias=self.bias)
        with torch.no_grad():
            for weight in self.rnn.parameters():
                weight.mul_(2)  # gates that saturate a little tell more than gates near one half
        modules = (self.encoder, self.rnn, self.decoder)
        self.model = RecurrentLM.from_modules("random", *modules, WORDS, priming=self.priming)

    def primed(self, tokens: list[int]) -> list[int]:
        return [*self.model.encode(self.priming).ids, *tokens]

    @torch.no_grad()
    def fused_logits(self, tokens: list[int]) -> Tensor:
        """After every token of the sentence, by torch's own module."""
        output, _ = self.rnn(self.encoder(torch.tensor([self.primed(tokens)])))
        return self.decoder(output[0, -len(tokens) :])

    def plain_logits(self, tokens: list[int], edited: Any, mask: Tensor, values: Tensor) -> Tensor:
        """A loop over cells; `edited(position)` says where h becomes (1 - m) h + m b, layer by layer."""
        cells = []
        for layer in range(self.layers):
            cell = CELLS[self.cell](4 if layer == 0 else self.hidden, self.hidden, bias=self.bias)
            weights = self.rnn.state_dict().items()
            cell.load_state_dict(
                {k.removesuffix(f"_l{layer}"): v for k, v in weights if k.endswith(str(layer))}
            )
            cells.append(cell.requires_grad_(False))
        ids = self.primed(tokens)
        states: list[Any] = [None] * self.layers
        for position, token in enumerate(ids, start=len(tokens) - len(ids)):
            x = self.encoder.weight[token].detach()[None]
            for layer, cell in enumerate(cells):
                state = cell(x, states[layer])
                h = state[0] if self.cell == "lstm" else state
                if edited(position):
                    units = slice(layer * self.hidden, (layer + 1) * self.hidden)
                    h = (1 - mask[units]) * h + mask[units] * values[units]
                states[layer] = (h, state[1]) if self.cell == "lstm" else h
                x = h
        return x[0] @ self.decoder.weight.detach().T + (self.decoder.bias.detach() if self.bias else 0)

    def tree_logits(
        self, tree: PrefixTree, mask: Tensor | None = None, values: Tensor | None = None
    ) -> Tensor:
        edit = None
        if mask is not None and values is not None:
            edit = MaskedEdit(self.model.unit_space(), mask, values)
        states = self.model.states(self.model.prepare(tree), edit)
        return self.model.readout(states[torch.as_tensor(tree.live_row[tree.leaf])])

    def draw(self, runs: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        shape = (runs, 2, self.layers * self.hidden)
        mask = torch.rand(shape, generator=generator) * (torch.rand(shape, generator=generator) < 0.6)
        return mask, torch.rand(shape, generator=generator) * 2 - 1


def where(steps: Steps, cue: int) -> Any:
    return (lambda position: position >= 0) if steps == "every" else (lambda position: position == cue)


def edited_tree(steps: Steps) -> PrefixTree:
    return PrefixTree.build(SENTENCES, CUES, DIRECTIONS, steps)


@given(
    cell=st.sampled_from(sorted(FUSED)),
    layers=st.integers(1, 3),
    bias=st.booleans(),
    priming=st.sampled_from(["<eos>", "", "a b <eos>", "f"]),
    seed=st.integers(0, 10_000),
    sentences=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=6), min_size=1, max_size=6),
)
@settings(max_examples=30, deadline=None)
def test_the_unrolled_network_equals_the_fused_one(cell, layers, bias, priming, seed, sentences):
    network = Network(cell, layers, priming, bias, seed=seed)
    ours = network.tree_logits(PrefixTree.build(sentences))[:, 0]
    fused = torch.stack([network.fused_logits(tokens)[-1] for tokens in sentences])
    assert torch.allclose(ours, fused, atol=1e-5)


@ALL_KINDS
@BOTH_STEPS
def test_logits_and_gradients_equal_those_of_a_plain_loop(cell, layers, steps):
    network = Network(cell, layers)
    mask, values = (tensor.requires_grad_() for tensor in network.draw(2))
    ours = network.tree_logits(edited_tree(steps), mask, values)

    def by_hand(tokens: list[int], cue: int, to: int) -> Tensor:
        edited = where(steps, cue)
        return torch.stack(
            [network.plain_logits(tokens, edited, m[to], b[to]) for m, b in zip(mask, values, strict=True)]
        )

    plain = torch.stack(list(map(by_hand, SENTENCES, CUES, DIRECTIONS)))
    assert torch.allclose(ours, plain, atol=1e-5)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    found = torch.autograd.grad((ours * weights).sum(), (mask, values))
    expected = torch.autograd.grad((plain * weights).sum(), (mask, values))
    for mine, theirs in zip(found, expected, strict=True):
        assert theirs.abs().max() > 0.01  # else the comparison would say nothing
        assert torch.allclose(mine, theirs, atol=1e-4)


@pytest.mark.parametrize(("cell", "layers"), [("lstm", 2), ("lstm", 3), ("gru", 2), ("rnn", 3)])
@BOTH_STEPS
def test_layers_below_the_first_edited_one_are_computed_once(cell, layers, steps):
    """An edit of the second layer alone against an edit that may change any layer, with gradients, twice."""
    network, tree = Network(cell, layers), edited_tree(steps)
    mask, start = network.draw(2)
    mask[..., : network.hidden] = mask[..., 2 * network.hidden :] = 0
    prepared = network.model.prepare(tree)

    def run(every_layer: bool) -> tuple[Tensor, Tensor]:
        values = start.clone().requires_grad_()
        edit = MaskedEdit(network.model.unit_space(), mask, values)
        assert edit.sites == {"hidden.1"}
        # A function has no `sites`: it may change any layer.
        states = network.model.states(prepared, edit.__call__ if every_layer else edit)
        states.square().sum().backward()
        return states.detach(), values.grad

    expected = run(every_layer=True)
    for _ in range(2):
        for found, other in zip(run(every_layer=False), expected, strict=True):
            torch.testing.assert_close(found, other, atol=1e-5, rtol=1e-4)
    assert expected[1].abs().max() > 0.01


def test_an_embedding_may_bound_the_norm_of_its_rows():
    encoder, rnn, decoder = nn.Embedding(8, 4, max_norm=0.5), nn.GRU(4, 5), nn.Linear(5, 8)
    model = RecurrentLM.from_modules("bounded", encoder, rnn, decoder, WORDS, priming="")
    found = model.next_logits([[2, 3, 4]])[0]  # first, because the embedding changes its rows when it is used
    torch.testing.assert_close(found, decoder(rnn(encoder(torch.tensor([2, 3, 4])))[0])[-1])


def test_cell_states_are_never_edited():
    """With all of h replaced, what distinguishes two histories is c: the LSTM keeps it and a plain RNN has none."""
    tree = PrefixTree.build([[2, 3, 4], [5, 3, 4]], [1, 1], [0, 0], "single")
    for cell, differ in (("lstm", True), ("rnn", False), ("gru", False)):
        network = Network(cell, 2)
        one = torch.ones(1, 2, 10)
        first, second = network.tree_logits(tree, one, one * 0.5)[:, 0]
        assert bool((first - second).abs().max() > 1e-3) == differ, cell


# -- words, names and what is refused --


def test_sites_have_the_range_of_tanh():
    sites = [(site.name, site.width, site.bounds) for site in Network("lstm", 2).model.sites]
    assert sites == [("hidden.0", 5, (-1.0, 1.0)), ("hidden.1", 5, (-1.0, 1.0))]


USUAL = {"encoder": nn.Embedding(8, 4), "rnn": nn.LSTM(4, 5), "decoder": nn.Linear(5, 8)}


@pytest.mark.parametrize(
    ("part", "given", "message"),
    [
        ("rnn", nn.LSTM(4, 5, bidirectional=True), "bidirectional"),
        ("rnn", nn.LSTM(4, 5, proj_size=2), "proj_size"),
        ("rnn", nn.RNN(4, 5, nonlinearity="relu"), "must use tanh, but this one uses relu"),
        ("rnn", nn.LSTMCell(4, 5), "made of .* but one of the modules is a LSTMCell"),
        ("encoder", torch.zeros(8, 4), "is a Tensor"),
        ("decoder", nn.Sequential(nn.Linear(5, 8)), "is a Sequential.*pivotal.models.ModuleLM"),
    ],
)
def test_modules_that_are_no_language_model_are_refused(part, given, message):
    with pytest.raises(PivotalError, match=message):
        unwrap(RecurrentLM.from_modules)("x", *{**USUAL, part: given}.values(), WORDS)


@pytest.mark.parametrize("words", [WORDS, [word if word != "<unk>" else "z" for word in WORDS]])
def test_a_model_in_memory_is_saved_and_loaded(words, tmp_path):
    torch.manual_seed(0)
    modules = nn.Embedding(8, 4), nn.GRU(4, 5, num_layers=2), nn.Linear(5, 8)
    model = RecurrentLM.from_modules("x", *modules, words, priming="a b")
    assert model.save(tmp_path / "saved", "a small model") == tmp_path / "saved"
    again = load_model(str(tmp_path / "saved"), device="cpu")
    assert again.vocabulary.unknown_word == model.vocabulary.unknown_word
    assert (again.name, again.sites) == ("saved", model.sites)
    ids = [model.encode("c d").ids]
    torch.testing.assert_close(again.next_logits(ids), model.next_logits(ids))
