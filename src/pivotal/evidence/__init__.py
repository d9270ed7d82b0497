"""What may be said of an intervention: scores on held-out pairs, controls, traces, certificates."""

CONTROLS = 19
"""Random sets that the best run is compared with by default: the fewest for which p can be 0.05."""
