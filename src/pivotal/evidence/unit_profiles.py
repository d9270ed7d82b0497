"""Profiles of units: what each unit of an intervention does in the untouched model.

Natural states come from the pairs of a problem, highs and lows from ordinary text, and the words that a unit writes
from the output projection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.evidence.checks import DirectEdit
from pivotal.evidence.examination import Examination
from pivotal.evidence.trace import each_unit
from pivotal.models.base import LanguageModel
from pivotal.models.bases.edit import writes_of
from pivotal.problem.activations import states_of
from pivotal.problem.problem import Problem
from pivotal.problem.text import OrdinaryText
from pivotal.records.intervention import Intervention
from pivotal.records.unit_profiles import Histogram, Moment, UnitProfile, UnitProfiles, WordChange, Written
from pivotal.units import Unit

MOST_UNITS = 60
"""The most units that get a profile."""
_PREFIXES, _STATES = 128, 16
"""The prefixes whose states make the histograms, and those whose logits are compared."""
_BINS, _OUTERMOST = 40, 0.005
_WORDS = 10
"""The words that are kept at each end."""
_ASKED = 3
"""The words asked about that are kept for each label."""
_BEFORE, _AFTER = 9, 5
"""The words of a context."""
_DIGITS = 4


@torch.no_grad()
def profile_units(examination: Examination, *, run: int) -> UnitProfiles:
    """Profiles of the first units of an intervention."""
    intervention, problem = examination.intervention, examination.problem
    units, model, text = intervention.units[:MOST_UNITS], problem.model, examination.text
    natural, labels = _natural_states(problem, units)
    there, at = _text_states(text, units)
    written = _written(intervention, problem, len(units))
    shown = intervention.shown_values
    profiles = []
    for i, unit in enumerate(units):
        ordered = there[:, i].argsort()
        profiles.append(
            UnitProfile(
                unit=str(unit),
                values={
                    label: None if (v := row[i]) is None else _rounded(v) for label, row in shown.items()
                },
                mean=_rounded(natural[:, i].mean()),
                natural=_histogram(natural[:, i].numpy(), labels, problem.labels, _bounds(model, unit)),
                highest=_moments(text, at, there[:, i], ordered.flip(0)),
                lowest=_moments(text, at, there[:, i], ordered),
                written=None if written is None else written[i],
            )
        )
    return UnitProfiles(
        run=run,
        units=len(intervention),
        text=text.name,
        tokens=sum(map(len, text.ids)),
        profiles=tuple(profiles),
    )


def _bounds(model: LanguageModel, unit: Unit) -> tuple[float, float] | None:
    return next(site.bounds for site in model.sites if site.name == unit.site)


# -- states ------------------------------------------------------------------------------------------------


def _each(states: Sequence[Float[Tensor, "edited _"]]) -> Float[Tensor, "edited units"]:
    """One number for each unit, from its coordinates."""
    return torch.cat([each_unit(h, h.shape[1]) for h in states], 1).cpu()


def _natural_states(
    problem: Problem, units: Sequence[Unit]
) -> tuple[Float[Tensor, "states units"], np.ndarray]:
    """The states at the edited steps, and for each the index of the label that the untouched model prefers there.

    As for the natural range, first tokens do not count where a site has no bounds.
    """
    part = problem.sample(_PREFIXES)
    tree = part.tree
    if any(_bounds(problem.model, unit) is None for unit in units):
        tree = tree.without_first()
    states = _each(part.untouched_states(units))[tree.edited[part.tree.edited]]
    # The direction is the label to flip to, so the other one is preferred.
    return states, 1 - tree.direction[tree.edited]


def _histogram(
    states: np.ndarray, preferred: np.ndarray, labels: Sequence[str], bounds: tuple[float, float] | None
) -> Histogram:
    low, high = bounds or np.quantile(states, [_OUTERMOST, 1 - _OUTERMOST])
    if low == high:
        low, high = low - 0.5, high + 0.5
    inside = states.clip(low, high)
    return Histogram(
        low=_rounded(low),
        high=_rounded(high),
        counts={
            label: tuple(np.histogram(inside[preferred == i], _BINS, (low, high))[0].tolist())
            for i, label in enumerate(labels)
        },
    )


# -- ordinary text -----------------------------------------------------------------------------------------


def _text_states(
    text: OrdinaryText, units: Sequence[Unit]
) -> tuple[Float[Tensor, "places units"], list[tuple[int, int]]]:
    """The state of each unit after each token, and the sentence and position of the token."""
    if not text.ids:
        return torch.zeros(0, len(units)), []
    tree, prepared = text.read("every")
    states = _each(states_of(text.model, prepared, tree, units))
    # First tokens have activations in the thousands in some units of transformers, and only there.
    first = 1 if any(_bounds(text.model, unit) is None for unit in units) else 0
    places: dict[int, tuple[int, int]] = {}
    for i, leaf in enumerate(tree.leaf):
        for position, node in list(enumerate(tree.path(int(leaf))))[first:]:
            places.setdefault(node, (i, position))
    # Every node but the root, which is node 0, is edited and has a row.
    return states[torch.tensor(list(places), dtype=torch.long) - 1], list(places.values())


def _moments(
    text: OrdinaryText, places: Sequence[tuple[int, int]], states: Float[Tensor, " places"], ordered: Tensor
) -> tuple[Moment, ...]:
    """The first words in this order, each word once."""
    found: dict[str, Moment] = {}
    model = text.model
    for place in ordered.tolist():
        sentence, position = places[place]
        words = [model.word(token) for token in text.ids[sentence]]
        word = words[position].strip()
        if word and word not in found:
            found[word] = Moment(
                value=_rounded(states[place]),
                before=model.vocabulary.join(words[max(0, position - _BEFORE) : position]).strip(),
                word=word,
                after=model.vocabulary.join(words[position + 1 : position + 1 + _AFTER]).strip(),
            )
        if len(found) == _WORDS:
            break
    return tuple(found.values())


# -- what a unit writes ------------------------------------------------------------------------------------


def _written(intervention: Intervention, problem: Problem, most: int) -> list[dict[str, Written]] | None:
    """For each unit and direction, the mean change of the logits at the last word if this unit alone is set there."""
    model = problem.model
    writes = writes_of(model, intervention.units[:most])
    if writes is None:
        return None
    last = problem.sample(_STATES).at_last_step()
    # One run for each direction and unit, in which this unit alone is set.
    values = torch.tensor(intervention.values[:, :most]).repeat_interleave(most, 0)
    alone = torch.eye(most, dtype=torch.bool).repeat(len(intervention.directions), 1)
    values, alone = (each[:, None].expand(-1, len(problem.labels), -1) for each in (values, alone))
    edit = DirectEdit(model, intervention.units[:most], writes, values, alone)
    rows = torch.as_tensor(last.tree.live_row[np.unique(last.tree.leaf)], device=model.device)
    states = model.states(last.tensors.prepared, edit)[rows]
    clean = model.readout(last.tensors.clean[rows])
    asked = _asked_tokens(problem)
    found: list[dict[str, Written]] = []
    for i in range(most):
        by_label = {}
        for d, label in enumerate(intervention.directions):
            if intervention.active[d, i] and bool(writes[i].any()):
                change = (model.readout(states[:, d * most + i]) - clean).mean(0)
                by_label[label] = _changed(model, change - change.mean(), asked)
        found.append(by_label)
    return found


def _asked_tokens(problem: Problem) -> list[int]:
    """The tokens that are asked about most often, of each label; sets of words are left out."""
    sets, found = problem.examples.sets, []
    for side in range(2):
        counts = Counter(problem.examples.words[:, side].tolist()).most_common()
        found += [sets[i][0] for i, _ in counts if len(sets[i]) == 1][:_ASKED]
    return found


def _changed(model: LanguageModel, change: Float[Tensor, " vocabulary"], asked: Sequence[int]) -> Written:
    def words(sign: int) -> tuple[WordChange, ...]:
        top = (sign * change).topk(min(_WORDS, len(change)))
        changes = (
            (model.word(int(token)).strip(), sign * float(value)) for value, token in zip(*top, strict=True)
        )
        return tuple(WordChange(word, _rounded(value)) for word, value in changes if sign * value > 0)

    own = (WordChange(model.word(token).strip(), _rounded(change[token])) for token in asked)
    return Written(up=words(1), down=words(-1), asked=tuple(own))


def _rounded(value: Tensor | float) -> float:
    return float(f"{float(value):.{_DIGITS}g}")
