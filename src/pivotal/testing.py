"""Contract checks for models, bases, mask families, phenomena and searches.

Call them in the tests of your own plugin. A check returns nothing, or raises AssertionError with an explanation.

    from pivotal.testing import check_model
    check_model(MyModel(), ["The doctor near the cars", "The doctor", "Some cars near"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.edits import Edit, MaskedEdit, spread
from pivotal.models.tree import PrefixTree
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena.base import Phenomenon
from pivotal.searches.base import Search, most_units
from pivotal.searches.masks import MaskFamily
from pivotal.units import Site, Steps

__all__ = ["check_basis", "check_mask", "check_model", "check_phenomenon", "check_search"]


def check_model(model: LanguageModel, prefixes: Sequence[str], *, tolerance: float = 1e-4) -> None:
    """Check a model on prefixes that it can encode. Use prefixes of three words or more, some with the same beginning.

    `tolerance` is the allowed error of logits, relative to the largest logit. Raise it for models in half precision.
    """
    assert len(prefixes) > 1, "Give at least two prefixes."
    _check_words(model, prefixes)
    trial = _Trial(model, [model.encode(prefix).ids for prefix in prefixes], tolerance)
    trial.readout_of_some_words()
    trial.tree_equals_one_at_a_time(None)
    trial.edits_are_exact_at_all_steps()
    for site in (site for site in model.sites if not site.basis):
        trial.edit_changes(site.name, -1, f"An edit of {site.name} must change the same step's prediction.")
        if site.within:
            trial.units_are_replaced_whole(site)
    trial.edit_changes("all", 0, "An edit of the first step must change what follows the later steps.")


def check_basis(model: LanguageModel, prefixes: Sequence[str], *, tolerance: float = 1e-4) -> None:
    """Check the sites of a model in other bases, such as those of `Problem(..., sites="resid.12@pca").model`, on
    prefixes that it can encode. `tolerance` is as in `check_model`."""
    assert model.bases, "The model must have a site in another basis."
    sequences = [model.encode(prefix).ids for prefix in prefixes]
    own = {site.name: site for site in model.sites if not site.basis}
    for site in model.sites:
        if site.name not in model.bases:
            continue
        basis = model.bases[site.name]
        assert site.within in own and basis.width == own[site.within].coordinates, (
            f"{site.name} must show a site of the model, and its basis must be as wide as that site."
        )
        assert site.width == basis.coordinates and site.basis == basis.fingerprint, (
            f"{site.name} must have a unit for each coordinate, and the fingerprint of its basis."
        )
        trial = _Trial(model, sequences, tolerance, site.name)
        trial.edits_are_exact_at_all_steps(to_the_last_bit=True)
        trial.unused_coordinates_may_be_left_out()
        trial.edit_changes(site.name, -1, f"An edit of {site.name} must change the same step's prediction.")


def _check_words(model: LanguageModel, prefixes: Sequence[str]) -> None:
    assert model.fingerprint() and model.fingerprint() == model.fingerprint(), "Fingerprints must be stable."
    known = 0
    for prefix in prefixes:
        encoding, words = model.encode(prefix), prefix.split()
        assert encoding == model.encode(prefix), f"The tokens of {prefix!r} must be the same every time."
        assert len(encoding.ids) == len(encoding.word), "Every token must say which word it belongs to."
        assert list(dict.fromkeys(encoding.word)) == list(range(len(words))), (
            f"Every word of {prefix!r} must have tokens, in the order of the words."
        )
        assert all(0 <= i < model.vocabulary_size for i in encoding.ids), "Tokens must lie in the vocabulary."
        for word in words:
            try:
                tokens = model.tokens_of(word)
            except PivotalError:
                continue
            known += 1
            assert tokens and all(0 <= token < model.vocabulary_size for token in tokens), (
                f"The tokens of {word!r} must lie in the vocabulary."
            )
            if len(tokens) == 1:
                assert model.word(tokens[0]).strip() == word, (
                    f"word of the token of {word!r} must be {word!r}."
                )
    assert known, "No word of the prefixes has tokens, so the model could not score any pair."
    assert all(0 <= token < model.vocabulary_size for token in model.vocabulary.word_ends()), (
        "The tokens that end a word must lie in the vocabulary."
    )


class _Trial:
    def __init__(
        self, model: LanguageModel, sequences: list[tuple[int, ...]], tolerance: float, sites: str = "all"
    ) -> None:
        self.model, self.sequences, self.tolerance = model, sequences, tolerance
        self.sites = sites
        # Different cues and both directions, so that a level has frozen rows, edited rows and others.
        self.cues = [min(i % 3, len(ids) - 1) for i, ids in enumerate(sequences)]
        self.directions = [i % 2 for i in range(len(sequences))]
        self.clean = self.logits(PrefixTree.build(sequences))

    def tree(self, steps: Steps | None, cues: list[int] | None = None) -> PrefixTree:
        return PrefixTree.build(self.sequences, cues or self.cues, self.directions, steps)

    def logits(self, tree: PrefixTree, edit: Edit | None = None) -> Tensor:
        """The logits of the next token after each sequence: (sequences, runs, vocabulary)."""
        states = self.model.states(self.model.prepare(tree), edit)
        return self.model.readout(states[torch.as_tensor(tree.live_row[tree.leaf], device=states.device)])

    def masked(self, tree: PrefixTree, mask: Tensor, values: Tensor, sites: str = "") -> Tensor:
        edit = MaskedEdit(self.model.unit_space(sites or self.sites), mask, values)
        logits = self.logits(tree, edit)
        edit.check_reached()
        return logits

    def draw(self, runs: int, sites: str = "") -> tuple[Tensor, Tensor]:
        """Random masks that replace about half of the units, and values within the bounds of the sites."""
        space, generator = self.model.unit_space(sites or self.sites), torch.Generator().manual_seed(0)
        low, high = (torch.tensor(bound).clamp(-3, 3) for bound in space.bounds())
        mask = (torch.rand(runs, 2, len(space), generator=generator) < 0.5).float()
        values = low + (high - low) * torch.rand(runs, 2, space.coordinates, generator=generator)
        return mask.to(self.model.device), values.to(self.model.device)

    def same(self, found: Tensor, expected: Tensor, sentence: str) -> None:
        scale = float(expected.detach().abs().max().clamp(min=1.0))
        worst = float((found - expected).detach().abs().max())
        assert worst <= self.tolerance * scale, f"{sentence} Logits differ by up to {worst:.2g}."

    def edits_are_exact_at_all_steps(self, *, to_the_last_bit: bool = False) -> None:
        """With `to_the_last_bit`, an empty mask must give the states of a run without an edit, bit by bit."""
        for steps in get_args(Steps):
            self.empty_mask_changes_nothing(steps, exact=to_the_last_bit)
            self.edits_leave_nothing_behind(steps)
            self.runs_are_independent(steps)
            self.tree_equals_one_at_a_time(steps)
            self.gradients_flow(steps)

    def readout_of_some_words(self) -> None:
        states = self.model.states(self.model.prepare(self.tree(None)))
        ids = torch.arange(self.model.vocabulary_size - 1, -1, -3, device=states.device)
        some, every = self.model.readout(states, ids), self.model.readout(states)
        assert some.dtype.itemsize >= 4 <= every.dtype.itemsize, "Logits must be in float32 or better."
        self.same(some, every[..., ids], "readout(states, ids) must equal readout(states)[..., ids].")

    def tree_equals_one_at_a_time(self, steps: Steps | None) -> None:
        alone = [
            PrefixTree.build([ids], [cue], [to], steps)
            for ids, cue, to in zip(self.sequences, self.cues, self.directions, strict=True)
        ]
        of = self.logits if steps is None else lambda tree: self.masked(tree, *self.draw(2))
        sentence = f"The tree (steps: {steps}) must give the logits of one sentence at a time."
        self.same(of(self.tree(steps)), torch.cat([of(tree) for tree in alone]), sentence)

    def empty_mask_changes_nothing(self, steps: Steps, *, exact: bool = False) -> None:
        """With `exact`, the states must be equal to the last bit to those of a run without an edit."""
        mask, values = self.draw(2)
        sentence = f"An empty mask ({steps}) must change nothing."
        logits = self.masked(self.tree(steps), torch.zeros_like(mask), values)
        self.same(logits, self.clean.expand_as(logits), sentence)
        if exact:
            prepared = self.model.prepare(self.tree(steps))
            # With a gradient, every coordinate is computed, and not only those that the mask has.
            for needs in (False, True):
                empty = torch.zeros_like(mask[:1], requires_grad=needs)
                edit = MaskedEdit(self.model.unit_space(self.sites), empty, values[:1])
                assert torch.equal(self.model.states(prepared, edit), self.model.states(prepared)), sentence

    def edits_leave_nothing_behind(self, steps: Steps) -> None:
        prepared = self.model.prepare(self.tree(steps))
        edit = MaskedEdit(self.model.unit_space(self.sites), *self.draw(1))
        before, first = self.model.states(prepared), self.model.states(prepared, edit)
        assert torch.equal(first, self.model.states(prepared, edit)), "The same edit must do the same twice."
        assert torch.equal(before, self.model.states(prepared)), "An edit must leave nothing behind."

    def runs_are_independent(self, steps: Steps) -> None:
        tree, (mask, values) = self.tree(steps), self.draw(3)
        alone = [self.masked(tree, mask[r : r + 1], values[r : r + 1]) for r in range(3)]
        self.same(self.masked(tree, mask, values), torch.cat(alone, 1), "Runs at once must equal each alone.")

    def gradients_flow(self, steps: Steps) -> None:
        mask, values = (tensor.requires_grad_() for tensor in self.draw(2))
        self.masked(self.tree(steps), mask, values).square().mean().backward()
        for name, grad in (("mask", mask.grad), ("values", values.grad)):
            assert grad is not None and grad.isfinite().all(), f"The gradient by the {name} must be finite."
            assert (grad.abs().amax((1, 2)) > 0).all(), f"The gradient by the {name} must not vanish."

    def unused_coordinates_may_be_left_out(self) -> None:
        """A basis that computes only the coordinates of the mask must give the same as one that computes all."""
        tree, (mask, values) = self.tree("every"), self.draw(2)
        few = mask * (torch.arange(mask.shape[-1], device=mask.device) % 3 == 0)
        with torch.enable_grad():
            every = self.masked(tree, few.clone().requires_grad_(), values)
        self.same(self.masked(tree, few, values), every, "Unused coordinates must have no effect.")

    def units_are_replaced_whole(self, site: Site) -> None:
        """Replacing a unit of several coordinates must equal replacing these coordinates in the site `within`."""
        tree, (mask, values) = self.tree("every"), self.draw(2, site.name)
        each = spread(self.model.unit_space(site.name), mask)
        sentence = f"A unit of {site.name} must be {site.size} coordinates of {site.within} in a row."
        found = self.masked(tree, mask, values, site.name)
        self.same(found, self.masked(tree, each, values, site.within), sentence)

    def edit_changes(self, sites: str, step: int, sentence: str) -> None:
        """Replacing all units of the sites at one step of each sequence must change the predictions."""
        tree = self.tree("single", [step % len(ids) for ids in self.sequences])
        mask, values = self.draw(1, sites)
        change = (self.masked(tree, torch.ones_like(mask), values, sites) - self.clean).abs().amax((1, 2))
        assert (change > self.tolerance * self.clean.abs().max()).all(), sentence


def check_mask(family: MaskFamily, *, tolerance: float = 2e-3) -> None:
    """Check a distribution over masks. Its formulas and its estimator must agree with an integral over the noise."""
    logits = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    uniform = (torch.arange(4001, dtype=torch.float64) + 0.5) / 4001
    each = logits[:, None].expand(-1, len(uniform))
    m = family.sample(each, uniform.expand(len(logits), -1))
    assert m.isfinite().all() and m.min() >= 0 and m.max() <= 1, "A sampled mask must lie in [0, 1]."
    nonzero, mean, fractional = family.nonzero(logits), family.mean(logits), family.fractional(logits)
    # At high logits, a mask just below 1 is rounded to 1, so check the fractional mass only at low logits.
    low = logits <= 0
    for name, formula, integral in (
        ("nonzero", nonzero, (m != 0).double().mean(1)),
        ("fractional", fractional[low], ((m > 0) & (m < 1)).double().mean(1)[low]),
        ("mean", mean, m.mean(1)),
    ):
        worst = float((formula - integral).detach().abs().max())
        assert worst <= tolerance, f"{name}() must be what sample() gives, but it is off by {worst:.2g}."
    assert (fractional <= nonzero + tolerance).all(), "P(0 < m < 1) must not exceed P(m != 0)."
    hard = family.hard(logits)
    assert torch.equal(hard, mean > 0.5), "hard() must be true where the expected mask exceeds one half."
    assert not hard[0] and hard[-1], "A low logit must switch a unit off and a high one on."
    for name, of in (("nonzero", nonzero), ("mean", mean)):
        (grad,) = torch.autograd.grad(of.sum(), logits, retain_graph=True)
        assert grad.isfinite().all() and (grad >= 0).all(), f"{name}() must not fall as the logit rises."
        assert grad[len(grad) // 2] > 0, f"{name}() must rise with the logit."
    _check_estimator(family, logits, m, mean, tolerance)


def _check_estimator(family: MaskFamily, logits: Tensor, m: Tensor, mean: Tensor, tolerance: float) -> None:
    """The estimated gradient of the expected mask must agree with its formula."""
    estimator = family.estimator()
    assert estimator is not family.estimator(), "estimator() must make a new one for each search."
    term = estimator.term(family, logits[:, None, None], m[..., None, None], m)
    assert term.requires_grad, "The estimator must have a gradient by the logits."
    (estimate,) = torch.autograd.grad(term.sum(), logits, retain_graph=True)
    (exact,) = torch.autograd.grad(mean.sum(), logits)
    worst = float((estimate - exact).abs().max())
    assert worst <= tolerance, f"The estimated gradient must be that of mean(), but it is off by {worst:.2g}."
    if family.zeros_stay and m.requires_grad:
        at_zero = torch.zeros(len(m), requires_grad=True, dtype=m.dtype)
        zeros = family.sample(at_zero - 60, torch.full_like(at_zero, 0.5))
        (grad,) = torch.autograd.grad(zeros.sum(), at_zero)
        assert not zeros.any() and not grad.any(), "With zeros_stay, a mask of 0 must have no gradient."


def check_phenomenon(source: type[Phenomenon] | Phenomenon | PairSet) -> None:
    """Check a source of pairs (its class or an instance), or a set of pairs."""
    if isinstance(source, PairSet):
        pairs = source
    else:
        phenomenon = source() if isinstance(source, type) else source
        pairs = phenomenon.pairs()
        assert phenomenon.pairs() == pairs, "The same settings must give the same pairs."
        assert pairs.labels == phenomenon.labels, f"The pairs must have the labels {phenomenon.labels}."
        assert phenomenon.summary and "\n" not in phenomenon.summary, "The summary must be one line."
    assert len(pairs) > 0, "There must be at least one pair."
    assert len(set(pairs)) == len(pairs), "No pair may occur twice."
    for pair in pairs:
        words = len(pair.prefix.split())
        assert pair.cue is None or 0 <= pair.cue < words, f"The cue must be a word of the prefix: {pair}."
        assert pair.words[0] != pair.words[1], f"The two words must differ: {pair}."
        assert pair.label in ("", *pairs.labels), f"The label must be one of {pairs.labels}: {pair}."


def check_search(search: Search, *, steps: Steps = "every", runs: int = 2) -> None:
    """Check a search on the planted model, whose decisive units are known."""
    from pivotal.models.planted import plant
    from pivotal.questions.phenomena.planted import PlantedAgreement

    model = plant().model
    passed = _count_passes(model)
    problem = Problem(model, PlantedAgreement().pairs().sample(120), steps=steps, values="unbounded")
    found = search.solve(problem, runs=runs, seed=0)
    assert passed[0] == problem.work.forward > 0, (
        f"Masked runs must go through problem.run, but of {passed[0]} node evaluations {problem.work.forward} did."
    )
    assert len(found.interventions) == len(found.train_score) == len(found.stages) == runs, (
        f"A search of {runs} runs must return {runs} interventions, scores and stages."
    )
    most = most_units(getattr(search, "max_units", len(problem.space)), problem)
    for intervention in found.interventions:
        intervention.check_model(model.name, model.fingerprint())
        assert intervention.steps == steps, f"The interventions must have the problem's steps, {steps!r}."
        used = int(intervention.active.sum(1).max())
        assert used <= most, f"At most {most} units are allowed in a direction, not {used}."
    flipped = problem.run_intervention(found.best).flipped()
    assert flipped.any(), "The best intervention must flip at least one preference."
    anew = Problem(model, problem.pairs, steps=steps, values="unbounded")
    again = search.solve(anew, runs=runs, seed=0)
    assert found.interventions == again.interventions, "The same seed must give the same interventions."
    assert found.train_score == again.train_score, "The same seed must give the same scores."
    _check_values(search, problem)


def _check_values(search: Search, problem: Problem) -> None:
    """The values of the result must be those that the problem allows."""
    for allowed in ("natural", "interchange"):
        some = Problem(problem.model, problem.pairs[::3], steps=problem.steps, values=allowed)
        found = search.solve(some, runs=1, seed=0).best
        at = [place for unit in found.units for place in some.space.places(unit)]
        if allowed == "natural":
            low, high = (end[at] - slack for end, slack in zip(some.bounds(), (1e-6, -1e-6), strict=True))
        else:
            low = high = some.counterfactual_means[:, at]
        values = torch.tensor(found.values)
        assert ((values >= low) & (values <= high)).all() and found.found_with == allowed, (
            f"With values={allowed!r}, every value must be one that the problem allows. Take the bounds from "
            "problem.bounds(), the trial values from grid_of, and make interventions with interventions_of."
        )


def _count_passes(model: LanguageModel) -> list[int]:
    """Count the node evaluations of all edited passes of the model."""
    passed, states = [0], model.states

    def counted(prepared: Any, edit: Edit | None = None) -> Tensor:
        found = states(prepared, edit)
        if edit is not None:
            passed[0] += found.shape[0] * found.shape[1]
        return found

    model.states = counted  # type: ignore[method-assign]
    return passed
