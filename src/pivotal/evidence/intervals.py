"""Shares and means with 95% intervals that are valid for clustered pairs, near 0% and 100%, and for few clusters.

Pairs with the same prefix share a state and flip together, and so may pairs with the same cue word or the same asked
words. These are the clusters. The interval is that of Wilson, at 0% and 100% the exact one, for the effective number of
pairs instead of the actual number, as Korn and Graubard (1998) propose for shares in surveys. A bootstrap cannot be
used here: if every pair flips, every resample does, and its interval is 100-100% even for a single pair.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.records.evidence import Share

_TAIL, _Z = 0.025, 1.959964
_SEVERAL = 8
"""The fewest cue words or asked words that are clusters."""
_TRUSTED = 2
"""The number of clusters with the rarer outcome for which the estimated variance counts as much as the worst case."""


def clusters_of(pairs: PairSet, *, asked: bool = True) -> np.ndarray:
    """The clusters of pairs, one row of numbers for each kind: prefixes, and cue words and asked words where there are
    several. A cue word and its other form are one. Fewer than eight are no sample of words: a result is then about
    these words. The asked words do not count where they are not `asked`, as where whole predictions are compared."""
    words = ("\t".join(pair.words) if asked else "" for pair in pairs)
    named = zip(
        *((pair.prefix, _cue_of(pair), both) for pair, both in zip(pairs, words, strict=True)), strict=True
    )
    prefixes, *others = (np.unique(names, return_inverse=True)[1] for names in named)
    return np.array([prefixes, *(kind for kind in others if len(np.unique(kind)) >= _SEVERAL)])


def _cue_of(pair: MinimalPair) -> str:
    if pair.cue is None:
        return ""
    forms = [text.lower().split(" ") for text in (pair.prefix, *pair.counterfactuals) if text]
    return min(words[pair.cue] for words in forms if pair.cue < len(words))


def share_of(hits: np.ndarray, clusters: np.ndarray, of: np.ndarray | None = None) -> Share:
    """The share of hits with its 95% interval. `clusters` numbers the cluster of each pair, in one row for each kind of
    cluster. `of` restricts both."""
    clusters = np.atleast_2d(clusters)
    if of is not None:
        hits, clusters = hits[of], clusters[:, of]
    n = len(hits)
    if not n:
        return Share(math.nan, 0.0, 1.0, 0)
    value = float(np.mean(hits))
    low, high = interval(value, effective_number(hits, clusters))
    return Share(value, low, high, n)


def change_of(changes: np.ndarray, clusters: np.ndarray) -> Share:
    """The mean change of pairs, each by -1, 0 or 1, with the interval of Agresti and Min (2005) for matched pairs: two
    pairs are added, half of one for each of the four outcomes. The number of pairs is the effective one."""
    n, value = len(changes), float(np.mean(changes))
    number = effective_number(changes, clusters)
    middle = number * value / (number + 2)
    moved = (number * float(np.mean(changes != 0)) + 1) / (number + 2)
    reach = _Z * math.sqrt((moved - middle**2) / (number + 2))
    return Share(value, max(-1.0, middle - reach), min(1.0, middle + reach), n)


def ratio_of(part: np.ndarray, whole: np.ndarray, clusters: np.ndarray) -> Share:
    """The ratio of two means, with the interval of a ratio."""
    ratio = float(part.sum() / whole.sum())
    variance = clustered_variance(part - ratio * whole, clusters) / float(whole.mean()) ** 2
    count = min(len(np.unique(kind)) for kind in np.atleast_2d(clusters))
    reach = student_quantile(max(1, count - 1)) * math.sqrt(variance)
    return Share(ratio, ratio - reach, ratio + reach, len(part))


def shares_of(pairs: PairSet) -> Callable[..., Share]:
    """`share_of` for these pairs."""
    clusters = clusters_of(pairs)
    return lambda hits, of=None: share_of(hits, clusters, of)


def effective_number(hits: np.ndarray, clusters: np.ndarray) -> float:
    """The number of independent pairs that would determine the share as well as these clustered pairs do.

    It is the variance of a pair, p (1 - p) for a share p, divided by v, the cluster-robust variance of the mean, and it
    is reduced further if v is estimated from few clusters. If all pairs have one outcome, v says nothing. Then pairs of
    one cluster count as equal, which is the worst case: the effective number is that of the clusters. Where only a few
    clusters have a rarer outcome, v says little, and the effective number lies between the two. Clusters of several
    kinds are crossed, and the kind with the fewest decides how far v is trusted.
    """
    n, off = len(hits), np.asarray(hits, dtype=float) - np.mean(hits)
    sizes = [np.bincount(np.unique(kind, return_inverse=True)[1]) for kind in np.atleast_2d(clusters)]
    count = min(map(len, sizes))
    if count < 2:
        return 1.0
    worst = min(float(n**2 / np.square(size).sum()) for size in sizes)
    variance = clustered_variance(off, clusters)
    if variance == 0:
        return worst
    few = (student_quantile(n - 1) / student_quantile(count - 1)) ** 2
    estimated = min(float(n), few * float(np.square(off).mean()) / variance)
    outcomes, counts = np.unique(hits, return_counts=True)
    rarer = hits != outcomes[counts.argmax()]
    rare = min(len(np.unique(kind[rarer])) for kind in np.atleast_2d(clusters))
    known = rare / (rare + _TRUSTED)
    return max(1.0, min(estimated, 1 / (known / estimated + (1 - known) / worst)))


def clustered_variance(off: np.ndarray, clusters: np.ndarray) -> float:
    """The cluster-robust variance of the mean of values whose differences from it are `off`. Clusters of several kinds
    are crossed as Cameron, Gelbach and Miller (2011) propose: what belongs to two kinds is counted once."""
    kinds, total, least = np.atleast_2d(clusters), 0.0, 0.0
    for many in range(1, len(kinds) + 1):
        for some in itertools.combinations(kinds, many):
            of = np.unique(np.array(some), axis=1, return_inverse=True)[1].ravel()
            count = int(of.max()) + 1
            one = count / max(1, count - 1) * float(np.square(np.bincount(of, off)).sum()) / len(off) ** 2
            total += one if many % 2 else -one
            least = max(least, one) if many == 1 else least
    return max(total, least)


def exact_low(hits: int, n: int, tail: float) -> float:
    """The lower end of the exact (Clopper-Pearson) interval of a share, which leaves `tail` below it."""
    if not hits:
        return 0.0
    low, high, most = 0.0, hits / n, math.lgamma(n + 1)
    for _ in range(40):
        p = (low + high) / 2
        logs = (  # the binomial coefficients themselves are too large for a float
            most - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
            for k in range(hits, n + 1)
        )
        above = math.fsum(map(math.exp, logs))
        low, high = (p, high) if above < tail else (low, p)
    return low


def interval(p: float, n: int | float) -> tuple[float, float]:
    """The Wilson interval of a share p of n independent pairs; at 0% and 100% the exact (Clopper-Pearson) one."""
    if p in (0.0, 1.0):
        reach = 1 - _TAIL ** (1 / n)
        return (0.0, reach) if p == 0 else (1 - reach, 1.0)
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    reach = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def student_quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t, by its expansion; exact for one and two degrees of freedom."""
    if freedom == 1:
        return math.tan(math.pi * (0.5 - _TAIL))
    if freedom == 2:
        return (1 - 2 * _TAIL) / math.sqrt(2 * _TAIL * (1 - _TAIL))
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / freedom + second / freedom**2 + third / freedom**3
