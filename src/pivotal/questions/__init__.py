"""Questions to a model: minimal pairs, their sources and their splits. This layer does not import torch."""

from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.readers.prompts import prompt_pairs

__all__ = ["MinimalPair", "PairSet", "prompt_pairs"]
