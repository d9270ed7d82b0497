"""The vocabulary of word-level models: the two words that all have, and the file that lists the words."""

from __future__ import annotations

from pathlib import Path

from pivotal.files import read_text

UNK, EOS = "<unk>", "<eos>"


def read_words(path: Path) -> list[str]:
    """Read a vocabulary: one word per line, in the order of the ids."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
