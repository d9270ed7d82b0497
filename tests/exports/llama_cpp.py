"""Computes logits in llama.cpp, with the arguments of its own command line.

    PYTHON llama_cpp.py CASES.json OUT.npz

It imports nothing of pivotal: the interpreter belongs to an environment with xllamacpp, a package with llama.cpp in one
shared library. A case has arguments of llama.cpp, such as ["--model", FILE, "--control-vector", FILE], and rows of
token ids. The logits after each row are an array per case, arr_0, arr_1 …

The bindings of xllamacpp have no control vectors, so the functions of the library are called directly: llama.cpp itself
parses the arguments, reads the files and adds the vectors.
"""

import ctypes
import json
import sys
from typing import Any

import numpy as np
import xllamacpp

LIBRARY = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
QUIET = ("--no-warmup", "--threads", "1", "--ctx-size", "256", "--verbosity", "1")
COMPLETION = 4
"""LLAMA_EXAMPLE_COMPLETION: the options of the program llama-completion."""


class InMemory(ctypes.Structure):
    """Room for an object that C++ passes and returns in memory. No function here needs its fields."""

    _fields_ = (("first", ctypes.c_void_p), ("more", ctypes.c_char * 120))


def function(name: str, result: type | None, *arguments: type) -> Any:
    found = LIBRARY[name]
    found.restype, found.argtypes = result, arguments
    return found


POINTER, INT = ctypes.c_void_p, ctypes.c_int
log_by_verbosity = function("_Z11common_initv", None)
parse = function(
    "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E",
    ctypes.c_bool, INT, ctypes.POINTER(ctypes.c_char_p), POINTER, INT, POINTER,
)  # fmt: skip
start = function("_Z23common_init_from_paramsR13common_paramsb", InMemory, POINTER, ctypes.c_bool)
context_of = function("_ZN18common_init_result7contextEv", POINTER, POINTER)
batch_of = function("llama_batch_get_one", InMemory, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32)
decode = function("llama_decode", ctypes.c_int32, POINTER, InMemory)
logits_of = function("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), POINTER, ctypes.c_int32)
memory_of = function("llama_get_memory", POINTER, POINTER)
clear = function("llama_memory_clear", None, POINTER, ctypes.c_bool)
model_of = function("llama_get_model", POINTER, POINTER)
vocabulary_of = function("llama_model_get_vocab", POINTER, POINTER)
size_of = function("llama_vocab_n_tokens", ctypes.c_int32, POINTER)


def logits(arguments: list[str], rows: list[list[int]]) -> np.ndarray:
    """The logits after each row, which is read on its own."""
    params = xllamacpp.CommonParams()
    # The object of C++ follows the header of the Python object.
    at = id(params) + object.__basicsize__
    words = ["llama-completion", *QUIET, *arguments]
    argv = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    if not parse(len(words), argv, at, COMPLETION, None):
        raise SystemExit(f"llama.cpp refuses these arguments: {words[1:]}")
    assert params.n_ctx == 256, "llama.cpp wrote its settings elsewhere"
    context = context_of(start(at, False).first)
    if not context:
        raise SystemExit(f"llama.cpp cannot load the model: {arguments}")
    size = size_of(vocabulary_of(model_of(context)))
    found = []
    for row in rows:
        clear(memory_of(context), True)
        tokens = (ctypes.c_int32 * len(row))(*row)  # the batch points to them
        if decode(context, batch_of(tokens, len(row))):
            raise SystemExit(f"llama.cpp cannot read {row}.")
        found.append(np.ctypeslib.as_array(logits_of(context, -1), (size,)).copy())
    return np.stack(found)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    log_by_verbosity()
    np.savez(sys.argv[2], *(logits(case["arguments"], case["rows"]) for case in cases))


if __name__ == "__main__":
    main()
