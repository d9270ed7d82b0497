"""A question prepared for a model: the tree of prefixes, the masked run and the loss."""
