"""Questions to a model: minimal pairs, their sources and their splits. This layer does not import torch."""
