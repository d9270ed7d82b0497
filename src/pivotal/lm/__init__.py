"""Recurrent language models: train, import and assess them."""
