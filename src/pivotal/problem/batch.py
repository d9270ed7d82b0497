"""Examples made ready for masked runs of a model, and what a run returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.chunks import as_memory_allows
from pivotal.models.edits import MaskedEdit, Sources
from pivotal.models.tree import PrefixTree
from pivotal.problem.counterfactuals import Counterfactuals
from pivotal.problem.divergence import KLReference, Positions
from pivotal.problem.examples import Examples
from pivotal.problem.kept import Preferences
from pivotal.problem.word_index import WordIndex
from pivotal.questions.pairs import PairSet
from pivotal.units import Objective, Site, UnitSpace, Values

T = TypeVar("T")

_ROWS, _ENTRIES = 40_000, 20_000_000
"""Maximum states and mask entries in memory while many masks are tried. A GPU holds ten times as many."""


@dataclass
class Work:
    """Counts of node evaluations: a measure of cost that does not depend on the machine."""

    forward: int = 0
    backward: int = 0

    @property
    def nodes(self) -> int:
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a masked run."""

    log_ratio: Float[Tensor, "runs examples"]
    """log p(d) / p(t). It is positive if the model still prefers d, the word that the untouched model prefers. Without
    words, KL(counterfactual || edited) - KL(untouched || edited): it is positive if the model is still nearer to
    itself."""
    states: Float[Tensor, "live runs width"]
    weight: Float[Tensor, " examples"] | None = None
    """The weight of each example in a mean over the examples; None for equal weights."""
    target: KLReference | None = None
    """What the edited model should say, if the objective is counterfactual."""

    def flipped(self) -> Bool[Tensor, "runs examples"]:
        return self.log_ratio < 0

    def flips(self) -> Float[Tensor, " runs"]:
        """The share of flipped preferences."""
        if self.weight is None:
            return self.flipped().float().mean(1)
        # In double precision, so that runs with the same flips have the same share, whatever the order of a sum.
        return self.mean(self.flipped().double()).float()

    def mean(self, each: Float[Tensor, "runs examples"]) -> Float[Tensor, " runs"]:
        """The mean of a number over the examples."""
        return mean_of(each, self.weight)


def mean_of(
    each: Float[Tensor, "runs examples"], weight: Float[Tensor, " examples"] | None
) -> Float[Tensor, " runs"]:
    """The mean of a number over the examples; without weights, all count the same."""
    return each.mean(1) if weight is None else (each * weight).sum(1)


@dataclass(frozen=True, slots=True)
class FixedTensors:
    """What masked runs of a batch read. All batches of one shape have tensors of the same shapes."""

    prepared: Any
    """What the model computes once for the tree, in the form of `LanguageModel.fixed`."""
    index: WordIndex
    """The words of the examples."""
    weight: Float[Tensor, " examples"]
    """The weight of each example in a mean over the examples: zero if it was added to reach the shape."""
    live_share: Float[Tensor, ""]
    """The share of positions of the batch at which an edit can have an effect."""
    clean: Float[Tensor, "live width"]
    """The untouched states of the live nodes; zero for dummies, at which KL is never measured."""
    rows: Int[Tensor, " live"]
    """For each live node of the batch, its row among the live nodes of the padded tree; then zeros."""


class OwnTensors:
    """What masked runs of some examples read. Each part is computed when it is first used."""

    def __init__(self, model: LanguageModel, examples: Examples, positions: Positions) -> None:
        self._model, self._examples, self._positions = model, examples, positions

    @cached_property
    def prepared(self) -> Any:
        """What the model computes once for the tree."""
        made = self._model.prepare(self._examples.tree)
        untouched = self._examples.untouched
        if untouched is not None and untouched.known is not None and self._rows is not None:
            made.known, made.rows = untouched.known, self._rows
        return made

    @cached_property
    def _rows(self) -> Int[Tensor, " nodes"] | None:
        """The row of each node among the untouched states, if those have them all."""
        untouched = self._examples.untouched
        return None if untouched is None else untouched.rows(self._examples.tree)

    @cached_property
    def index(self) -> WordIndex:
        """The words of the examples."""
        examples, tree = self._examples, self._examples.tree
        rows = tree.live_row[examples.leaves]
        return WordIndex.of(rows, examples.sets, *examples.preferred_and_target, self._model.device)

    @cached_property
    def weight(self) -> Float[Tensor, " examples"] | None:
        """The weight of each example in a mean over the examples; None if all count the same."""
        weight = self._examples.weight
        return None if weight is None else torch.as_tensor(weight, dtype=torch.float32).to(self._model.device)

    @cached_property
    def live_share(self) -> float:
        """The share of positions at which an edit can have an effect."""
        return self._positions.live_share

    @cached_property
    def clean(self) -> Float[Tensor, "live width"]:
        """The last states of the untouched model at every live node."""
        if (untouched := self._examples.untouched) is not None and self._rows is not None:
            return untouched.states[self._rows[torch.as_tensor(self._examples.tree.live)]]
        with torch.no_grad():
            return self._model.states(self.prepared)[:, 0]


class Batch:
    """Examples made ready for masked runs."""

    def __init__(
        self,
        model: LanguageModel,
        examples: Examples,
        space: UnitSpace,
        values: Values,
        work: Work,
        objective: Objective = "flips",
        tensors: FixedTensors | None = None,
        usable: Float[Tensor, " units"] | None = None,
    ) -> None:
        """`tensors` are read instead of those of the examples. `work` counts the node evaluations of all runs.
        `usable` is zero for units that no mask sets; by default there are none."""
        self.model, self.examples, self.space, self.work = model, examples, space, work
        self.values: Values = values
        self.objective: Objective = objective
        self.usable = usable
        self.positions = Positions(examples, model.device)
        """The positions at which KL is measured, with their weights."""
        self.tensors = tensors or OwnTensors(model, examples, self.positions)

    @property
    def pairs(self) -> PairSet:
        """The pairs that the model can be asked."""
        return self.examples.pairs

    @property
    def labels(self) -> tuple[str, str]:
        """The two labels of the pairs, which are the directions of an edit."""
        return self.pairs.labels

    @property
    def tree(self) -> PrefixTree:
        """The prefix tree of the examples."""
        return self.examples.tree

    @property
    def direction(self) -> np.ndarray:
        """For each example, the index of the label to flip to."""
        return self.examples.direction

    def __len__(self) -> int:
        return len(self.pairs)

    def like(self, examples: Examples, tensors: FixedTensors | None = None) -> Batch:
        """A batch of other examples of the same question, or one that reads other tensors."""
        how = (self.space, self.values, self.work, self.objective)
        return Batch(self.model, examples, *how, tensors=tensors, usable=self.usable)

    # -- the masked run -----------------------------------------------------------------------------------------

    def run(
        self,
        mask: Float[Tensor, "runs units"] | Float[Tensor, "runs directions units"],
        values: Float[Tensor, "runs directions coordinates"],
        *,
        zeros_stay: bool = False,
        sites: tuple[Site, ...] | None = None,
    ) -> Outcome:
        """Run the model with the edit `h -> (1 - mask) * h + mask * values`. All masked forward passes go through here.

        With `zeros_stay`, an entry of the mask that is zero has no gradient. If the problem is about interchange, the
        states of the counterfactual prefixes take the place of `values`. `sites` are those that the mask touches, if
        they are known: a fixed mask is looked through once.
        """
        if self.usable is not None:
            mask = mask * self.usable
        edit = MaskedEdit(self.space, mask, values, zeros_stay=zeros_stay, sources=self.sources, sites=sites)
        states = self.model.states(self.tensors.prepared, edit)
        edit.check_reached()
        runs = mask.shape[0]
        self.work.forward += self.tree.n_live * runs
        if torch.is_grad_enabled() and (mask.requires_grad or values.requires_grad):
            self.work.backward += self.tree.n_live * runs
        return self.outcome_of(states)

    def outcome_of(self, states: Float[Tensor, "live runs width"]) -> Outcome:
        """What a masked run with these states shows."""
        target = self.counterfactual if self.objective == "counterfactual" else None
        return Outcome(self.log_ratio_of(states), states, self.tensors.weight, target)

    @cached_property
    def sources(self) -> Sources | None:
        """The counterfactual states that units are set to; None unless the problem is about interchange."""
        if self.values != "interchange":
            return None
        return self._counterfactuals.sources(self.model, self.space, self.tree)

    @property
    def _counterfactuals(self) -> Counterfactuals:
        if self.examples.counterfactuals is None:
            raise PivotalError(
                "The examples lack counterfactual prefixes. Make the problem from pairs with values='interchange' or "
                "objective='counterfactual'."
            )
        return self.examples.counterfactuals

    @cached_property
    def counterfactual_means(self) -> Float[Tensor, "directions coordinates"]:
        """For each direction, the mean over the edited nodes of what interchange sets units to."""
        sources, tree = self.sources, self.tree
        assert sources is not None
        states = torch.cat([sources.states[site.name] for site in self.space.sites], 1)
        means = []
        for direction in range(len(self.labels)):
            nodes = tree.edited & (tree.direction == direction)
            rows = sources.of[torch.as_tensor(nodes if nodes.any() else tree.edited, device=states.device)]
            means.append(states[rows].mean(0))
        return torch.stack(means)

    def as_memory_allows(self, passes: Callable[[], T]) -> T:
        """Call `passes`, which does masked runs and their backward passes. Repeat it in smaller chunks if memory runs
        out. Failed attempts are not counted as work. `pivotal.models.chunks` describes the rules for `passes`."""
        forward, backward = self.work.forward, self.work.backward

        def counted() -> T:
            self.work.forward, self.work.backward = forward, backward
            return passes()

        return as_memory_allows(self.model, counted)

    def runs_at_once(self, *, learning: bool = False) -> int:
        """The maximum number of masks for one `run`, to bound memory. With `learning`, which adds a backward pass, it
        is half of that, and on a CPU no part of the pass is computed twice."""
        here, nodes = self.model.device.type == "cpu", self.model.batch_nodes
        rows = min(_ROWS, 2 * nodes) if learning and here and nodes else _ROWS
        entries = len(self.labels) * self.space.coordinates
        runs = min(rows // self.tree.n_live, _ENTRIES // entries) * (1 if here else 10)
        return max(1, runs // 2 if learning else runs)

    @cached_property
    def clean_log_ratio(self) -> Float[Tensor, " examples"]:
        """The log ratio of the two words in the untouched model, for each example."""
        with torch.no_grad():
            return self.log_ratio_of(self.tensors.clean[:, None])[0]

    def log_ratio_of(self, states: Float[Tensor, "live runs width"]) -> Float[Tensor, "runs examples"]:
        """The log ratio of the two words, from the states of the live nodes. Their logits suffice, because the
        denominator of the softmax cancels. The result is float32 for every model."""
        if not self.pairs.asks_words:
            last, other, own = self._other_and_own
            return (other.at(states[last]) - own.at(states[last])).T.float()
        preferred, target = self.tensors.index.read(self.model, states)
        return (preferred - target).float()

    @cached_property
    def _other_and_own(self) -> tuple[Int[Tensor, " examples"], KLReference, KLReference]:
        """The rows of the last nodes, and what the untouched model says there after the counterfactual prefix and after
        the prefix itself."""
        last = torch.as_tensor(self.tree.live_row[self.examples.leaves], device=self.model.device)
        return last, self._reference(self.said[last]), self._reference(self.tensors.clean[last])

    # -- what else changes --------------------------------------------------------------------------------------

    @cached_property
    def preferences(self) -> Preferences:
        """The preferences of the questions that must stay."""
        return Preferences(self.model, self.examples, self.tensors)

    @cached_property
    def untouched(self) -> KLReference:
        """KL(untouched || edited)."""
        return self._reference(self.tensors.clean)

    @cached_property
    def counterfactual(self) -> KLReference:
        """KL(counterfactual || edited), where the counterfactual is what the untouched model says after the
        counterfactual prefix. The examples must be matched with those prefixes."""
        return self._reference(self.said)

    @cached_property
    def said(self) -> Float[Tensor, "live width"]:
        """The states that the untouched model predicts from at the matching nodes of the counterfactual prefixes."""
        return self._counterfactuals.said(self.model, self.tree)

    def _reference(self, states: Float[Tensor, "live width"]) -> KLReference:
        return KLReference(self.model, states, self.positions, self.tensors.live_share)


class Parts(Sequence[Batch]):
    """Parts of a batch. Each is made when it is first read, since a short fit reads few of many."""

    def __init__(self, whole: Batch, chosen: Sequence[np.ndarray]) -> None:
        # The first part makes the others. The batch itself would keep its parts, and they would keep it.
        self._examples, self._chosen = whole.examples, chosen
        self._made = {0: whole.like(whole.examples.restrict(chosen[0]))}

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, number: Any) -> Any:
        if number not in self._made:
            self._made[number] = self._made[0].like(self._examples.restrict(self._chosen[number]))
        return self._made[number]
