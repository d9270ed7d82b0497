"""What may be said of an intervention: scores on held-out pairs, controls, traces, certificates."""
