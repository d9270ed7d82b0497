"""One update of a search in the bundled LSTM, beside the same update written by hand, in one process.

    python benchmarks/peers/lstm.py [--steps every] [--runs 3] [--repeat 5] [--out docs/results/peers.jsonl]

An update is the loss of all pairs of a batch, for all runs, and its gradients by masks and values. *Plain*: a loop of
`nn.LSTMCell` over padded sentences, one row per pair and run, and a softmax over the vocabulary. *Careful*: the same
loop with one row per distinct prefix, direction and run, and the logits of the two words only. The log ratios of all
ways are compared before anything is timed. CPU seconds of one thread are compared, and the ways take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import softplus

import pivotal as pv
from pivotal.models.recurrent.lm import RecurrentLM

Way = Callable[[Tensor, Tensor], Tensor]
"""From masks (runs, units) and values (runs, directions, units) to log ratios (runs, pairs)."""


class ByHand:
    """What somebody needs who writes the update without pivotal: weights, tokens, and where to edit."""

    def __init__(self, model: RecurrentLM, problem: pv.Problem) -> None:
        assert model._source is not None
        weights = {name: weight.detach() for name, weight in model._source[1].items()}
        self.encoder, self.decoder = weights["encoder.weight"], weights["decoder.weight"]
        self.bias, self.hidden = weights["decoder.bias"], model.hidden
        self.cells = []
        for layer in range(len(model.sites)):
            cell = torch.nn.LSTMCell(self.hidden, self.hidden).requires_grad_(False)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(cell, name).copy_(weights[f"rnn.{name}_l{layer}"])
            self.cells.append(cell)
        self.priming = model.encode(model.priming).ids
        self.sentences = [tuple(tokens) for tokens in problem.tree.sequences()]
        self.cues = problem.tree.cues() if problem.steps == "single" else [0] * len(problem)
        self.every = problem.steps == "every"
        self.directions = [int(d) for d in problem.direction]
        words = [pair.words for pair in problem.pairs]
        self.preferred, self.target = (
            torch.tensor(
                [model.tokens_of(w[d ^ flip])[0] for w, d in zip(words, self.directions, strict=True)]
            )
            for flip in (1, 0)
        )

    def last_states(
        self, rows: list[tuple[tuple[int, ...], int, int]], mask: Tensor, values: Tensor
    ) -> Tensor:
        """The state after each row (tokens, direction, cue), for all runs: (runs, rows, hidden)."""
        runs, first = len(mask), len(self.priming)
        length = torch.tensor([first + len(tokens) for tokens, _, _ in rows])
        ids = torch.zeros(len(rows), int(length.max()), dtype=torch.int64)
        for i, (tokens, _, _) in enumerate(rows):
            ids[i, : length[i]] = torch.tensor([*self.priming, *tokens])
        of = torch.tensor([direction for _, direction, _ in rows])
        cue = torch.tensor([cue for _, _, cue in rows]) + first
        m = mask[:, None].expand(-1, len(rows), -1).flatten(0, 1)
        v = values[:, of].flatten(0, 1)
        state = [(torch.zeros(runs * len(rows), self.hidden),) * 2 for _ in self.cells]
        seen = []
        for step in range(ids.shape[1]):
            h = self.encoder[ids[:, step]].repeat(runs, 1)
            here = (torch.full_like(cue, step) >= first) if self.every else cue == step
            on = here.repeat(runs)[:, None]
            for layer, cell in enumerate(self.cells):
                part = slice(layer * self.hidden, (layer + 1) * self.hidden)
                h, c = cell(h, state[layer])
                h = torch.where(on, (1 - m[:, part]) * h + m[:, part] * v[:, part], h)
                state[layer] = (h, c)
            seen.append(h)
        at = (length - 1).repeat(runs)
        return torch.stack(seen)[at, torch.arange(len(at))].view(runs, len(rows), -1)

    def plain(self, mask: Tensor, values: Tensor) -> Tensor:
        rows = list(zip(self.sentences, self.directions, self.cues, strict=True))
        states = self.last_states(rows, mask, values)
        p = torch.nn.functional.linear(states, self.decoder, self.bias).log_softmax(-1)
        pair = torch.arange(len(rows))
        return p[:, pair, self.preferred] - p[:, pair, self.target]

    def careful(self, mask: Tensor, values: Tensor) -> Tensor:
        rows = list(zip(self.sentences, self.directions, self.cues, strict=True))
        distinct = list(dict.fromkeys(rows))
        place = {row: i for i, row in enumerate(distinct)}
        states = self.last_states(distinct, mask, values)[:, [place[row] for row in rows]]
        weight = self.decoder[self.preferred] - self.decoder[self.target]
        return (states * weight).sum(-1) + self.bias[self.preferred] - self.bias[self.target]


def update(way: Way, mask: Tensor, values: Tensor) -> Tensor:
    """The log ratios, after the gradients of the soft margin."""
    mask, values = mask.clone().requires_grad_(), values.clone().requires_grad_()
    ratio = way(mask, values)
    softplus(ratio + 1).mean(1).sum().backward()
    return ratio.detach()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    model = pv.load_model("wiki-lstm", device="cpu")
    assert isinstance(model, RecurrentLM)
    batch = pv.Problem(model, pv.load_phenomenon("number-agreement"), steps=args.steps).batches(128)[0]
    by_hand = ByHand(model, batch)
    ways: dict[str, Way] = {
        "pivotal": lambda mask, values: batch.run(mask, values).log_ratio,
        "careful": by_hand.careful,
        "plain": by_hand.plain,
    }
    noise = torch.Generator().manual_seed(0)
    mask = (torch.rand(args.runs, len(batch.space), generator=noise) * 2 - 1).clamp(min=0)
    values = torch.rand(args.runs, 2, len(batch.space), generator=noise) * 2 - 1
    ratios = {name: update(way, mask, values) for name, way in ways.items()}
    worst = max(float((ratio - ratios["pivotal"]).abs().max()) for ratio in ratios.values())
    print(
        f"{len(batch)} pairs, {args.runs} runs, {args.steps} step; log ratios differ by at most {worst:.1e}"
    )
    assert worst < 1e-4, "the ways must compute the same"
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.repeat):
        for name, way in ways.items():
            started = time.process_time()
            update(way, mask, values)
            seconds[name].append(time.process_time() - started)
    ours = seconds.pop("pivotal")
    for name, taken in seconds.items():
        row = {
            "job": f"LSTM, {args.steps} step",
            "way": f"{name} loop of LSTMCell",
            "pivotal_ms": round(statistics.median(ours) * 1e3),
            "ms": round(statistics.median(taken) * 1e3),
            "ratio": round(statistics.median(a / b for a, b in zip(taken, ours, strict=True)), 2),
            "difference": worst,
        }
        print(f"  {name:8} {row['ms']:6} ms of CPU, pivotal {row['pivotal_ms']:6} ms: {row['ratio']:.2f} x")
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
