"""The problem that a search solves: a question put to a model, with its batches and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError, did_you_mean
from pivotal.models.base import LanguageModel, checked
from pivotal.models.edits import dense
from pivotal.problem.activations import Activations, Measured, Range, Standard, states_of
from pivotal.problem.asking import Rejected
from pivotal.problem.bases import with_bases
from pivotal.problem.batch import Batch, Outcome, Parts, Work
from pivotal.problem.examples import Examples
from pivotal.problem.fixed_batches import FixedBatches
from pivotal.problem.kept import KeptSentences
from pivotal.questions.pairs import PairSet
from pivotal.records.intervention import Intervention
from pivotal.records.run import Progress
from pivotal.units import Objective, Steps, Unit, Values


class Problem(Batch):
    """Pairs prepared for a model: tokenised, in a prefix tree, with the word that the untouched model prefers.

    The direction of an example is the label of the word to flip *to*. This is the word that the untouched model does
    not prefer, whether it is the expected word or not.

    A problem is the batch of all its examples. It makes smaller batches and samples of them, and knows what a search
    may set units to.
    """

    def __init__(
        self,
        model: LanguageModel,
        pairs: PairSet | Examples,
        *,
        sites: str = "all",
        steps: Steps = "every",
        values: Values = "natural",
        objective: Objective = "flips",
        work: Work | None = None,
        part_of: Problem | None = None,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """`values` restricts what a search may set units to, and `objective` says what the edited model should do. For
        pairs without words it is always the counterfactual one. `pairs` may be prepared examples. `work` is a counter
        to share with another problem, and `part_of` a larger problem with the same ranges of values and usable units.
        `report` receives the progress of bases that are fitted."""
        given = ("steps", steps, Steps), ("values", values, Values), ("objective", objective, Objective)
        for name, choice, choices in given:
            if choice not in get_args(choices):
                raise PivotalError(
                    f"{name} cannot be {choice!r}.{did_you_mean(str(choice), get_args(choices))}", name
                )
        if not isinstance(pairs, PairSet | Examples):
            raise PivotalError(
                f"A problem asks a PairSet, not {str(pairs)[:60]!r}. Use pivotal.load_phenomenon or pivotal.read_pairs."
            )
        checked(model)
        work = Work() if work is None else work
        matched = values == "interchange" or objective == "counterfactual"
        examples = pairs if isinstance(pairs, Examples) else Examples.of(model, pairs, steps, matched=matched)
        if not examples.pairs.asks_words:
            objective = "counterfactual"
        if "@" in sites:
            same: Any = dict(steps=steps, values=values, objective=objective, work=work, report=report)
            own = model
            model = with_bases(own, sites, lambda site: Problem(own, examples, sites=site, **same))
        usable = None if part_of is None else part_of.usable
        super().__init__(model, examples, model.unit_space(sites), values, work, objective, usable=usable)
        self.sites, self.report = sites, report
        self.steps: Steps = steps
        self.kept: KeptSentences | None = None
        """The sentences that must stay, if there are some."""
        self._measured = Measured(model, examples, self.space, work)
        self._range: Measured = part_of._range if part_of else self._measured
        self._samples: dict[tuple[int, int], Problem] = {}
        self._batches: dict[tuple[int, int], Parts] = {}
        self._fixed: dict[tuple[int, int], FixedBatches] = {}

    def __repr__(self) -> str:
        step = "every step" if self.steps == "every" else "a single step"
        pairs = "1 pair" if len(self) == 1 else f"{len(self):,} pairs"
        left = f", {self.rejected.total:,} left out" if self.rejected.total else ""
        return f"Problem({pairs} of {self.pairs.name} in {self.model.name}, {step}, {self.space}{left})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import problem_html

        return problem_html(self)

    def check_whole_bases(self) -> None:
        """Raise PivotalError if a basis has only the units of an intervention, so that there are no others to try."""
        for site in self.space.sites:
            basis = self.model.bases.get(site.name)
            if basis is not None and basis.units is not None:
                raise PivotalError(
                    f"A search needs all units of {site.name}, but an intervention carries only the part of its basis "
                    "that it uses. Name the run folder, or the model without the intervention's bases."
                )

    @property
    def rejected(self) -> Rejected:
        """Counts of the pairs that the model cannot score, by reason."""
        return self.examples.rejected

    @cached_property
    def prefix_ids(self) -> np.ndarray:
        """For each example, the number of its prefix. Pairs with the same prefix are not independent evidence."""
        return np.unique([pair.prefix for pair in self.pairs], return_inverse=True)[1]

    @cached_property
    def expected(self) -> np.ndarray:
        """For each example, the index of the label of the expected word; -1 if its pair states none."""
        stated = [pair.label if pair.asks_words else "" for pair in self.pairs]
        return np.array([self.labels.index(label) if label else -1 for label in stated])

    @cached_property
    def clean_accuracy(self) -> float | None:
        """The share of pairs for which the untouched model prefers the expected word; None without labelled pairs.
        Pairs that an interchange leaves out count too."""
        whole = self.whole
        right = (whole.expected == 1 - whole.direction)[whole.expected >= 0]
        return float(right.mean()) if len(right) else None

    def run_intervention(self, intervention: Intervention) -> Outcome:
        """Run the model with an intervention on all pairs."""
        with torch.no_grad():
            return self.run(*dense(intervention, self.space, self.model.device))

    # -- what units may be set to -------------------------------------------------------------------------------

    def measure_activations(self) -> Activations:
        """Statistics of the untouched units at the edited steps, from a sample of the prefixes. The first call runs the
        model and counts its node evaluations. Later calls return the same result."""
        return self._measured.activations

    def natural_means(self) -> Float[Tensor, " coordinates"]:
        """The mean of each coordinate's untouched states where the natural range is measured: of those of the two
        directions."""
        return self._range.activations.own.mean(0)

    def untouched_states(self, units: Sequence[Unit]) -> list[Float[Tensor, "edited _"]]:
        """The coordinates of some units at the edited nodes, in the untouched model."""
        self.work.forward += self.tree.n_live
        return states_of(self.model, self.tensors.prepared, self.tree, units)

    def natural_range(self) -> Range:
        """The 1st and 99th percentile of each coordinate's untouched states at the edited steps, from a sample of the
        prefixes. The first call runs the model and counts its node evaluations. Later calls return the same result."""
        return self._range.activations.ends

    def bounds(self) -> Range:
        """The least and the greatest value of each coordinate that a search may use; infinite where there is none."""
        if self.values == "natural":
            return self.natural_range()
        low, high = (torch.tensor(ends, device=self.model.device) for ends in self.space.bounds())
        return low, high

    def standard(self) -> Standard:
        """The scale on which values are learned. It measures activations if a site has no bounds."""
        if self.values == "natural":
            return Standard.within(*self.natural_range())
        if all(site.bounds is not None for site in self.space.sites):
            return Standard.plain(self.space.coordinates, self.model.device)
        return Standard.of(self.space, self.measure_activations())

    # -- batches and samples ------------------------------------------------------------------------------------

    def batches(self, prefixes: int, seed: int = 0) -> Sequence[Batch]:
        """The examples in random batches of about `prefixes` distinct prefixes; 0 makes one batch. Several questions
        have equally many prefixes in a batch. Batches are cached.

        A batch takes all pairs of a prefix, because further pairs of the same prefix cost nothing.
        """
        key = (prefixes, seed)
        if key not in self._batches:
            self._batches[key] = Parts(self, self.examples.batches(prefixes, seed))
        return self._batches[key]

    def fixed_batches(self, prefixes: int, seed: int = 0) -> FixedBatches:
        """The same batches in one shape. They are cached."""
        key = (prefixes, seed)
        if key not in self._fixed:
            self._fixed[key] = FixedBatches(self.batches(prefixes, seed))
        return self._fixed[key]

    def sample(self, prefixes: int, seed: int = 0) -> Problem:
        """The examples of a random sample of `prefixes` distinct prefixes; 0 takes all. Samples are cached, with the
        states of the untouched model."""
        key = (prefixes, seed)
        if key not in self._samples:
            chosen = self.examples.sampled(prefixes, seed)
            if chosen is None:
                return self
            self._samples[key] = self.restrict(chosen)
        return self._samples[key]

    def restrict(self, examples: np.ndarray | Sequence[int]) -> Problem:
        """The problem on a subset of its examples. Both share the work counter."""
        return self._with(self.examples.restrict(np.asarray(examples, dtype=np.int64)))

    # -- the same problem, but for one thing --------------------------------------------------------------------

    def _with(
        self, examples: Examples, *, steps: Steps | None = None, values: Values | None = None
    ) -> Problem:
        """The same problem with other examples, steps or values. Both share the work counter."""
        return Problem(
            self.model,
            examples,
            sites=self.sites,
            steps=steps or self.steps,
            values=values or self.values,
            objective=self.objective,
            work=self.work,
            part_of=self,
        )

    def on(self, pairs: PairSet, model: LanguageModel | None = None) -> Problem:
        """The same question asked of other pairs, e.g. held-out ones, or of another model with the same sites. Values
        keep the ranges of this problem, unless the model is another."""
        return Problem(
            model or self.model,
            pairs,
            sites=self.sites,
            steps=self.steps,
            values=self.values,
            objective=self.objective,
            part_of=self if model is None else None,
        )

    @cached_property
    def matched(self) -> tuple[Problem, np.ndarray] | None:
        """The problem of the examples that have a counterfactual prefix, matched with it, and the indices of these
        examples; None if there are none."""
        try:
            examples, chosen = self.examples.matched(self.model, self.steps)
        except PivotalError:  # no pair has a counterfactual prefix that the model can read
            return None
        return self._with(examples), chosen

    @cached_property
    def _with_left_out(self) -> Problem | None:
        whole = self.examples.whole
        if whole is None:
            return None
        return Problem(self.model, whole, sites=self.sites, steps=self.steps, work=self.work)

    @property
    def whole(self) -> Problem:
        """The problem with the pairs that an interchange leaves out."""
        return self if self._with_left_out is None else self._with_left_out

    def with_values(self, values: Values) -> Problem:
        """The same examples with other values allowed. Interchange needs examples that were prepared for it."""
        return self._with(self.examples, values=values)

    def at_sites(self, sites: str, model: LanguageModel) -> Problem:
        """The same examples, with the units of other sites of the model, perhaps in other bases. What the same model
        computes once for them is shared."""
        made = Problem(model, self.examples, sites=sites, steps=self.steps, values=self.values)
        if model is self.model:
            made.tensors = self.tensors
        return made

    def at_last_step(self) -> Problem:
        """The same examples, edited at the last token of the prefix only."""
        return self._with(self.examples.at_last_step(), steps="single")

    def exchanging(self, sites: str) -> Problem:
        """The same examples, with the units of these sites set to their states in the counterfactual prefixes."""
        return Problem(self.model, self.examples, sites=sites, steps=self.steps, values="interchange")

    def turned(self) -> Problem:
        """The same examples, to be flipped to the word that the model prefers already. A flip then means that it
        still prefers this word with the units set."""
        return self._with(self.examples.turned(self.steps))

    def keeping(self, kept: KeptSentences | None) -> Problem:
        """The same problem with what must stay: other questions, and text. With text, its KL is that of the text."""
        if kept is None:
            return self
        if self.examples.counterfactuals is not None:
            raise PivotalError(
                "--values interchange and --objective counterfactual need a counterfactual prefix for every sentence, "
                "and a sentence of --keep has none. Use --keep with other values and --objective flips.",
                "keep",
            )
        made = self._with(self.examples.keeping(kept, self.steps))
        made.kept = kept
        return made

    def without(self, units: Sequence[Unit]) -> Problem:
        """The same problem, in which these units cannot be set. They stay as the model computes them."""
        made = self._with(self.examples)
        usable = torch.ones(len(self.space), device=self.model.device) if self.usable is None else self.usable
        made.usable, made.kept = usable.clone(), self.kept
        made.usable[[self.space.flat(unit) for unit in units]] = 0.0
        return made

    @property
    def without_questions(self) -> Problem:
        """The same problem without the questions that must stay. Text that must stay is kept."""
        text = [sentence for sentence in self.examples.kept if sentence.words is None]
        if len(text) == len(self.examples.kept):
            return self
        return self._with(self.examples.part(np.arange(len(self)), text))
