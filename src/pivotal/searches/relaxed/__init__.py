"""Searches that learn a distribution over masks by gradient descent."""
