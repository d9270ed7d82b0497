"""What a token of an edited continuation costs beside hooks written by hand, in one process.

    python benchmarks/generation.py [--model smollm2-135m] [--tokens 40] [--repeat 7]

A model of transformers: hooks by hand and transformers' own `generate`, against `attached` with the same `generate`,
and against the `generate` of `intervened`. A recurrent model: a plain loop of `nn.LSTMCell` that sets the units after
each step, against the `generate` of `intervened`. All take the most likely token. They take turns, and CPU seconds of
one thread are compared, so that a busy machine disturbs all of them alike. Tokens must be the same. The last line reads
each text from its beginning after every token, as models without a state of their own must.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch

import pivotal
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.transformers.lm import TransformersLM

PROMPT = "The doctors near the car"
Texts = Callable[[], list[list[int]]]


def some_units(model: pivotal.models.LanguageModel, sites: str, many: int) -> pivotal.Intervention:
    """Units at random, with values that change the text but do not break it."""
    space, rng = model.unit_space(sites), np.random.default_rng(0)
    ids = sorted(rng.choice(len(space), many, replace=False).tolist())
    return pivotal.Intervention(
        units=tuple(space.unit(i) for i in ids),
        directions=("singular", "plural"),
        values=rng.choice([-0.8, 0.8], (2, many)),
        steps="every",
        model=model.name,
        model_fingerprint=model.fingerprint(),
        phenomenon="none",
        data_fingerprint="none",
    )


def of_transformers(model: TransformersLM, tokens: int, texts: int) -> dict[str, Texts]:
    found = some_units(model, "mlp", 12)
    edited = model.intervened(found, "plural")
    # The module and the projections are what a user of transformers has in hand.
    net, taps = model.network, {tap.site.name: tap.module for tap in model._taps}
    ids = torch.tensor([model.encode(PROMPT).ids] * texts)
    settings = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
    hushed = [token for token in model.vocabulary.unspeakable() if token < model.vocabulary_size]

    def generate(net: Any) -> list[list[int]]:
        out = net.generate(ids, attention_mask=torch.ones_like(ids), suppress_tokens=hushed, **settings)
        return out[:, ids.shape[1] :].tolist()

    def by_hand() -> list[list[int]]:
        with ExitStack() as stack:
            for site in dict.fromkeys(unit.site for unit in found.units):
                at = [unit.index for unit in found.units if unit.site == site]
                values = torch.tensor(
                    [found.values[1, i] for i, u in enumerate(found.units) if u.site == site]
                )

                def change(_: Any, args: Any, at: list[int] = at, values: torch.Tensor = values) -> Any:
                    h = args[0].clone()
                    h[..., at] = values
                    return (h, *args[1:])

                stack.callback(taps[site].register_forward_pre_hook(change).remove)
            return generate(net)

    def by_attached() -> list[list[int]]:
        with edited.attached() as net:
            return generate(net)

    def by_us() -> list[list[int]]:
        return read_back(model, edited, tokens, texts)

    again = read_again(model, by_us)
    return {"hooks by hand": by_hand, "attached": by_attached, "intervened": by_us, "without a cache": again}


def of_recurrent(model: RecurrentLM, tokens: int, texts: int) -> dict[str, Texts]:
    found = some_units(model, "all", 6)
    edited = model.intervened(found, "plural")
    _, weights = model._source or ("", {})
    layers, hidden = len(model.sites), model.hidden
    cells = [torch.nn.LSTMCell(hidden, hidden) for _ in range(layers)]
    for i, cell in enumerate(cells):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(cell, name).data = weights[f"rnn.{name}_l{i}"]
    at = [[u.index for u in found.units if u.site == f"hidden.{i}"] for i in range(layers)]
    values = [
        torch.tensor(
            [float(found.values[1, j]) for j, u in enumerate(found.units) if u.site == f"hidden.{i}"]
        )
        for i in range(layers)
    ]
    bias = weights["decoder.bias"].clone()
    bias[model.vocabulary.unspeakable()] = -torch.inf

    @torch.no_grad()
    def by_hand() -> list[list[int]]:
        state = [(torch.zeros(texts, hidden), torch.zeros(texts, hidden)) for _ in cells]
        first = [*model.encode(model.priming).ids, *model.encode(PROMPT).ids]
        primed, out = len(model.encode(model.priming).ids), []
        for step in range(len(first) + tokens - 1):
            token = torch.full((texts,), first[step]) if step < len(first) else out[-1]
            h = weights["encoder.weight"][token]
            for i, cell in enumerate(cells):
                h, c = cell(h, state[i])
                if step >= primed:
                    h[:, at[i]] = values[i]
                state[i] = (h, c)
            if step >= len(first) - 1:
                out.append(torch.nn.functional.linear(h, weights["decoder.weight"], bias).argmax(-1))
        return torch.stack(out, 1).tolist()

    def by_us() -> list[list[int]]:
        return read_back(model, edited, tokens, texts)

    return {"loop by hand": by_hand, "intervened": by_us, "without a state": read_again(model, by_us)}


def read_again(model: pivotal.models.LanguageModel, generate: Texts) -> Texts:
    """The same, if each text is read from its beginning after every token."""

    def run() -> list[list[int]]:
        model.reading = partial(pivotal.models.LanguageModel.reading, model)  # type: ignore[method-assign]
        try:
            return generate()
        finally:
            del model.reading  # type: ignore[method-assign]

    return run


def read_back(
    model: pivotal.models.LanguageModel, edited: pivotal.models.IntervenedModel, tokens: int, texts: int
) -> list[list[int]]:
    """The tokens of our own `generate`, which returns text."""
    drawn: list[list[int]] = []
    keep = model.vocabulary.continued
    model.vocabulary.continued = lambda prompt, some: drawn.append(list(some)) or ""  # type: ignore[method-assign]
    try:
        edited.generate(PROMPT, words=tokens, samples=texts, temperature=0.0)
    finally:
        model.vocabulary.continued = keep  # type: ignore[method-assign]
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--texts", default="1,8")
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = pivotal.load_model(args.model, device="cpu")
    ways = of_transformers if isinstance(model, TransformersLM) else of_recurrent
    for texts in map(int, args.texts.split(",")):
        functions = ways(model, args.tokens, texts)  # type: ignore[arg-type]
        said = [function() for function in functions.values()]
        same = all(tokens == said[0] for tokens in said)
        seconds: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(args.repeat):
            for name, function in functions.items():
                started = time.process_time()
                function()
                seconds[name].append(time.process_time() - started)
        first = next(iter(seconds))
        print(f"{args.model}, {texts} texts of {args.tokens} tokens, same tokens: {same}")
        for name, taken in seconds.items():
            # the ratio of each turn, so that a slow turn does not count for one way only
            ratios = [a / b for a, b in zip(taken, seconds[first], strict=True)]
            print(
                f"  {name:15} {statistics.median(taken) / args.tokens * 1e3:7.2f} ms of CPU per token, "
                f"{statistics.median(ratios):.2f} x {first}",
                flush=True,
            )


if __name__ == "__main__":
    main()
