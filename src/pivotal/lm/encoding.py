"""Convert text to word ids on all processors, a block of lines per task. Imported by worker processes: no torch."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pivotal.errors import PivotalError
from pivotal.lm.corpus import BLOCK, blocks, text_of
from pivotal.lm.vocabulary import Vocabulary
from pivotal.questions.words import EOS, UNK

T = TypeVar("T")
Told = Callable[[int], None]
"""Receives the number of tokens read so far."""

_VOCABULARY: dict[str, int] = {}
"""The ids of the words, in a worker process."""


def count_words(paths: Sequence[Path], told: Told | None = None) -> Counter[str]:
    counts: Counter[str] = Counter()
    tokens = 0
    for part in _over_blocks(paths, _count, {}):
        counts.update(part)
        tokens += sum(part.values())
        if told is not None:
            told(tokens)
    return counts


def encode(paths: Sequence[Path], vocabulary: Vocabulary, told: Told | None = None) -> np.ndarray:
    """The ids of all sentences in sequence, each followed by `<eos>`. Empty lines are skipped."""
    parts: list[np.ndarray] = []
    tokens = 0
    for part in _over_blocks(paths, _encode, vocabulary.ids):
        parts.append(part)
        tokens += len(part)
        if told is not None:
            told(tokens)
    if not tokens:
        raise PivotalError(
            f"A corpus needs sentences, one per line, but {', '.join(map(str, paths))} holds none."
        )
    return np.concatenate(parts)


def ids_of(lines: str, vocabulary: Mapping[str, int], unk: str) -> np.ndarray:
    """The ids of whole lines, each followed by one `<eos>`."""
    words = lines.replace("\n", f" {EOS} ").split()
    ids = np.fromiter(map(vocabulary.get, words, repeat(vocabulary[unk])), np.int32, len(words))
    # Drop an <eos> at the beginning or after another one: it comes from an empty line, or the text has its own.
    ends = ids == vocabulary[EOS]
    return ids[~(ends & np.concatenate([[True], ends[:-1]]))[: len(ids)]]


def hold_out(ids: np.ndarray, eos: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Split into training and validation: every n-th sentence is held out."""
    every = held_out_of(share)
    sentence = np.concatenate([[0], np.cumsum(ids[:-1] == eos)])
    held = sentence % every == every - 1
    if not held.any():
        raise PivotalError(
            f"Holding out a share of {share:g} for validation needs {every} sentences, but the corpus has "
            f"{int(sentence[-1]) + 1}. Give more text, a validation text, or a larger share."
        )
    return ids[~held], ids[held]


def held_out_of(share: float) -> int:
    """One sentence in how many is held out."""
    return max(2, round(1 / share))


def _over_blocks(
    paths: Sequence[Path], work: Callable[[bytes, str], T], vocabulary: dict[str, int]
) -> Iterator[T]:
    """Apply `work` to every block, results in order. Starts worker processes unless the text is small."""
    workers = min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 16
    )
    tasks: Iterable[tuple[bytes, str]] = ((block, str(path)) for path in paths for block in blocks(path))
    if workers == 1 or sum(path.stat().st_size for path in paths if path.is_file()) < BLOCK // 4:
        _begin(vocabulary)
        yield from (work(*task) for task in tasks)
        return
    # Forking is fast and needs no importable main module, but is only safe on Linux.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, context, _begin, (vocabulary,)) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(work, *task))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _begin(vocabulary: dict[str, int]) -> None:
    _VOCABULARY.clear()
    _VOCABULARY.update(vocabulary)


def _count(block: bytes, source: str) -> Counter[str]:
    return Counter(text_of(block, source).split())


def _encode(block: bytes, source: str) -> Any:
    return ids_of(text_of(block, source), _VOCABULARY, UNK)
