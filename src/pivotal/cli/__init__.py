"""The command line: one file per verb. The verbs import heavy modules only when they run, so that `--help` is fast."""
