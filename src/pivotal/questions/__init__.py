"""Questions to a model: minimal pairs, their sources and their splits. This layer does not import torch."""

from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet

__all__ = ["MinimalPair", "PairSet"]
