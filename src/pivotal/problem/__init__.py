"""A question made ready for a model: the tree of prefixes, the masked run, the loss."""
