"""From files to word ids: every format gives the same text, every damage a sentence."""

import gzip
import lzma
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pivotal import PivotalError
from pivotal.files import read_text
from pivotal.lm import corpus as reading
from pivotal.lm.corpus import CorpusVocabulary, blocks, count_words, encode, hold_out
from pivotal.questions.words import EOS, UNK

WORDS = CorpusVocabulary((UNK, EOS, "the", "cat", "sleeps"))


def zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data)


def written(path: Path, text: str) -> Path:
    packed: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}
    path.write_bytes(packed.get(path.suffix, bytes)(text.encode()))
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.txt.xz", "a.zst"])
def test_every_format_gives_the_same_blocks_of_whole_lines(tmp_path, sentences, name, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 1000)
    text = "\n".join(sentences[:200])
    found = list(blocks(written(tmp_path / name, text)))
    assert len(found) > 5 and all(block.endswith(b"\n") for block in found)
    assert b"".join(found).decode() == text + "\n"


def test_frames_of_zstandard_follow_each_other(tmp_path, sentences):
    """As `pzstd` and `cat a.zst b.zst` write them."""
    path, text = tmp_path / "a.zst", "\n".join(sentences)
    path.write_bytes(b"".join(zstd(part.encode()) for part in (text[:5000], "", text[5000:])))
    assert b"".join(blocks(path)).decode() == text + "\n"


def test_without_zstandard_the_cure_is_told(tmp_path, monkeypatch):
    for package in ("compression", "backports"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PivotalError, match=r"pip install 'pivotal\[zst\]'"):
        list(blocks(tmp_path / "a.zst"))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_a_file_cut_off_is_refused(tmp_path, sentences, suffix):
    path = written(tmp_path / f"a{suffix}", "\n".join(sentences[:500]))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PivotalError, match="damaged or truncated"):
        encode([path], WORDS)
    path.write_bytes(b"this was never compressed\n")
    with pytest.raises(PivotalError, match="damaged or truncated"):
        encode([path], WORDS)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"the cat\0sleeps\n", "NUL bytes"), (b"the \xff cat\n", "UTF-8"), (b"\n  \n\t\n", "has none")],
)
def test_what_is_no_text_is_refused(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(PivotalError, match=message):
        encode([path], WORDS)


def test_a_sentence_ends_in_eos_once_and_a_byte_order_mark_is_no_part_of_it(tmp_path):
    path = written(tmp_path / "a.txt", "\ufeffthe cat\n\n  \nsleeps dog <eos>\r\nthe")
    assert encode([path], WORDS).tolist() == [2, 3, 1, 4, 0, 1, 2, 1]


def test_processes_agree(tmp_path, sentences, monkeypatch):
    """Enough text for a pool, in blocks small enough that every worker gets some."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(reading, "BLOCK", 2**16)
    paths = [written(tmp_path / f"{i}.txt", "\n".join(sentences[i::2])) for i in (0, 1)]
    assert sum(path.stat().st_size for path in paths) > 3 * 2**16
    told: list[int] = []
    counts = count_words(paths, told.append)
    expected = Counter(word for i in (0, 1) for text in sentences[i::2] for word in text.split())
    assert counts == expected and told[-1] == sum(expected.values())
    words = CorpusVocabulary.most_frequent(counts, 50)
    texts = [text for i in (0, 1) for text in sentences[i::2]]
    assert encode(paths, words).tolist() == [
        words.ids.get(w, 0) for text in texts for w in [*text.split(), EOS]
    ]


def test_every_nth_sentence_is_held_out():
    ids = np.array([5, 1, 6, 7, 1, 8, 1, 9, 1, 5, 5, 1, 6, 1], dtype=np.int32)
    train, held = hold_out(ids, 1, 1 / 3)
    assert held.tolist() == [8, 1, 6, 1]
    assert train.tolist() == [5, 1, 6, 7, 1, 9, 1, 5, 5, 1]
    with pytest.raises(PivotalError, match="needs 50 sentences"):
        hold_out(ids, 1, 0.02)


def test_the_most_frequent_words_are_kept_in_one_order():
    counts = {"b": 3, "a": 3, "rare": 1, "the": 9, UNK: 100}
    assert CorpusVocabulary.most_frequent(counts, 5).words == (UNK, EOS, "the", "a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<eos>\nthe\n", "<unk> is missing"),
        ("<unk>\n<eos>\nthe\nthe\n", "'the' occurs twice"),
        ("<unk>\n<eos>\n\nthe\n", "line 3"),
    ],
)
def test_a_vocabulary_that_will_not_do(tmp_path, text, message):
    path = written(tmp_path / "vocab.txt", text)
    with pytest.raises(PivotalError, match=message):
        CorpusVocabulary.read(path)


@pytest.mark.parametrize(
    ("name", "piece", "times", "message", "most"),
    [
        ("words.txt.xz", lzma.compress(b"a " * 2**22), 75, "a line of over", 36),
        ("zeros.jsonl.gz", gzip.compress(bytes(2**24)), 192, "128 MiB of text at most", 400),
    ],
)
def test_a_small_file_of_gigabytes_is_refused_before_it_fills_the_memory(
    tmp_path, name, piece, times, message, most
):
    """600 MB of words in one line, and 3 GB of zeros. `most` is in MiB."""
    (tmp_path / name).write_bytes(piece * times)
    read = {".xz": lambda path: list(blocks(path)), ".gz": read_text}
    tracemalloc.start()
    with pytest.raises(PivotalError, match=message):
        read[Path(name).suffix](tmp_path / name)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < most * 2**20, used
