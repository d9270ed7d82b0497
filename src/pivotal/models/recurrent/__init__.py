"""Recurrent language models: LSTM, GRU and plain RNN."""

from pivotal.models.recurrent.folder import FolderSource

__all__ = ["FolderSource"]
