"""Causal language models of Hugging Face transformers, edited by hooks."""

from pivotal.models.transformers.source import TransformersSource

__all__ = ["TransformersSource"]
