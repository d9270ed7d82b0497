"""The live page: a server on this machine that asks the model of a run about any sentence and any units."""
