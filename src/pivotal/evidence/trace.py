"""Traces: sentences step by step, untouched and edited, as the data of the paper's figures.

Both sides come from one pass of the model with two runs. The mask of the first run is zero. The edit records the states
that it receives, so a model needs no code for traces.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.examination import Examination
from pivotal.models.base import LanguageModel, checked
from pivotal.models.edits import MaskedEdit, dense
from pivotal.models.tree import PrefixTree, Span
from pivotal.problem.asking import AskedPair, Asking
from pivotal.problem.counterfactuals import Counterfactuals, Matches, match
from pivotal.problem.divergence import divergence
from pivotal.problem.examples import positions
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.splits import stratified
from pivotal.records.intervention import Intervention
from pivotal.records.serial import replace
from pivotal.records.traces import Both, Frame, Grid, PairOutcome, Trace, Traces
from pivotal.units import Unit

_PAIRS, _TRACES, _NUMBERS = 1000, 96, 120_000
"""Maximum outcomes and traces of a run folder, and maximum numbers in its traces (about a megabyte)."""
_ROWS = 256
"""Maximum rows of the vocabulary-wide softmax in memory, for both sides together."""


def trace(
    intervention: Intervention,
    model: LanguageModel,
    pair: MinimalPair,
    *,
    direction: str | None = None,
    any_model: bool = False,
) -> Trace:
    """Trace one sentence. By default it is edited towards the word that the untouched model does not prefer."""
    checked(model)
    if not isinstance(pair, MinimalPair):
        raise PivotalError(
            "A trace follows a pair, such as pivotal.questions.MinimalPair('The doctors', 1, ('admires', 'admire')), "
            f"but this is {str(pair)[:60]!r}."
        )
    intervention.check_model(model.name, model.fingerprint(), any_model=any_model)
    model = model.in_bases(intervention.bases)
    if direction is None:
        pairs = PairSet(intervention.phenomenon, intervention.directions, (pair,))
        to = int(Problem(model, pairs, steps=intervention.steps).direction[0])
    else:
        to = intervention.direction(direction)
    return trace_pairs(model, intervention, [pair], [to])[0]


def trace_held_out(examination: Examination, *, run: int, seed: int) -> Traces:
    """The traces of a run folder: the outcomes of the problem's pairs, and traces of a balanced sample."""
    intervention, problem = examination.intervention, examination.problem
    rng = random.Random(seed)
    kept = outcomes = examination.outcomes
    if len(outcomes) > _PAIRS:
        strata = [(outcome.group, outcome.direction) for outcome in outcomes]
        kept = tuple(outcomes[i] for i in stratified(strata, _PAIRS, rng))
    per_step = 2 * len(intervention) + len(problem.model.layers) + 5
    most = int(_NUMBERS / (per_step * problem.tree.lengths.mean()))
    most = min(_TRACES, most) if problem.pairs.asks_words else 0
    chosen = sorted(outcome.pair for outcome in _balanced(kept, most, rng))
    traces = trace_pairs(
        problem.model, intervention, [problem.pairs[i] for i in chosen], problem.direction[chosen].tolist()
    )
    return Traces(
        frame=_frame(problem.model, intervention),
        run=run,
        held_out=len(outcomes),
        pairs=kept,
        traces=tuple(replace(found, pair=i) for found, i in zip(traces, chosen, strict=True)),
    )


def _balanced(outcomes: Sequence[PairOutcome], most: int, rng: random.Random) -> list[PairOutcome]:
    """A sample that takes one pair of each construction, direction and outcome in turn, so that it includes the few
    pairs that did not flip."""
    strata: dict[tuple[str, str, bool], list[PairOutcome]] = {}
    for outcome in outcomes:
        strata.setdefault((outcome.group, outcome.direction, outcome.flipped), []).append(outcome)
    for members in strata.values():
        rng.shuffle(members)
    turns = itertools.zip_longest(*strata.values())
    return [outcome for turn in turns for outcome in turn if outcome is not None][:most]


@torch.no_grad()
def trace_pairs(
    model: LanguageModel, intervention: Intervention, pairs: Sequence[MinimalPair], directions: Sequence[int]
) -> list[Trace]:
    """Trace many sentences in one pass. `directions` are indices into the directions of the intervention."""
    return _followed(model, intervention, pairs, directions)[0] if pairs else []


@torch.no_grad()
def trace_with_next(
    model: LanguageModel, intervention: Intervention, pair: MinimalPair, direction: int, step: int
) -> tuple[Trace, Float[Tensor, "sides vocabulary"]]:
    """The trace of one sentence, and the log-probabilities of the token after a step on both sides, from one pass."""
    (trace,), states, (path,) = _followed(model, intervention, [pair], [direction])
    return trace, model.readout(states[[path[step] - 1]])[0].log_softmax(-1)


def _followed(
    model: LanguageModel, intervention: Intervention, pairs: Sequence[MinimalPair], directions: Sequence[int]
) -> tuple[list[Trace], Float[Tensor, "nodes sides width"], list[np.ndarray]]:
    """The traces, the states of both sides at all nodes but the root, and the nodes of each sentence."""
    if not all(pair.asks_words for pair in pairs):
        raise PivotalError("A trace follows two words, but these pairs ask none. Name two words.")
    asking = Asking(model, intervention.steps)
    asked = [asking.ask(pair) for pair in pairs]
    found = _exchanged(model, intervention, pairs, asked, directions)
    nodes = None if found is None else found.sources
    tree = PrefixTree.build(
        [one.ids for one in asked], positions(asked), directions, intervention.steps, nodes
    )
    watch = _Recorder(model, intervention, tree, None if found is None else found.counterfactuals)
    seen = model.states(model.prepare(tree.everywhere()), watch)
    watch.edit.check_reached()
    sets = sorted({side for one in asked for side in one.sides})
    log_p, kl = _predictions(model, seen, sets)
    # Before the first edit both sides are equal. Set their KL to zero, without rounding errors.
    kl = kl.clamp(min=0).where(torch.as_tensor(tree.live[1:]), 0.0)
    frame = _frame(model, intervention)
    traces = []
    paths = [np.array(tree.path(int(leaf))) for leaf in tree.leaf]
    for i, (pair, one, path) in enumerate(zip(pairs, asked, paths, strict=True)):
        words = [sets.index(side) for side in one.sides]
        traces.append(
            Trace(
                frame=frame,
                prefix=pair.prefix,
                words=pair.words,
                direction=intervention.directions[directions[i]],
                tokens=tuple(model.word(token).strip() or " " for token in one.ids),
                cue=one.cue,
                edited=tuple(tree.edited[path].tolist()),
                activation=Both(*(_grid(side[path]) for side in watch.activation.unbind(1))),
                log_p=Both(*(_grid(side[path - 1][:, words]) for side in log_p.unbind(1))),
                kl=tuple(kl[path - 1].tolist()),
                change=_grid(watch.change[path]),
                group=pair.group,
            )
        )
    return traces, seen, paths


def _exchanged(
    model: LanguageModel,
    intervention: Intervention,
    pairs: Sequence[MinimalPair],
    asked: Sequence[AskedPair],
    directions: Sequence[int],
) -> Matches | None:
    """The counterfactual prefixes of an interchange. None for other interventions, and for sentences without
    counterfactual prefixes, whose units are set to the means."""
    if intervention.found_with != "interchange" or not any(any(pair.counterfactuals) for pair in pairs):
        return None
    found = match(model, pairs, asked, np.array(directions))
    if found.reasons:
        raise PivotalError(f"its units cannot be exchanged: {next(iter(found.reasons))}.")
    return found


class _Recorder:
    """An edit with two runs, untouched and edited. It records the activations of both."""

    runs = 2

    def __init__(
        self,
        model: LanguageModel,
        intervention: Intervention,
        tree: PrefixTree,
        counterfactuals: Counterfactuals | None = None,
    ) -> None:
        """`tree` gives the edited nodes and their directions. With `counterfactuals` they take the states there."""
        space = model.unit_space(intervention.sites)
        mask, values = dense(intervention, space, model.device)
        self.edit = MaskedEdit(
            space,
            torch.cat([torch.zeros_like(mask), mask]),
            values.expand(2, -1, -1),
            sources=None if counterfactuals is None else counterfactuals.sources(model, space, tree),
        )
        self._layers = {site.name: i for i, site in enumerate(model.layers)}
        self._units: dict[str, list[int]] = {}
        for i, unit in enumerate(intervention.units):
            self._units.setdefault(unit.site, []).append(i)
        self._intervened = intervention.units
        self.sites = frozenset(self._layers) | frozenset(self._units)
        nodes = len(tree.token)
        self.activation: Float[Tensor, "nodes sides units"] = torch.zeros(nodes, 2, len(intervention))
        self.change: Float[Tensor, "nodes layers"] = torch.zeros(nodes, len(self._layers))

    def __call__(
        self, site: str, spans: Sequence[Span], h: Float[Tensor, "rows _ width"]
    ) -> Float[Tensor, "rows _ width"]:
        if site not in self.sites or not spans:
            return h
        # `PrefixTree.everywhere` has raised the directions by one.
        edited = [dataclasses.replace(span, direction=span.direction - 1) for span in spans if span.direction]
        new = self.edit(site, edited, h)
        for span in spans:
            nodes, sides = span.nodes_of_rows.cpu(), new[span.rows].expand(-1, 2, -1).float()
            if site in self._units:
                places = self._units[site]
                units = [self._intervened[i] for i in places]
                here = each_unit(sides[..., columns_of(units)], units[0].size).transpose(1, 2)
                self.activation[nodes[:, None], :, torch.tensor(places)] = here.cpu()
            if site in self._layers:
                untouched, changed = sides.unbind(1)
                moved = (changed - untouched).norm(dim=-1) / untouched.norm(dim=-1).clamp(min=1e-12)
                self.change[nodes, self._layers[site]] = moved.cpu()
        return new


def columns_of(units: Sequence[Unit]) -> list[int]:
    """The coordinates of units of one site."""
    return [unit.index * unit.size + i for unit in units for i in range(unit.size)]


def each_unit(h: Float[Tensor, "*nodes columns"], size: int) -> Float[Tensor, "*nodes units"]:
    """One number for each unit of so many columns. For an attention head it is the root mean square, as in tables."""
    return h if size == 1 else h.unflatten(-1, (-1, size)).square().mean(-1).sqrt()


def _predictions(
    model: LanguageModel, states: Float[Tensor, "nodes sides width"], sets: Sequence[Sequence[int]]
) -> tuple[Float[Tensor, "nodes sides sets"], Float[Tensor, " nodes"]]:
    """The log-probabilities of sets of tokens and the KL between the sides, from one readout of the vocabulary."""
    ids = [torch.as_tensor(tokens, device=states.device) for tokens in sets]
    log_p, kl = [], []
    for part in states.split(_ROWS):
        logits = model.readout(part)
        of_sets = torch.stack([logits[..., tokens].logsumexp(-1) for tokens in ids], -1)
        log_p.append((of_sets - logits.logsumexp(-1, keepdim=True)).float())
        kl.append(divergence(logits[:, 0], logits[:, 1:])[:, 0].float())
    return torch.cat(log_p).cpu(), torch.cat(kl).cpu()


def _frame(model: LanguageModel, intervention: Intervention) -> Frame:
    first, second = (intervention.shown_values[label] for label in intervention.directions)
    return Frame(
        model=model.name,
        phenomenon=intervention.phenomenon,
        steps=intervention.steps,
        labels=intervention.directions,
        units=tuple(map(str, intervention.units)),
        values=(first, second),
        layers=tuple(site.name for site in model.layers),
    )


def _grid(steps_by_rows: Float[Tensor, "steps rows"]) -> Grid:
    return tuple(map(tuple, steps_by_rows.T.tolist()))
