"""Reads the header of a GGUF file, for facts that the conversion loses. The gguf package needs half a minute for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

_NUMBERS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 2**24
"""The most bytes of a text. Templates of chats have thousands."""


def read_header(path: Path) -> dict[str, Any]:
    """The keys and values in the header of a file, without the values of arrays. ValueError if it claims a model that
    the file cannot hold: building it could take hours or fill the memory."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        _, tensors, count = struct.unpack("<IQQ", _read(file, 20))
        found = {}
        for _ in range(count):
            key = _value(file, _STRING)
            found[key] = _value(file, _number(file, "<I"))
    _check_sizes(found, tensors, path.stat().st_size)
    return found


def wants_bos(header: dict[str, Any], otherwise: bool) -> bool:
    """Whether the model reads BOS before a text. Where the header does not say it, llama.cpp reads BOS if the tokenizer
    is of SentencePiece (its kind "llama"). For other kinds the answer is then `otherwise`."""
    of_sentencepiece = header.get("tokenizer.ggml.model") == "llama"
    return bool(header.get("tokenizer.ggml.add_bos_token", of_sentencepiece or otherwise))


def _check_sizes(header: dict[str, Any], tensors: int, size: int) -> None:
    kind = header.get("general.architecture")
    layers, width, inner = (
        value if isinstance(value := header.get(f"{kind}.{name}"), int) else 0
        for name in ("block_count", "embedding_length", "feed_forward_length")
    )
    if layers > tensors:
        raise ValueError(f"it claims {layers} layers and has {tensors} tensors")
    if width * inner > 8 * size:  # a weight takes at least one bit
        raise ValueError(f"it claims matrices of {width} × {inner}, and it has {size:,} bytes")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _read(file, _number(file, "<Q")).decode("utf-8", "replace")
    if kind == _ARRAY:
        of, length = _number(file, "<I"), _number(file, "<Q")
        if of in _NUMBERS:
            file.seek(length * struct.calcsize(_NUMBERS[of]), 1)
        else:
            for _ in range(length):
                _value(file, of)
        return None
    if kind not in _NUMBERS:
        raise ValueError(f"it has a value of the unknown kind {kind}")
    return _number(file, _NUMBERS[kind])


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _read(file, struct.calcsize(form)))[0]


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(min(size, _LONGEST))  # a false length must not take memory
    if len(data) < size:
        raise ValueError(
            f"it has a text of {size} bytes" if len(data) == _LONGEST else "it ends inside its header"
        )
    return data
