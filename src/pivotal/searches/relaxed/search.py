"""A search that learns a distribution over masks: the relaxed loop, then the hardening."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from pivotal.models.edits import spread
from pivotal.problem.problem import Problem
from pivotal.searches.base import Attempt, Discovery, most_units
from pivotal.searches.relaxed.hardening import FEWEST, Hardening
from pivotal.searches.relaxed.learner import Learner, filled
from pivotal.searches.relaxed.settings import RelaxedSettings
from pivotal.searches.tools.refit import update_nodes

S = TypeVar("S", bound="RelaxedSearch")


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

    def within(self: S, problem: Problem, runs: int, nodes: int) -> S:
        """Reduce the number of updates. The cost of the hardening is subtracted first."""
        budget = most_units(self.max_units, problem)
        left = nodes - self.hardening.nodes(problem, runs, self.relaxed_budget(problem), budget)
        each = runs * self.estimator().samples * update_nodes(problem, self.batch)
        return replace(self, updates=max(FEWEST, int(left / each)))

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
