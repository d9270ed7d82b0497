"""The contract checks that users run on their plugins, run on every one of ours."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.models.small import recurrent
from tests.short_searches import short
from torch import Tensor

from pivotal import Problem
from pivotal.models import RecurrentLM
from pivotal.questions import MinimalPair, PairSet
from pivotal.questions.phenomena import PHENOMENA
from pivotal.questions.phenomena.planted import PlantedAgreement
from pivotal.searches import SEARCHES, Discovery, LearnedMask
from pivotal.searches.masks import MASKS
from pivotal.searches.masks.hard_concrete import LOUIZOS, HardConcrete
from pivotal.testing import check_mask, check_model, check_phenomenon, check_search

PREFIXES = ["The noun0a near", "The noun0a near often", "The noun0as", "The noun1b near quite", "The"]


def random_model(cell: str, layers: int) -> RecurrentLM:
    return recurrent(["<eos>", "<unk>", *dict.fromkeys(" ".join(PREFIXES).split())], cell, layers)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_models(cell, layers):
    check_model(random_model(cell, layers), PREFIXES)


@pytest.mark.parametrize("name", MASKS.names())
def test_masks(name):
    check_mask(MASKS.get(name)())


def test_masks_with_mass_at_both_ends():
    check_mask(LOUIZOS)


@pytest.mark.parametrize("name", PHENOMENA.names())
def test_phenomena(name):
    check_phenomenon(PHENOMENA.get(name))


@pytest.mark.parametrize("name", SEARCHES.names())
@pytest.mark.parametrize("steps", ["every", "single"])
def test_searches(name, steps):
    """With short settings: the contract is about the form of a result. tests/searches tests what the defaults find."""
    check_search(short(name), steps=steps)


# -- a check that nothing can fail checks nothing: each breach below must be caught --


class Deaf(RecurrentLM):
    """Calls the edit but goes on with the state as it was."""

    def states(self, prepared: Any, edit: Any = None) -> Tensor:
        def heard(site: str, spans: Any, h: Tensor) -> Tensor:
            return h + 0 * edit(site, spans, h)

        return super().states(prepared, heard if edit else None)


class OutputOnly(RecurrentLM):
    """What a hook on a fused module does: the output of the step changes, and nothing flows on."""

    def states(self, prepared: Any, edit: Any = None) -> Tensor:
        clean = super().states(prepared)
        if edit is None:
            return clean
        top, row, pieces = len(self.sites) - 1, 0, []
        for level in prepared.levels:
            rows = level.stop - level.live
            for below in self.sites[:top]:
                edit(below.name, level.spans, clean[row : row + rows])
            pieces.append(edit(f"hidden.{top}", level.spans, clean[row : row + rows]))
            row += rows
        runs = max(piece.shape[1] for piece in pieces)
        return torch.cat([piece.expand(-1, runs, -1) for piece in pieces])


class Moody(RecurrentLM):
    """Every edit leaves its states a little larger than the last one did."""

    edits = 0

    def states(self, prepared: Any, edit: Any = None) -> Tensor:
        self.edits += edit is not None
        return super().states(prepared, edit) + self.edits * 1e-5


class Crossed(RecurrentLM):
    """Mixes the runs."""

    def states(self, prepared: Any, edit: Any = None) -> Tensor:
        return super().states(prepared, edit).flip(1)


@pytest.mark.parametrize(
    ("breach", "sentence"),
    [
        (Deaf, "The gradient by the mask must not vanish"),
        (OutputOnly, "what follows the later steps"),
        (Moody, "must do the same twice"),
        (Crossed, "Runs at once must equal each alone"),
    ],
)
def test_a_broken_model_is_caught(breach, sentence):
    model = random_model("rnn", 1)
    model.__class__ = breach
    with pytest.raises(AssertionError, match=sentence):
        check_model(model, PREFIXES)


@dataclass(frozen=True)
class Reversed(HardConcrete):
    """The stretch as the paper prints it."""

    def sample(self, logits: Tensor, uniform: Tensor) -> Tensor:
        return 1 - super().sample(logits, uniform)


@dataclass(frozen=True)
class Timid(HardConcrete):
    def hard(self, logits: Tensor) -> Tensor:
        return self.mean(logits) > 0.9


@dataclass(frozen=True)
class Severed(HardConcrete):
    """Calls itself pathwise, but its samples have no gradient."""

    def sample(self, logits: Tensor, uniform: Tensor) -> Tensor:
        return super().sample(logits, uniform).detach()


@dataclass(frozen=True)
class Halved(HardConcrete):
    """Its samples are right and their gradient is not."""

    def sample(self, logits: Tensor, uniform: Tensor) -> Tensor:
        return super().sample((logits + logits.detach()) / 2, uniform)


@pytest.mark.parametrize(
    ("breach", "sentence"),
    [
        (Reversed, "must be what sample"),
        (Timid, "one half"),
        (Severed, "must have a gradient"),
        (Halved, "must be that of mean"),
    ],
)
def test_a_broken_mask_is_caught(breach, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_mask(breach())


def test_a_broken_phenomenon_is_caught():
    class Fickle(PlantedAgreement):
        calls: list[int] = []  # noqa: RUF012

        def pairs(self) -> PairSet:
            self.calls.append(1)
            return super().pairs()[len(self.calls) :]

    pair = MinimalPair("The cat", 1, ("runs", "run"))
    with pytest.raises(AssertionError, match="the same pairs"):
        check_phenomenon(Fickle)
    with pytest.raises(AssertionError, match="twice"):
        check_phenomenon(PairSet("x", ("a", "b"), (pair, pair)))


@dataclass(frozen=True)
class Greedy(LearnedMask):
    """Takes one unit more than it may."""

    def solve(self, problem: Problem, **settings: Any) -> Discovery:
        more = LearnedMask(max_units=self.max_units + 1, updates=20, refit=0, prune=-1.0)
        return more.solve(problem, **settings)


@dataclass(frozen=True)
class Behind(LearnedMask):
    """Asks the model behind the problem's back."""

    def solve(self, problem: Problem, **settings: Any) -> Discovery:
        found = LearnedMask(max_units=3.0, updates=20, refit=0).solve(problem, **settings)
        problem.on(problem.pairs).run_intervention(found.best)
        return found


@pytest.mark.parametrize(
    ("breach", "sentence"),
    [(Greedy(max_units=1.0), "At most 1 units"), (Behind(), "must go through problem.run, but of")],
)
def test_a_broken_search_is_caught(breach, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_search(breach)
