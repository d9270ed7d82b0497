"""The command line: one file per verb. Heavy imports stay inside the verbs, so that help comes at once."""
