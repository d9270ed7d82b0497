"""What the untouched model knows about the pairs of a problem. It needs no search."""

from __future__ import annotations

import numpy as np

from pivotal.evidence.evaluation import Bootstrap
from pivotal.problem.problem import Problem
from pivotal.records.knowledge import Knowledge

_PREFIXES = 512
"""The distinct prefixes on which the probability of the words is measured."""


def knowledge_of(problem: Problem) -> Knowledge:
    """Accuracy by label, balance of the two directions, and probability of the words."""
    share, labels = Bootstrap(problem), problem.labels
    preferred = 1 - problem.direction
    label = np.array([labels.index(pair.label) if pair.label else -1 for pair in problem.pairs])
    right = preferred == label
    to = [problem.direction == d for d in range(len(labels))]
    return Knowledge(
        pairs=len(problem),
        prefixes=len(np.unique(problem.tree.leaf)),
        accuracy=share(right, label >= 0) if (label >= 0).any() else None,
        by_label={name: share(right, label == d) for d, name in enumerate(labels) if (label == d).any()},
        directions={name: int(of.sum()) for name, of in zip(labels, to, strict=True)},
        prefixes_towards={
            name: len(np.unique(problem.tree.leaf[of])) for name, of in zip(labels, to, strict=True)
        },
        one_sided=max(float(of.mean()) for of in to),
        mass=float(np.median(problem.sample(_PREFIXES).word_mass())),
    )
