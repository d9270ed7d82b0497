"""Causal language models of Hugging Face transformers, run by hooks."""

from pivotal.models.transformers.source import TransformersSource

__all__ = ["TransformersSource"]
