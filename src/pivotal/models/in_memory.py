"""Models that are already in memory: a loaded Hugging Face model, or a recurrent torch module with its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import PurePath
from typing import Any

import torch
from torch import nn

from pivotal.errors import PivotalError
from pivotal.models.base import LanguageModel
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.transformers.lm import TransformersLM
from pivotal.models.vocabulary import in_order

_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)


def wrapped(
    module: nn.Module, tokenizer: Any, *, name: str | None, priming: str | None, **how: Any
) -> LanguageModel:
    """The language model of a module. `tokenizer` is a Hugging Face tokenizer, or for a recurrent module its words:
    a list in the order of their ids, or a mapping from words to ids. `how` are the device and the number format of a
    recurrent one."""
    module = getattr(module, "_orig_mod", module)  # code that torch.compile made does not run hooks
    if hasattr(module, "config") and hasattr(module, "get_input_embeddings"):
        return _transformer(module, tokenizer, name, priming)
    modules = _parts(module)
    embedding, recurrent, output = modules
    if None in modules:
        raise PivotalError(
            "A module in memory must be a causal Hugging Face model, or have one nn.Embedding, one nn.LSTM, nn.GRU "
            f"or nn.RNN and one nn.Linear, but this {type(module).__name__} is neither. Wrap it with "
            "pivotal.models.ModuleLM(name, module, words, sites), which takes any module that maps ids to logits."
        )
    own = {id(weight) for part in modules for weight in part.parameters()}
    if other := [name for name, weight in module.named_parameters() if id(weight) not in own]:
        raise PivotalError(
            "A recurrent module in memory is an embedding, a recurrent part and an output layer, and nothing else with "
            f"weights, but this {type(module).__name__} has {other[0]}. Wrap it with pivotal.models.ModuleLM."
        )
    words = _words(tokenizer, module)
    if (rows := embedding.num_embeddings) != len(words):
        raise PivotalError(f"The embedding has {rows:,} rows, but {len(words):,} words were given.")
    if not _is_its_parts(module):
        raise PivotalError(
            "A recurrent module in memory gives the logits that its embedding, its recurrent part and its output layer "
            f"give in turn, but the forward method of this {type(module).__name__} gives others: it does more, such as "
            "an activation between them. Wrap it with pivotal.models.ModuleLM(name, module, words, sites)."
        )
    start = priming if priming is not None else "<eos>" * ("<eos>" in words)
    called = name or type(module).__name__
    return RecurrentLM.from_modules(called, embedding, recurrent, output, words, priming=start, **how)


def _transformer(module: Any, tokenizer: Any, name: str | None, priming: str | None) -> LanguageModel:
    if not callable(tokenizer) or isinstance(tokenizer, type):
        raise PivotalError(
            "A Hugging Face model needs its tokenizer, but it came with "
            f"{'none' if tokenizer is None else repr(tokenizer)[:80]}. Give it after the model, as in find(model, "
            "tokenizer, question) and load_model(model, tokenizer): AutoTokenizer.from_pretrained of the same name."
        )
    called = name or PurePath(module.config.name_or_path).name or type(module).__name__
    return TransformersLM(called, module, tokenizer, priming=priming)


def _parts(module: nn.Module) -> list[Any]:
    return [_only(module, kinds) for kinds in (nn.Embedding, _RECURRENT, nn.Linear)]


@torch.no_grad()
def _is_its_parts(module: nn.Module) -> bool:
    """Whether the module gives the logits or probabilities of its parts one after another. True if it cannot be asked:
    its forward method may take more than ids."""
    try:
        copied = deepcopy(module).eval().float()
        embedding, recurrent, output = _parts(copied)
        ids = torch.arange(min(4, embedding.num_embeddings), device=embedding.weight.device)[None]
        # The module may turn the ids, so that its recurrent part has the steps first.
        parts = [
            output(recurrent(embedding(given))[0]).flatten(0, 1).log_softmax(-1) for given in (ids, ids.T)
        ]
        said = copied(ids)
        said = (said[0] if isinstance(said, tuple) else said).reshape(parts[0].shape)
    except Exception:
        return True
    forms = said.log_softmax(-1), said.log()  # the latter of probabilities
    return any(torch.allclose(form, part, atol=1e-3) for form in forms for part in parts)


def _only(module: nn.Module, kinds: type | tuple[type, ...]) -> Any:
    """The one module of that kind, or None. A decoder that is used twice counts once."""
    found = [part for part in module.modules() if isinstance(part, kinds)]
    return found[0] if len(found) == 1 else None


def _words(tokenizer: Any, module: nn.Module) -> Sequence[str]:
    if isinstance(tokenizer, Mapping):
        return in_order(tokenizer)
    listed = isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str)
    if listed and all(isinstance(word, str) for word in tokenizer):
        return tokenizer
    raise PivotalError(
        "A recurrent module needs its words, a list in the order of their ids or a mapping to ids, but "
        f"{type(module).__name__} came with {'none' if tokenizer is None else repr(tokenizer)[:80]}. Give them after "
        "the module, as in find(module, words, question) and load_model(module, words)."
    )
