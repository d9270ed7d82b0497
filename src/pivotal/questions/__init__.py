"""Questions to a model: minimal pairs, their sources and their splits. This room does not import torch."""
