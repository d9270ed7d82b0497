"""The counterfactual prefixes: what a real change of the cue does to the untouched model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import shares_of
from pivotal.models.tree import PrefixTree
from pivotal.problem.divergence import divergence
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import CueSwap

_PREFIXES = 256
_ROWS = 256
"""The most rows of the vocabulary-wide softmax in memory."""


@torch.no_grad()
def cue_swap(problem: Problem) -> CueSwap | None:
    """Ask the untouched model about the counterfactual prefixes. None if no pair has one that the model can read."""
    part = problem.sample(_PREFIXES)
    asked = [
        (i, label, replace(pair, prefix=text))
        for i, pair in enumerate(part.pairs)
        for label, text in enumerate(pair.counterfactuals)
        if text
    ]
    if not asked:
        return None
    pairs = PairSet(part.pairs.name, part.labels, tuple(pair for _, _, pair in asked))
    try:
        forms = Problem(part.model, pairs, sites=part.sites, steps=part.steps)
    except PivotalError:  # none of them can be asked
        return None
    places = {id(pair): (i, label) for i, label, pair in asked}
    of, called = np.array([places[id(pair)] for pair in forms.pairs]).T
    preferred = 1 - forms.direction
    share = shares_of(forms.prefix_ids)
    # The counterfactual of a pair is the form that calls for the word that the untouched model does not prefer.
    own, other = part.tree.sequences(), forms.tree.sequences()
    changed = np.array([other[j] != own[i] for j, i in enumerate(of)])
    towards = changed & (called == part.direction[of])
    if not towards.any():
        return None
    rows = np.flatnonzero(towards)
    return CueSwap(
        kl=_kl(part, [own[of[j]] for j in rows], [other[j] for j in rows]),
        flipped=share(preferred == called, towards),
        right={
            label: share(preferred == called, called == d)
            for d, label in enumerate(part.labels)
            if (called == d).any()
        },
    )


def _kl(problem: Problem, own: list[list[int]], other: list[list[int]]) -> float:
    """KL(own || other), averaged over all positions of a sentence, then over the sentences."""
    model, count = problem.model, len(own)
    tree = PrefixTree.build([*own, *other])
    states = model.states(model.prepare(tree))[:, 0]
    pairs: list[tuple[int, int]] = []
    lengths: list[int] = []
    for i, (a, b) in enumerate(zip(own, other, strict=True)):
        same = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        # Positions are compared from the end: the two forms of the cue may have different numbers of tokens. The last
        # positions always differ, also if one form continues the other ("did", "did n't").
        steps = max(1, min(len(a), len(b)) - same)
        paths = [tree.live_row[tree.path(int(tree.leaf[k]))][-steps:] for k in (i, count + i)]
        pairs += list(zip(*(path.tolist() for path in paths), strict=True))
        lengths += [len(a) + 1] * steps
    distinct, back = np.unique(np.array(pairs), axis=0, return_inverse=True)
    each = [
        divergence(model.readout(states[a]), model.readout(states[b])[:, None])[:, 0].cpu()
        for a, b in (chunk.unbind(1) for chunk in torch.as_tensor(distinct, device=model.device).split(_ROWS))
    ]
    return float((torch.cat(each).numpy()[back.ravel()] / np.array(lengths)).sum() / count)
