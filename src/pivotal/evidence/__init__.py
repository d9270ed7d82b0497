"""Evidence about an intervention: scores on held-out pairs, controls, traces and certificates."""

CONTROLS = 19
"""Default number of random sets that the best run is compared with. It is the smallest for which p can be 0.05."""

MOST_CONTROLS = 10_000
"""The most random sets. Each needs values of its own, which are learned."""
