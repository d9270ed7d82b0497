"""Shares with 95% intervals that are valid for clustered pairs, near 0% and 100%, and for few clusters.

Pairs with the same prefix share a state and flip together, so the clusters are prefixes. The interval is that of
Wilson, at 0% and 100% the exact one, for the effective number of pairs instead of the actual number, as Korn and
Graubard (1998) propose for shares in surveys. A bootstrap cannot be used here: if every pair flips, every resample
does, and its interval is 100-100% even for a single pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pivotal.records.evidence import Share

_TAIL, _Z = 0.025, 1.959964
_TRUSTED = 2
"""The number of clusters with the rarer outcome for which the estimated variance counts as much as the worst case."""


def share_of(hits: np.ndarray, clusters: np.ndarray, of: np.ndarray | None = None) -> Share:
    """The share of hits with its 95% interval. `clusters` names the cluster of each pair. `of` restricts both."""
    if of is not None:
        hits, clusters = hits[of], clusters[of]
    n = len(hits)
    if not n:
        return Share(math.nan, 0.0, 1.0, 0)
    value = float(np.mean(hits))
    low, high = interval(value, effective_number(hits, clusters))
    return Share(value, low, high, n)


def shares_of(clusters: np.ndarray) -> Callable[..., Share]:
    """`share_of` for pairs of these clusters."""
    return lambda hits, of=None: share_of(hits, clusters, of)


def effective_number(hits: np.ndarray, clusters: np.ndarray) -> float:
    """The number of independent pairs that would determine the share as well as these clustered pairs do.

    It is p (1 - p) / v, where v is the cluster-robust variance of p, and it is reduced further if v is estimated from
    few clusters. At 0% and at 100% v says nothing. Then pairs of one cluster count as equal, which is the worst case:
    the effective number is that of the clusters. Where only a few clusters have the rarer outcome, v says little, and
    the effective number lies between the two.
    """
    _, of = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(of).astype(float)
    n, count = len(hits), len(sizes)
    if count < 2:
        return 1.0
    worst = float(n**2 / np.square(sizes).sum())
    hit = np.bincount(of, np.asarray(hits, dtype=float))
    p = float(hit.sum() / n)
    variance = float(count / (count - 1) * np.square(hit - p * sizes).sum() / n**2)
    if variance == 0:
        return worst
    few = (student_quantile(n - 1) / student_quantile(count - 1)) ** 2
    estimated = min(float(n), few * p * (1 - p) / variance)
    rare = int(((hit if p < 0.5 else sizes - hit) > 0).sum())
    known = rare / (rare + _TRUSTED)
    return max(1.0, min(estimated, 1 / (known / estimated + (1 - known) / worst)))


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
