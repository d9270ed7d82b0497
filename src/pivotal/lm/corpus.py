"""Text as word ids: files are read in blocks, and encoded on all processors with the words of a vocabulary.

Worker processes import this module: no torch here.
"""

from __future__ import annotations

import gzip
import lzma
import multiprocessing
import os
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from io import BufferedIOBase
from itertools import islice, repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pivotal.errors import PivotalError
from pivotal.files import check_plain
from pivotal.questions.words import EOS, UNK, read_words

T = TypeVar("T")

BLOCK = 8 * 2**20
"""Bytes of text in a block: large enough to keep a worker busy, small enough to divide a file among workers."""

_VOCABULARY: dict[str, int] = {}
"""The ids of the words, in a worker process."""


# -- files ----------------------------------------------------------------------------------------------------------


def blocks(path: Path) -> Iterator[bytes]:
    """The text of a file, plain or compressed, in blocks of whole lines with about `BLOCK` bytes."""
    rest = b""
    damage: tuple[type[Exception], ...] = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)
    if path.suffix == ".zst":
        damage += (_zstd(path).ZstdError,)
    try:
        with _open(path) as file:
            # In eighths: a decompressor needs several times the memory of what it returns.
            while piece := b"".join(islice(iter(lambda: file.read(BLOCK // 8), b""), 8)):
                if b"\0" in piece:
                    raise PivotalError(
                        f"A corpus is text, but {path} holds NUL bytes. Compressed files must end in .gz, .xz or .zst."
                    )
                lines, newline, end = piece.rpartition(b"\n")
                if newline:
                    yield b"".join((rest, lines, newline))
                    rest = b""
                if len(rest) + len(end) > BLOCK:
                    raise PivotalError(
                        f"A corpus has a sentence per line, but {path} has a line of over {BLOCK:,} bytes. Divide it."
                    )
                rest += end
            if rest:
                yield rest + b"\n"
    except FileNotFoundError:
        raise PivotalError(f"There is no corpus file {path}.") from None
    except damage as error:
        raise PivotalError(
            f"{path} must be a complete compressed file, but it is damaged or truncated ({error}). Copy it again."
        ) from None
    except OSError as error:
        raise PivotalError(f"{path} cannot be read ({error.strerror or error}).") from None


def text_of(block: bytes, source: str | Path) -> str:
    try:
        return block.decode("utf-8-sig")  # some editors begin a text with a byte order mark
    except UnicodeDecodeError as error:
        raise PivotalError(
            f"{source} is not UTF-8 text (byte {error.object[error.start]:#04x}). Convert it, e.g. with iconv."
        ) from None


def _open(path: Path) -> BufferedIOBase:
    check_plain(path, pipes=True)
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return _zstd(path).open(path, "rb") if path.suffix == ".zst" else path.open("rb")


def _zstd(path: Path) -> Any:
    """Part of Python from 3.14 on, before that a package."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return zstd
    except ImportError:
        raise PivotalError(
            f"Reading {path} needs Python 3.14, or pip install 'pivotal[zst]'. Or decompress it with `unzstd`."
        ) from None


# -- words ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorpusVocabulary:
    """The words of a model, in the order of their ids. Contains `<unk>`, which replaces unknown words, and `<eos>`,
    which ends a sentence and precedes the first."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        missing = [word for word in (UNK, EOS) if word not in self.ids]
        if missing:
            listed = f"{missing[0]} is missing" if len(missing) == 1 else "both are missing"
            raise PivotalError(f"A vocabulary needs {UNK} and {EOS}, but {listed}. Add a line for each.")
        if len(self.ids) < len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise PivotalError(f"A vocabulary has each word once, but {twice!r} occurs twice. Remove one.")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @staticmethod
    def most_frequent(counts: Mapping[str, int], size: int) -> CorpusVocabulary:
        """`<unk>`, `<eos>` and the most frequent words. Ties are broken alphabetically."""
        ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        words = [word for word, _ in ordered if word not in (UNK, EOS)]
        return CorpusVocabulary((UNK, EOS, *words[: size - 2]))

    @staticmethod
    def read(path: Path) -> CorpusVocabulary:
        """Read a file with one word per line."""
        words = read_words(path)
        for number, line in enumerate(words, start=1):
            if line.split() != [line]:
                raise PivotalError(f"A vocabulary has a word per line; line {number} of {path} is {line!r}.")
        try:
            return CorpusVocabulary(tuple(words))
        except PivotalError as error:
            raise PivotalError(f"{path}: {error}") from None


def count_words(paths: Sequence[Path], progress: Callable[[int], None] | None = None) -> Counter[str]:
    """How often each word occurs. `progress` receives the number of tokens read so far."""
    counts: Counter[str] = Counter()
    for part in _over_blocks(paths, _count, {}):
        counts.update(part)
        if progress is not None:
            progress(counts.total())
    return counts


def encode(
    paths: Sequence[Path], vocabulary: CorpusVocabulary, progress: Callable[[int], None] | None = None
) -> np.ndarray:
    """The ids of all sentences in sequence, each followed by `<eos>`. Empty lines are skipped."""
    parts = [np.zeros(0, np.int32)]
    for part in _over_blocks(paths, _encode, vocabulary.ids):
        parts.append(part)
        if progress is not None:
            progress(sum(map(len, parts)))
    ids = np.concatenate(parts)
    if not len(ids):
        listed = ", ".join(map(str, paths))
        raise PivotalError(f"A corpus needs sentences, one per line, but {listed} has none.")
    return ids


def ids_of(text: str, vocabulary: Mapping[str, int], unk: str) -> np.ndarray:
    """The ids of the words of a text, with one `<eos>` at the end of each line."""
    words = text.replace("\n", f" {EOS} ").split()
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
        raise PivotalError(f"Holding out {share:g} needs {every} sentences. Add text, or give --valid.")
    return ids[~held], ids[held]


def held_out_of(share: float) -> int:
    """One sentence in how many is held out."""
    return max(2, round(1 / share))


def _over_blocks(
    paths: Sequence[Path], work: Callable[[bytes, str], T], vocabulary: dict[str, int]
) -> Iterator[T]:
    """Apply `work` to every block, results in order. Starts worker processes unless the text is small."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(processors, 16)
    tasks = ((block, str(path)) for path in paths for block in blocks(path))
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


def _encode(block: bytes, source: str) -> np.ndarray:
    return ids_of(text_of(block, source), _VOCABULARY, UNK)
