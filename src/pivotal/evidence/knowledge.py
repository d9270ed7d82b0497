"""What the untouched model knows of a question, before any search, and what a real change of the cue does to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import shares_of
from pivotal.evidence.verdict import HALF, LEAST_MASS, LEAST_PREFIXES, enough_to_flip, labels_ignore_cue
from pivotal.printing import chance, counted
from pivotal.problem.asking import Tokens
from pivotal.problem.problem import Problem
from pivotal.questions.cue_labels import contradicted, cue_tells
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import CueSwap, Knowledge, LabelKnowledge, Share

PREFIXES = 256
"""The most prefixes on which probability and rank of the words are measured. They need the whole vocabulary."""
_CLEARLY_KNOWN = 0.75
"""An accuracy above it whose interval reaches down to one half says that there are too few pairs."""
ONE_SIDED = 0.95
"""A larger share of pairs in which the model prefers the same label is one-sided."""
_MOST_TEST = 0.5
"""The largest share of held-out pairs that is proposed."""
_SWAPPED, _COMPARED = 256, 128
"""The most prefixes whose counterfactual prefixes are asked, and those at so many positions of which KL is measured."""
_ROWS = 256
"""The most rows of the vocabulary-wide softmax in memory."""


def knowledge_of(problem: Problem) -> Knowledge:
    """The preferences of the untouched model on the pairs of a problem. Pairs that cannot be exchanged count too: they
    are mostly those that the model gets wrong."""
    problem = problem.whole
    expected, preferred = problem.expected, 1 - problem.direction
    right = expected == preferred
    groups = np.array([pair.group for pair in problem.pairs])
    share = shares_of(problem.pairs)

    def accuracy(of: np.ndarray) -> Share | None:
        return share(right, of) if of.any() else None

    by_group = {group: accuracy((groups == group) & (expected >= 0)) for group in problem.pairs.groups}
    clusters = len({pair.prefix for pair in problem.pairs})
    mass, rank = _mass_and_rank(problem) if problem.pairs.asks_words else (None, None)
    return Knowledge(
        pairs=len(problem),
        clusters=clusters,
        labelled=int((expected >= 0).sum()),
        accuracy=accuracy(expected >= 0),
        by_label={
            label: LabelKnowledge(
                pairs=int((expected == i).sum()),
                accuracy=accuracy(expected == i),
                preferred=int((preferred == i).sum()),
                prefixes=len(np.unique(problem.prefix_ids[preferred == i])),
            )
            for i, label in enumerate(problem.labels)
        },
        by_group={group: found for group, found in by_group.items() if found is not None},
        one_sided=max(float((preferred == i).mean()) for i in range(2)),
        mass=mass,
        rank=rank,
        gap=None if mass is not None else float(problem.clean_log_ratio.median()),
        sampled=PREFIXES if clusters > PREFIXES else None,
        cue_tells=cue_tells(problem.pairs),
        asked=len({pair.words for pair in problem.pairs if pair.asks_words}),
        contradicted=contradicted(problem.pairs),
    )


def not_unseen(file: object, train: PairSet, test: PairSet) -> list[str]:
    """A warning if held-out pairs from a file have prefixes of training pairs. Other splits do so only if asked."""
    seen = {pair.prefix for pair in train}
    known = sum(pair.prefix in seen for pair in test) if isinstance(file, str) else 0
    said = f"{known:,} of the {len(test):,} held-out pairs of {file} have the prefix of a training pair"
    return [f"{said}, so they are not unseen."] if known else []


def warnings_of(knowledge: Knowledge, pairs: PairSet | None = None) -> tuple[str, ...]:
    """What speaks against asking the question, whatever the split, by the rules of the verdict."""
    said = []
    labels = knowledge.by_label
    for label, part in labels.items():
        if part.accuracy is not None and part.accuracy.low <= HALF:
            pairs_of = counted(part.pairs, "pair")
            share = f"if “{label}” is right, it prefers it in {part.accuracy.value:.1%} of {pairs_of}"
            said.append(
                f"The model does not know the answer: {share}, which may be chance."
                if part.accuracy.value <= _CLEARLY_KNOWN
                else f"Too few pairs to tell whether the model knows the answer: {share}."
            )
    if labels_ignore_cue(knowledge):
        said.append(
            "The same cue words occur with both labels: the labels are noisy, or the cue does not decide which word is "
            "right."
        )
    if knowledge.contradicted:
        said.append(
            f"The prefix does not decide which word is right: after {knowledge.contradicted:,} of "
            f"{knowledge.clusters:,} prefixes, pairs with the same words expect both labels."
        )
    expected = [label for label, part in labels.items() if part.pairs]
    if len(expected) == 1:
        said.append(
            f"All pairs expect “{expected[0]}”, and a verdict needs both directions. Add pairs in which the other word "
            "is right. In a table of good and bad words, a column label says which of two labels the good word has."
        )
    if knowledge.one_sided > ONE_SIDED:
        most = max(labels, key=lambda label: labels[label].preferred)
        said.append(
            f"The model prefers “{most}” in {knowledge.one_sided:.1%} of the pairs, whatever is right."
        )
    if knowledge.mass is not None and knowledge.mass < LEAST_MASS:
        said.append(
            "The model expects none of the words: together they have a median probability of "
            f"{chance(knowledge.mass)}; a verdict needs {chance(LEAST_MASS)}."
        )
    return (*said, *(without_forms(pairs) if pairs else ()))


def without_forms(pairs: PairSet) -> tuple[str, ...]:
    """A warning if no pair says what its prefix looks like with the cue in its other form, which a verdict needs."""
    lacking = [
        (label, next((pair.prefix for pair in pairs if pair.label != label), pairs[0].prefix))
        for i, label in enumerate(pairs.labels)
        if not any(pair.counterfactuals[i] not in ("", pair.prefix) for pair in pairs)
    ]
    one_label = len({pair.label for pair in pairs if pair.label}) == 1  # which has a warning of its own
    if one_label or not lacking:
        return ()
    label, prefix = lacking[0]
    which = " or ".join(f"“{label}”" for label, _ in lacking)
    columns = " and ".join(f"counterfactual.{label}" for label, _ in lacking)
    return (
        f"No pair has a counterfactual prefix for {which}, so nothing shows whether the model follows the cue, and the "
        f"verdict will be 'no evidence'. Add {columns} to the file: in the row of “{prefix}”, the same prefix with the "
        f"cue in the form that calls for “{label}”. Or name the file as table:FILE, which takes them from rows that "
        "differ in one word; if several do, from that with the same lexemes.",
    )


def prefixes_to_flip(problem: Problem) -> dict[str, int]:
    """For each label, the number of distinct prefixes after which the model prefers the other label's word. Unlike
    `knowledge_of`, this does not need the whole vocabulary."""
    prefix, direction = problem.whole.prefix_ids, problem.whole.direction
    return {label: len(np.unique(prefix[direction == i])) for i, label in enumerate(problem.labels)}


def few_to_flip(
    towards: Mapping[str, int], prefixes: int, share: float, *, all_asked: bool = True
) -> tuple[str, ...]:
    """A warning if the verdict will find too few held-out prefixes, with what would be enough. `towards` is the number
    of prefixes to flip to each label, `prefixes` that of all held-out prefixes, `share` the share of held-out pairs,
    and `all_asked` whether the model was asked all of them."""
    if enough_to_flip(towards):
        return ()
    (first, n), (second, m) = towards.items()
    which = f"{'' if all_asked else 'sampled '}held-out prefix{'' if prefixes == 1 else 'es'}"
    said = (
        f"Of the {prefixes:,} {which}, {n:,} can be flipped to “{first}” and {m:,} to “{second}”; a verdict "
        f"needs {LEAST_PREFIXES} each."
    )
    if not all_asked:
        return (f"{said} --sample 0 scores all.",)
    if not min(n, m):
        return (f"{said} The model prefers “{second if m == 0 else first}” after all of them.",)
    # The share that is enough if the model goes on as it does here, rounded up to the next twentieth.
    enough = (math.floor(20 * share * LEAST_PREFIXES / min(n, m) + 1e-9) + 1) / 20
    more = f", or hold out more with --test {enough:g}" if enough <= _MOST_TEST else ""
    return (f"{said} Write at least {math.ceil(LEAST_PREFIXES / share):,} prefixes for each label{more}.",)


@torch.no_grad()
def _mass_and_rank(problem: Problem) -> tuple[float, float]:
    """The medians, over the pairs of the prefixes or of a sample of them, of the probability of the words of both
    labels and of the rank of the more likely label's words."""
    part = problem.sample(PREFIXES)
    model, sets, words = part.model, part.examples.sets, part.examples.words
    leaves, of = np.unique(part.examples.leaves, return_inverse=True)
    logits = model.readout(
        part.tensors.clean[torch.as_tensor(part.tree.live_row[leaves], device=model.device)]
    )
    mass, rank = np.empty(len(part)), np.empty(len(part))
    for some in np.split(np.arange(len(part)), range(_ROWS, len(part), _ROWS)):
        here = logits[torch.as_tensor(of[some], device=model.device)]
        # Read from the same logits, so that a word is never more likely than itself by a rounding error.
        first, second = (_added(here, sets, words[some, side]) for side in range(2))
        better = torch.maximum(first, second)
        mass[some] = (torch.logaddexp(first, second) - here.logsumexp(-1)).exp().float().cpu().numpy()
        rank[some] = 1 + (here > better[:, None]).sum(-1).cpu().numpy()
    return float(np.median(mass)), float(np.median(rank))


def _added(
    logits: Float[Tensor, "rows vocabulary"], sets: tuple[Tokens, ...], which: np.ndarray
) -> Float[Tensor, " rows"]:
    """The logsumexp over the tokens of the set that each row asks about."""
    found = logits.new_empty(len(logits))
    for one in np.unique(which).tolist():
        rows = torch.as_tensor(np.flatnonzero(which == one), device=logits.device)
        found[rows] = logits[rows[:, None], torch.as_tensor(sets[one], device=logits.device)].logsumexp(-1)
    return found


@torch.no_grad()
def cue_swap(problem: Problem) -> CueSwap | None:
    """Ask the untouched model about the counterfactual prefixes. None if no pair has one that the model can read, or if
    no words are asked."""
    if not problem.pairs.asks_words:
        return None
    part = problem.sample(_SWAPPED)
    texts = [
        (i, label, text)
        for i, pair in enumerate(part.pairs)
        for label, text in enumerate(pair.counterfactuals)
    ]
    own = [(i, label) for i, label, text in texts if text == part.pairs[i].prefix]  # asked already
    other = [(i, label) for i, label, text in texts if text not in ("", part.pairs[i].prefix)]
    changed = tuple(replace(part.pairs[i], prefix=part.pairs[i].counterfactuals[label]) for i, label in other)
    try:
        forms = Problem(part.model, replace(part.pairs, pairs=changed), sites=part.sites, steps=part.steps)
    except PivotalError:  # none of them can be asked
        return None
    places = {id(pair): place for pair, place in zip(changed, other, strict=True)}
    of, called = np.array([*(places[id(pair)] for pair in forms.pairs), *own]).T
    preferred = 1 - np.append(forms.direction, part.direction[of[len(forms) :]])
    share = shares_of(replace(forms.pairs, pairs=(*forms.pairs, *(part.pairs[i] for i, _ in own))))
    # The counterfactual of a pair is the form that calls for the word that the untouched model does not prefer.
    towards = (np.arange(len(of)) < len(forms)) & (called == part.direction[of])
    matched = problem.sample(_COMPARED).matched
    if matched is None or not towards.any():
        return None

    def by_label(some: np.ndarray) -> dict[str, Share]:
        each = {label: some & (called == d) for d, label in enumerate(part.labels)}
        return {label: share(preferred == called, which) for label, which in each.items() if which.any()}

    same, _ = matched
    return CueSwap(
        kl=float(same.positions.weight @ same.untouched.once(same.said[:, None])[:, 0]),
        flipped=share(preferred == called, towards),
        by_direction=by_label(towards),
        right=by_label(np.ones(len(of), dtype=bool)),
    )
