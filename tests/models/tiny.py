"""Tiny models of transformers with random weights, and a tokenizer of a few words: nothing is downloaded."""

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.interventions import intervention_of

from pivotal import Intervention
from pivotal.models import LanguageModel, TransformersLM
from pivotal.questions import MinimalPair, PairSet
from pivotal.units import Steps

WORDS = ["The", "Some", "doctor", "doctors", "car", "cars", "near", "behind", "quickly", "runs", "run"]
PREFIXES = [
    "The doctor near The", "The doctor near cars quickly", "The doctors", "Some cars behind",
    "The doctor near",
]  # fmt: skip
VOCABULARY = 24
SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def tokenizer(*, bos: bool = False) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, **{word: i for i, word in enumerate(WORDS, start=3)}}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if bos:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


PIECES = ["The", "Some", "doctor", "near", "walk", "jump", "run", "is", "##s", "##ed", "##ning", ".", ","]


def pieces() -> Any:
    """A tokenizer that divides words: walk|s, run|ning|s."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {piece: i for i, piece in enumerate(["<unk>", "<s>", "</s>", *PIECES])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


def _usual(**more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
    sizes |= {"vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0}
    return {**sizes, "initializer_range": 0.4, "bos_token_id": 1, "eos_token_id": 2, **more}


def _gpt2_like(**more: Any) -> dict[str, Any]:
    sizes = {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": VOCABULARY}
    return {**sizes, "initializer_range": 0.4, "bos_token_id": 1, "eos_token_id": 2, **more}


def _falcon(**more: Any) -> dict[str, Any]:
    return {name: value for name, value in _usual(**more).items() if name != "intermediate_size"}


_GROUPED = {"num_key_value_heads": 2}
_HEADS = {**_GROUPED, "head_dim": 6}
_PER_LAYER = {"hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": VOCABULARY}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", _gpt2_like()),
    # adds a causal order of its own to whatever mask it is given
    "gpt_neo": ("gpt_neo", _usual(attention_types=[[["global", "local", "global"], 1]], window_size=32)),
    "gptj": ("gptj", _gpt2_like(rotary_dim=4)),
    "llama": ("llama", _usual(**_GROUPED)),
    "qwen3": ("qwen3", _usual(**_HEADS)),
    "gemma2": ("gemma2", _usual(**_HEADS, sliding_window=32, final_logit_softcapping=3.0)),
    "gemma2, short window": ("gemma2", _usual(**_HEADS, sliding_window=3, final_logit_softcapping=3.0)),
    "gemma3": ("gemma3_text", _usual(**_HEADS, sliding_window=32)),
    # reads images too, so that the settings of its texts are a part of its configuration
    "gemma4": ("gemma4", {"text_config": _usual(**_HEADS, final_logit_softcapping=3.0, **_PER_LAYER)}),
    "mistral, short window": ("mistral", _usual(**_GROUPED, sliding_window=3)),
    "phi3": ("phi3", _usual(**_GROUPED)),
    "gpt_neox": ("gpt_neox", _usual()),
    "opt": ("opt", {**_falcon(), "ffn_dim": 24, "word_embed_proj_dim": 16, "init_std": 0.4}),
    "bloom": ("bloom", {**_gpt2_like(), "hidden_size": 16}),
    "falcon": ("falcon", _falcon()),
    "falcon, alibi": ("falcon", _falcon(alibi=True)),
    "cohere": ("cohere", _usual(**_GROUPED, logit_scale=0.25)),
    "granite": ("granite", _usual(**_GROUPED, logits_scaling=2.0)),
    "mixtral": ("mixtral", _usual(**_GROUPED, num_local_experts=4)),
    "mamba": ("mamba", _usual(state_size=4)),
    "mamba2": ("mamba2", {**_usual(state_size=4), "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    "rwkv": ("rwkv", _usual(attention_hidden_size=16, rescale_every=2)),
}  # fmt: skip
PACKED = {"gpt2", "gptj", "llama", "qwen3", "gemma2", "gemma3", "gemma4", "phi3", "gpt_neox", "opt", "falcon"}
PACKED |= {"cohere", "granite", "mixtral"}


def random_model(family: str, **changed: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, settings = FAMILIES[family]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**settings, **changed}))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # zero biases and unit scales would hide what is done with them
                parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


def save_tiny(folder: Path, family: str = "llama", *, bos: bool = False) -> Path:
    """A random model and its tokenizer in a folder, as transformers writes them."""
    random_model(family).save_pretrained(folder)
    tokenizer(bos=bos).save_pretrained(folder)
    return folder


def tiny_lm(family: str, *, bos: bool = False, **settings: Any) -> TransformersLM:
    return TransformersLM(family, random_model(family), tokenizer(bos=bos), **settings)


@cache
def shared_lm(family: str) -> TransformersLM:
    """A model that reads BOS, for tests that leave it as it is."""
    return tiny_lm(family, bos=True)


FEW = PairSet("few", ("a", "b"), tuple(MinimalPair(text, 1, ("runs", "run")) for text in PREFIXES))


def doctors(*middles: str, firsts: tuple[str, ...] = ("The",)) -> PairSet:
    """Pairs that ask for the verb of each noun, at once and after each of the middles."""
    nouns = ("doctor", "doctors", "car", "cars")
    prefixes = [" ".join(filter(None, parts)) for parts in itertools.product(firsts, nouns, ("", *middles))]
    pairs = tuple(MinimalPair(prefix, 1, ("runs", "run")) for prefix in prefixes)
    return PairSet("pairs", ("singular", "plural"), pairs)


def drawn(model: LanguageModel, sites: str, steps: Steps = "every", seed: int = 0) -> Intervention:
    """A third of the units, set to large values, and not all of them in both directions."""
    space, rng = model.unit_space(sites), np.random.default_rng(seed)
    ids = sorted(rng.choice(len(space), min(40, len(space) // 3), replace=False).tolist())
    units = tuple(space.unit(i) for i in ids)
    values = rng.choice([-2.0, 2.0], (2, sum(unit.size for unit in units)))
    return intervention_of(model, units, values, steps, active=rng.random((2, len(ids))) < 0.8)
