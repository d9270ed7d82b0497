"""Side effects: other phenomena, ordinary text and what must stay, with the intervention applied."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.examination import each_way, expected_of, right_in
from pivotal.evidence.intervals import clustered_variance, shares_of, student_quantile
from pivotal.evidence.rivals import PREFIXES, Rivals
from pivotal.evidence.verdict import MOST_MOVED
from pivotal.models.base import LanguageModel, checked
from pivotal.models.edits import MaskedEdit, dense
from pivotal.problem.examples import Examples
from pivotal.problem.kept import Stay
from pivotal.problem.objective import TOLERANCE, Terms
from pivotal.problem.prepare import as_read
from pivotal.problem.problem import Problem
from pivotal.problem.text import OrdinaryText
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon, phenomenon_names
from pivotal.questions.question import Question, names_of
from pivotal.questions.readers import Part
from pivotal.questions.relabel import relabelled
from pivotal.records.evidence import Effect, Evidence, TextCost, Transfer, TransferRow
from pivotal.records.intervention import Intervention, given_intervention
from pivotal.records.serial import replace
from pivotal.records.summary import Kept
from pivotal.units import Steps

PAIRS = 200
"""The most pairs of another phenomenon that are asked by default."""
_CHANGED = 20
"""The fewest pairs on which a real change of the cue is measured."""
_ROWS = 256
"""The most rows of the vocabulary-wide softmax in memory."""
_MOST_NATS = 700.0
"""The largest number whose exponential is finite."""
_MEASURED = 512
"""The training prefixes whose sample of kept sentences is measured."""


def bundled_phenomena() -> Iterable[PairSet]:
    """The pairs of every phenomenon that needs no file."""
    return (load_phenomenon(name) for name in phenomenon_names() if not name.endswith(":"))


def unanswered(evidence: Evidence, own: str, names: Iterable[str]) -> list[str]:
    """The phenomena of which the evidence for an intervention says nothing. `own` is the one that it was found for, of
    which nothing needs to be said."""
    answered = {own, *names_of(own), *evidence.unasked, *(effect.phenomenon for effect in evidence.effects)}
    return [name for name in names if name not in answered]


@dataclass(frozen=True)
class Subject:
    """What an intervention was found for, to which other questions may be related."""

    labels: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    """The words that it asks."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """The other form of each cue word."""

    @classmethod
    def of(cls, pairs: PairSet) -> Subject:
        forms: dict[str, str] = {}
        for pair in pairs:
            # Without one of them, the prefix itself has that form.
            first, second = ((text or pair.prefix).split(" ") for text in pair.counterfactuals)
            if pair.cue is not None and pair.cue < min(len(first), len(second)):
                one, other = first[pair.cue], second[pair.cue]
                forms |= {one: other, other: one} if one != other else {}
        words = {word.lower() for pair in pairs for side in pair.word_sets for word in side if word}
        return cls(frozenset(pairs.labels), frozenset(pairs.features), frozenset(words), forms)

    @classmethod
    def named(cls, phenomenon: str) -> Subject:
        """The subject of a bundled phenomenon; empty if it is not one."""
        known = set(phenomenon_names())
        sets = [load_phenomenon(name) for name in names_of(phenomenon) if name in known and name[-1] != ":"]
        return cls.of(replaced(sets[0], pairs=tuple(pair for one in sets for pair in one))) if sets else cls()

    def related(self, other: Subject) -> bool:
        return self.labels == other.labels or bool(self.features & other.features or self.words & other.words)

    def changed(self, pairs: PairSet) -> tuple[PairSet, PairSet]:
        """The labelled pairs whose prefix has a cue word, as they are and with the other form of each."""
        own, other = [], []
        for pair in pairs:
            text = " ".join(self.forms.get(word, word) for word in pair.prefix.split(" "))
            if pair.asks_words and pair.label and text != pair.prefix:
                own.append(pair)
                other.append(replaced(pair, prefix=text, counterfactuals=("", "")))
        return replaced(pairs, pairs=tuple(own)), replaced(pairs, pairs=tuple(other))


def with_others(
    evidence: Evidence,
    intervention: Intervention,
    model: LanguageModel,
    others: Iterable[PairSet | Problem],
    subject: Subject,
    rivals: Rivals | None = None,
) -> Evidence:
    """The evidence with the effects on other phenomena that it lacks, in the order in which they are asked."""
    others = list(others)
    names = names_asked(others)
    lacking = unanswered(evidence, intervention.phenomenon, names)
    effects, unasked = list(evidence.effects), list(evidence.unasked)
    for name, other in zip(names, others, strict=True):
        if name in lacking:
            try:
                effects.append(effect_on(intervention, model, other, subject, rivals))
            except PivotalError:  # no pair of it can be asked
                unasked.append(name)
    place = {name: i for i, name in enumerate(names)}
    effects.sort(key=lambda effect: place.get(effect.phenomenon, len(place)))
    return replace(evidence, effects=tuple(effects), unasked=tuple(unasked))


def names_asked(others: Iterable[PairSet | Problem]) -> list[str]:
    return [(one.pairs if isinstance(one, Problem) else one).name for one in others]


def to_be_asked(model: LanguageModel, pairs: PairSet, steps: Steps, most: int = PAIRS) -> Problem:
    """Another phenomenon, made ready to be asked with any number of interventions: at most `most` of its pairs."""
    return Problem(model, Examples.of(model, pairs.at_most(most), steps).one_way(steps), steps=steps)


@torch.no_grad()
def effect_on(
    intervention: Intervention,
    model: LanguageModel,
    other: PairSet | Problem,
    subject: Subject,
    rivals: Rivals | None = None,
) -> Effect:
    """Ask another phenomenon with the intervention applied, towards each of its directions. `other` may have been made
    ready by `to_be_asked` for the intervention's steps. If its labels are the directions of the intervention, each
    preference is also edited towards the other word.

    `subject` is what the intervention was found for. An unrelated phenomenon that moves by more than the verdict allows
    is also asked with `rivals` applied, and after a real change of the cue.
    """
    steps, sites, model = intervention.steps, intervention.sites, model.in_bases(intervention.bases)
    asked = other if isinstance(other, Problem) else to_be_asked(model, other, steps)
    problem = asked.at_sites(sites, model)
    share, before = shares_of(problem.pairs), (1 - problem.direction) == expected_of(problem)
    outcome = problem.run(*each_way(dense(intervention, problem.space, model.device)))
    runs = dict(zip(intervention.directions, right_in(problem, outcome), strict=True))
    flipped = None
    if sorted(problem.labels) == sorted(intervention.directions):
        # Each preference is edited in the direction of its target label.
        own = np.array([intervention.direction(label) for label in problem.labels])[problem.direction]
        flipped = share(outcome.flipped().cpu().numpy()[own, np.arange(len(problem))])
    effect = Effect(
        phenomenon=problem.pairs.name,
        pairs=len(problem),
        related=subject.related(Subject.of(problem.pairs)),
        flipped=flipped,
        untouched=share(before),
        edited={direction: share(right) for direction, right in runs.items()},
        prefixes=len(np.unique(problem.prefix_ids)),
        changed={
            direction: (int((before & ~right).sum()), int((right & ~before).sum()))
            for direction, right in runs.items()
        },
    )
    if rivals is None or effect.related or effect.moved <= MOST_MOVED:
        return effect
    return replace(
        effect,
        by_chance=_most_by_chance(asked.sample(PREFIXES).at_sites(sites, model), rivals),
        by_cue=_by_cue(model, *subject.changed(problem.pairs), intervention),
    )


def _most_by_chance(part: Problem, rivals: Rivals) -> float:
    """The largest change in accuracy by random sets, on some of the prefixes."""
    before = float(((1 - part.direction) == expected_of(part)).mean())
    right = right_in(part, part.run(*each_way(rivals)))
    return float(np.abs(right.mean(1) - before).max())


def _by_cue(model: LanguageModel, own: PairSet, other: PairSet, intervention: Intervention) -> float | None:
    """The change in accuracy of the untouched model by a real change of the cue; None if too few pairs have a cue."""
    if len(own) < _CHANGED:
        return None
    try:
        problems = [Problem(model, pairs, sites=intervention.sites, steps="every") for pairs in (own, other)]
    except PivotalError:  # the model cannot read the other forms
        return None
    before, after = (problem.clean_accuracy or 0.0 for problem in problems)  # all pairs have a label
    return abs(after - before)


@torch.no_grad()
def transfer(
    intervention: Intervention,
    model: LanguageModel,
    question: Question | PairSet | str | Path,
    *,
    labels: Mapping[str, str] | None = None,
    any_model: bool = False,
    parts: Sequence[Part] | None = None,
    trained: frozenset[str] | None = None,
) -> Transfer:
    """Score other questions with the intervention applied: a name, a file, a folder such as `blimp:FOLDER`, or pairs.

    Where the labels are those of the intervention, the result has the share of preferences that flip, otherwise the
    accuracy before and after. `labels` maps labels of the question to those of the intervention. `parts` are the
    questions of a folder, if they were read already, and `trained` the prefixes of the run's training pairs.
    """
    name = checked(model).name
    given_intervention(intervention).check_model(name, model.fingerprint(), any_model=any_model)
    if isinstance(question, PairSet):
        parts, question = [Part(question.name, question)], Question()
    asked = question if isinstance(question, Question) else Question(phenomenon=str(question))
    parts, labels = asked.load_parts() if parts is None else parts, labels or {}
    subject = Subject.named(intervention.phenomenon)

    def row(part: Part) -> TransferRow:
        if part.pairs is None:
            return TransferRow(question=part.name, reason=part.reason)
        known = {label: to for label, to in labels.items() if label in part.pairs.labels}
        pairs = relabelled(part.pairs, intervention.directions, known) or part.pairs
        try:
            other = to_be_asked(model, as_read(asked, model, pairs), intervention.steps, len(pairs))
            effect = effect_on(intervention, model, other, subject)
        except PivotalError as error:
            return TransferRow(question=part.name, reason=str(error))
        seen = None if trained is None else count_trained(other.pairs, trained)
        return TransferRow(question=part.name, effect=effect, prefix_in_training=seen)

    return Transfer(
        model=model.name,
        phenomenon=intervention.phenomenon,
        directions=intervention.directions,
        rows=tuple(map(row, parts)),
    )


def count_trained(pairs: PairSet, trained: frozenset[str]) -> int:
    """The number of pairs whose prefix is one of those of the training pairs."""
    return sum(pair.prefix in trained for pair in pairs)


@torch.no_grad()
def text_cost(intervention: Intervention, text: OrdinaryText) -> TextCost | None:
    """Perplexity of sentences, untouched and edited towards each label. None if no token is predicted after an edit."""
    if not text.ids:
        return None
    model = text.model.in_bases(intervention.bases)
    tree, prepared = text.read(intervention.steps)
    predicted = [
        (tree.live_row[node], token, i)
        for i, tokens in enumerate(text.ids)
        for node, token in zip(tree.path(int(tree.leaf[i])), tokens[1:], strict=False)
        if tree.live[node]
    ]
    if not predicted:
        return None
    rows, following, sentences = torch.tensor(predicted).T
    space = model.unit_space(intervention.sites)
    mask, values = dense(intervention, space, model.device)
    runs = 1 + len(intervention.directions)
    # One run per direction. The tree has one direction, so each run repeats its values in all directions.
    edit = MaskedEdit(
        space,
        torch.cat([torch.zeros_like(mask[:, :1]), mask.transpose(0, 1)]).expand(runs, mask.shape[1], -1),
        torch.cat([values[:, :1], values.transpose(0, 1)]).expand(runs, values.shape[1], -1),
    )
    nats = _nats(model, model.states(prepared, edit), rows, following)
    perplexity = [_exponential(mean) for mean in nats.mean(0).tolist()]
    more = [_factor(added, sentences.numpy()) for added in (nats[:, 1:] - nats[:, :1]).T]
    return TextCost(
        text=text.name,
        tokens=len(rows),
        untouched=perplexity[0],
        edited=dict(zip(intervention.directions, perplexity[1:], strict=True)),
        factors=dict(zip(intervention.directions, more, strict=True)),
    )


def _exponential(nats: float) -> float:
    return math.exp(min(_MOST_NATS, nats))


def _factor(added: np.ndarray, sentences: np.ndarray) -> tuple[float, float]:
    """The 95% interval of the factor by which perplexity grows, from the nats that an edit adds to each token."""
    mean, count = float(added.mean()), len(np.unique(sentences))
    error = math.sqrt(clustered_variance(added - mean, sentences)) if count > 1 else math.inf
    reach = student_quantile(max(1, count - 1)) * error
    return _exponential(mean - reach), _exponential(mean + reach)


def _nats(
    model: LanguageModel,
    states: Float[Tensor, "live runs width"],
    rows: Int[Tensor, " tokens"],
    following: Int[Tensor, " tokens"],
) -> np.ndarray:
    """-log p of the following tokens (tokens x runs)."""
    found = []
    for at, token in zip(rows.split(_ROWS), following.split(_ROWS), strict=True):
        logits = model.readout(states[at.to(states.device)])
        chosen = logits.take_along_dim(token.to(logits.device)[:, None, None], -1)[..., 0]
        found.append((logits.logsumexp(-1) - chosen).double().cpu().numpy())
    return np.concatenate(found)


@torch.no_grad()
def kept_of(intervention: Intervention, train: Problem, stays: Sequence[Stay], terms: Terms) -> Kept | None:
    """What the search bounded, on the sentences that it read, and the effect on the others. None if nothing had to
    stay."""
    if train.kept is None:
        return None
    part = train.sample(_MEASURED)
    costs = terms.costs(part, part.run_intervention(intervention))
    kl, largest = float(costs[0, 0]), part.preferences.by_direction(costs[:, 1:]).abs().amax(2)[0].tolist()
    changes = dict(zip(part.preferences.names, largest, strict=True))
    most = terms.max_change or torch.inf
    effects: list[Effect] = []
    texts: list[TextCost | None] = []
    subject = Subject.of(train.pairs)
    for stay in stays:
        if stay.held_out is None:
            texts.append(text_cost(intervention, OrdinaryText(train.model, stay.held_out_lines, stay.name)))
            continue
        with suppress(PivotalError):  # the model knows none of the held-out pairs
            effects.append(effect_on(intervention, train.model, stay.held_out, subject))
    text = any(stay.pairs is None for stay in stays)
    return Kept(
        max_change=terms.max_change,
        changes=changes,
        broken=tuple(name for name, change in changes.items() if change > TOLERANCE * most),
        max_kl=terms.max_kl if text else None,
        kl=kl if text else None,
        effects=tuple(effects),
        texts=tuple(filter(None, texts)),
    )
