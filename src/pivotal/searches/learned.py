"""The paper's search: learn a relaxed mask and values together, then make the mask hard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from pivotal.errors import PivotalError
from pivotal.models.edits import spread
from pivotal.options import check_least
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, budget_of, check_budget, most_units, require
from pivotal.searches.masks import MASKS, MaskFamily
from pivotal.searches.masks.hard_concrete import LOUIZOS, PAPER
from pivotal.searches.tools.hardening import Hardening
from pivotal.searches.tools.learner import Learner, RelaxedSettings, filled
from pivotal.units import Values


@dataclass(frozen=True)
class RelaxedSearch(RelaxedSettings):
    """Learn mask and values together, make the mask hard, refit the values, and prune units."""

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        # While masks are relaxed, the easiest way to leave a kept question alone is to switch units off. With a fixed
        # mask only the values can do so, and units that flip little can make up for what the others change.
        learner = self.learner(problem.without_questions, attempt.runs, attempt.seed)
        learner.run(attempt)
        expected = self.family.mean(learner.logits.detach())
        mask, values = learner.hard(learner.budget), learner.values.detach()
        if problem.preferences.names:
            values = torch.where(spread(problem.space, mask), values, problem.measure_activations().own)
        if problem.values == "natural" or problem.preferences.names:
            mask = filled(problem, self.terms, mask, values, learner.budget, attempt.seed)
        return self.hardening.run(
            problem,
            expected.expand(-1, len(problem.labels), -1),
            mask,
            values,
            most_units(self.max_units, problem),
            attempt,
        )

    def relaxed_budget(self, problem: Problem) -> int:
        """The number of units that the relaxed mask may have."""
        units = len(problem.space)
        return min(units, round(self.spare * most_units(self.max_units, problem)))

    def learner(self, problem: Problem, runs: int, seed: int) -> Learner:
        """The learner of the masks and values of all runs, before its first update."""
        return Learner(self, problem, self.relaxed_budget(problem), runs, seed)

    @property
    def hardening(self) -> Hardening:
        """The steps that make the learned masks hard."""
        return Hardening(self.terms, self.refit, self.prune, self.batch, shared=True)


_NATURAL_POOL = 64
"""The units to start with if values stay in their natural ranges. Most units can do little there."""

Masks = Literal["shared", "per-direction"]
Support = Literal["closed", "half-open"]


@dataclass(frozen=True)
class LearnedMask(RelaxedSearch):
    """Minimise E[loss] over mask logits and values, with a bound on the expected number of units. Bounds on the mass
    inside (0, 1) and on KL are optional. The method is gradient descent on the parameters and ascent on the
    multipliers. Then keep the units whose expected mask exceeds one half, refit their values, and prune."""

    name: ClassVar[str] = "learned"
    summary: ClassVar[str] = (
        "the paper's search: a relaxed mask and values learned together under an L0 constraint"
    )
    preset_values: ClassVar[dict[str, Values]] = {"paper": "unbounded"}
    presets: ClassVar[dict[str, dict[str, object]]] = {
        # The paper's recipe: the ratio, the half-open mask, the full KL term, the final number of units as the target
        # from the start, multipliers without damping, and no refit or pruning. (A half-open mask has no mass at 1, so
        # the paper's second constraint, on the mass inside (0, 1), bounds the same quantity as the first.)
        "paper": {
            "loss": "ratio",
            "support": "half-open",
            "kl_weight": 1.0,
            "max_fractional": 0.02,
            "anneal": 0.0,
            "spare": 1.0,
            "multiplier_rate": 0.1,
            "damping": 0.0,
            "updates": 800,
            "batch": 128,
            "refit": 0,
            "prune": -1.0,
            "pool": 0,
        }
    }

    batch: int = 64
    """Distinct prefixes per update. 0 uses all prefixes in every update."""
    masks: Masks = "shared"
    """One mask for both directions, or one mask per direction with max_units each."""
    mask: str | None = None
    """The distribution of the mask: a name from `pivotal list masks`. Default: Hard Concrete with `support`."""
    support: Support = "closed"
    """Hard Concrete with mass at 0 and 1 (Louizos et al.), or at 0 only (the paper)."""
    max_fractional: int | float | None = None
    """Bound on the expected number of mask entries inside (0, 1): a number of units, or a fraction."""
    pool: int = 1500
    """In larger spaces, start with this many units: those with the highest first-order gain. 0 starts with all. With
    values in their natural ranges the start has 64 units, or four times those that the relaxed mask may have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, pool=0)
        require(self, "above 0; leave it out for no bound", lambda x: x is None or x > 0, "max_fractional")
        if self.max_fractional is not None:
            check_budget(self.max_fractional, "max_fractional")
        if self.mask is not None and self.mask not in MASKS:
            try:
                MASKS.get(self.mask)
            except PivotalError as error:
                raise PivotalError(str(error), "mask") from None

    @property
    def terms(self) -> Terms:
        return super().terms.for_batches(self.batch)

    def check(self, problem: Problem, runs: int, seed: int) -> None:
        super().check(problem, runs, seed)
        if self.max_fractional is not None:
            budget_of(self.max_fractional, len(problem.space), "max_fractional")

    @property
    def family(self) -> MaskFamily:
        """The distribution of a mask entry."""
        if self.mask is not None:
            return MASKS.get(self.mask)()
        return LOUIZOS if self.support == "closed" else PAPER

    def learner(self, problem: Problem, runs: int, seed: int) -> Learner:
        return Learner(
            self,
            problem,
            self.relaxed_budget(problem),
            runs,
            seed,
            per_direction=self.masks == "per-direction",
            pool=self._first_units(problem),
            max_fractional=self.max_fractional,
        )

    def _first_units(self, problem: Problem) -> int:
        """The number of units to start with; 0 for all."""
        if problem.values != "natural" or not self.pool:
            return self.pool
        return min(self.pool, max(_NATURAL_POOL, 4 * self.relaxed_budget(problem)))

    @property
    def hardening(self) -> Hardening:
        return replace(super().hardening, shared=self.masks == "shared")
