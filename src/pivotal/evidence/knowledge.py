"""What the untouched model knows of a question, before any search."""

from __future__ import annotations

import numpy as np
import torch

from pivotal.evidence.intervals import shares_of
from pivotal.evidence.verdict import HALF, LEAST_MASS, LEAST_PREFIXES, labels_ignore_cue
from pivotal.problem.problem import Problem
from pivotal.questions.cue_labels import contradicted, cue_tells
from pivotal.records.knowledge import Knowledge, LabelKnowledge
from pivotal.records.share import Share

PREFIXES = 256
"""The most prefixes on which probability and rank of the words are measured. They need the whole vocabulary."""
_CLEARLY_KNOWN = 0.75
"""An accuracy above it whose interval reaches down to one half says that there are too few pairs."""
ONE_SIDED = 0.95
"""A larger share of pairs in which the model prefers the same label is one-sided."""
_ROWS = 256
"""The most rows of the vocabulary-wide softmax in memory."""


def knowledge_of(problem: Problem, prefixes: int = PREFIXES) -> Knowledge:
    """The preferences of the untouched model on the pairs of a problem. Pairs that cannot be exchanged count too: they
    are mostly those that the model gets wrong. Probability and rank of the words come from `prefixes` prefixes."""
    problem = problem.whole
    labels = [pair.label for pair in problem.pairs]
    preferred = 1 - problem.direction
    expected = np.array([problem.labels.index(label) if label else -1 for label in labels])
    right = expected == preferred
    groups = np.array([pair.group for pair in problem.pairs])
    share = shares_of(problem.prefix_ids)

    def accuracy(of: np.ndarray) -> Share | None:
        return share(right, of) if of.any() else None

    by_group = {group: accuracy((groups == group) & (expected >= 0)) for group in problem.pairs.groups}
    mass, rank = _mass_and_rank(problem, prefixes)
    return Knowledge(
        pairs=len(problem),
        clusters=len({pair.prefix for pair in problem.pairs}),
        labelled=int((expected >= 0).sum()),
        accuracy=accuracy(expected >= 0),
        by_label={
            label: LabelKnowledge(
                pairs=int((expected == i).sum()),
                accuracy=accuracy(expected == i),
                preferred=int((preferred == i).sum()),
                prefixes=len(np.unique(problem.tree.leaf[preferred == i])),
            )
            for i, label in enumerate(problem.labels)
        },
        by_group={group: found for group, found in by_group.items() if found is not None},
        one_sided=max(float((preferred == i).mean()) for i in range(2)),
        mass=mass,
        rank=rank,
        cue_tells=cue_tells(problem.pairs),
        contradicted=contradicted(problem.pairs),
    )


def warnings_of(knowledge: Knowledge) -> tuple[str, ...]:
    """What speaks against asking the question, by the rules of the verdict."""
    said = []
    labels = knowledge.by_label
    for label, part in labels.items():
        if part.accuracy is not None and part.accuracy.low <= HALF:
            share = f"if {label} is right, it prefers it in {part.accuracy.value:.1%} of {part.pairs:,} pairs"
            said.append(
                f"The model does not know the answer: {share}, which may be chance."
                if part.accuracy.value <= _CLEARLY_KNOWN
                else f"Too few pairs to tell whether the model knows the answer: {share}."
            )
    if labels_ignore_cue(knowledge):
        said.append(
            "The cue does not decide which word is right: cue words occur with both labels about as often as with "
            "random labels."
        )
    if knowledge.contradicted:
        said.append(
            f"The prefix does not decide which word is right: after {knowledge.contradicted:,} of "
            f"{knowledge.clusters:,} prefixes, pairs with the same words expect both labels."
        )
    expected = [label for label, part in labels.items() if part.pairs]
    if len(expected) == 1:
        said.append(f"All pairs expect {expected[0]}: there is one direction only.")
    for label, prefixes in knowledge.prefixes_towards.items():
        if prefixes < LEAST_PREFIXES:
            said.append(
                f"Only {prefixes} {'prefix' if prefixes == 1 else 'prefixes'} can be flipped to {label}; a verdict "
                f"needs {LEAST_PREFIXES}."
            )
    if knowledge.one_sided > ONE_SIDED:
        most = max(labels, key=lambda label: labels[label].preferred)
        said.append(f"The model prefers {most} in {knowledge.one_sided:.1%} of the pairs, whatever is right.")
    if knowledge.mass < LEAST_MASS:
        said.append(
            "The model expects none of the words: together they have a median probability of "
            f"{knowledge.mass:.1g}."
        )
    return tuple(said)


@torch.no_grad()
def _mass_and_rank(problem: Problem, prefixes: int) -> tuple[float, float]:
    """The medians, over the pairs of a sample of the prefixes, of the probability of the words of both labels and of
    the rank of the more likely label's words."""
    part = problem.sample(prefixes)
    model, states = part.model, part.clean_states
    first, second = (side[0] for side in part.examples.index(model.device).read(model, states[:, None]))
    both, better = torch.logaddexp(first, second), torch.maximum(first, second)
    leaves, of = np.unique(part.tree.live_row[part.tree.leaf], return_inverse=True)
    mass, rank = torch.empty(len(part)), torch.empty(len(part))
    for start in range(0, len(leaves), _ROWS):
        rows = torch.as_tensor(leaves[start : start + _ROWS], device=states.device)
        logits = model.readout(states[rows])
        inside = np.flatnonzero((of >= start) & (of < start + _ROWS))
        for some in torch.as_tensor(inside).split(_ROWS):
            here = logits[torch.as_tensor(of[some.numpy()] - start, device=states.device)]
            on_device = some.to(states.device)
            mass[some] = (both[on_device] - here.logsumexp(-1)).exp().float().cpu()
            rank[some] = 1 + (here > better[on_device, None]).sum(-1).float().cpu()
    return float(mass.median()), float(rank.median())
