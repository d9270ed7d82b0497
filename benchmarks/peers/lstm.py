"""One update of a search in the bundled LSTM, or an intervention on held-out pairs, beside the same work by hand.

    python benchmarks/peers/lstm.py [--job update] [--steps every] [--runs 3] [--repeat 5] [--out FILE]
    python benchmarks/peers/lstm.py --job apply [--intervention FOLDER]

An update is the loss of all pairs of a batch, for all runs, and its gradients by masks and values. *Plain*: a loop of
`nn.LSTMCell` over padded sentences, one row per pair and run, and a softmax over the vocabulary. *Careful*: the same
loop with one row per distinct prefix, direction and run, and the logits of the two words only.

`apply` sets the four units of the atlas on all held-out pairs of number agreement: once the pairs are prepared, and
from the pairs on. Preparing is a pass of the untouched model, which tells what it prefers, and the rows or the tree.
By hand, the tokens are given.

The log ratios of all ways are compared before anything is timed. CPU seconds of one thread are compared, and the ways
take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import softplus

import pivotal
from pivotal.models.edits import dense
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.question import Question

INTERVENTION = Path("benchmarks/peers/number-agreement")
"""Four units of the last layer, set without bounds at every step."""

Row = tuple[tuple[int, ...], int, int]
"""Tokens, direction and cue."""

Way = Callable[[Tensor, Tensor], Tensor]
"""From masks (runs, units) and values (runs, directions, units) to log ratios (runs, pairs)."""


class ByHand:
    """What somebody needs who writes the update without pivotal: weights, tokens, and where to edit."""

    def __init__(self, model: RecurrentLM, problem: pivotal.Problem) -> None:
        weights = {name: weight.detach().float() for name, weight in model._weights.items()}
        self.encoder, self.decoder = weights["encoder.weight"], weights["decoder.weight"]
        self.bias, self.hidden = weights["decoder.bias"], model.hidden
        self.cells = []
        for layer in range(len(model.sites)):
            cell = torch.nn.LSTMCell(self.hidden, self.hidden).requires_grad_(False)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(cell, name).copy_(weights[f"rnn.{name}_l{layer}"])
            self.cells.append(cell)
        self.priming = model.vocabulary.priming
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

    def states(self, rows: list[Row], mask: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The states at all steps of all runs and rows (steps, runs, rows, hidden), and the lengths of the rows."""
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
        parts = [slice(layer * self.hidden, (layer + 1) * self.hidden) for layer in range(len(self.cells))]
        # A fixed mask usually has units in one layer only.
        edited = [mask.requires_grad or bool(mask[:, part].any()) for part in parts]
        seen = []
        for step in range(ids.shape[1]):
            h = self.encoder[ids[:, step]].repeat(runs, 1)
            here = (torch.full_like(cue, step) >= first) if self.every else cue == step
            on = here.repeat(runs)[:, None]
            for layer, (cell, part) in enumerate(zip(self.cells, parts, strict=True)):
                h, c = cell(h, state[layer])
                if edited[layer]:
                    h = torch.where(on, (1 - m[:, part]) * h + m[:, part] * v[:, part], h)
                state[layer] = (h, c)
            seen.append(h)
        return torch.stack(seen).unflatten(1, (runs, len(rows))), length

    @property
    def rows(self) -> list[Row]:
        """One row per pair."""
        return list(zip(self.sentences, self.directions, self.cues, strict=True))

    def distinct(self) -> tuple[list[Row], list[int]]:
        """The distinct rows, and the row of each pair."""
        rows = list(dict.fromkeys(self.rows))
        place = {row: i for i, row in enumerate(rows)}
        return rows, [place[row] for row in self.rows]

    def by_softmax(self, states: Tensor) -> Tensor:
        """The log ratios, from the last state of each pair and a softmax over the vocabulary."""
        p = torch.nn.functional.linear(states, self.decoder, self.bias).log_softmax(-1)
        pair = torch.arange(len(self.preferred))
        return p[:, pair, self.preferred] - p[:, pair, self.target]

    def by_two_logits(self, states: Tensor) -> Tensor:
        """The log ratios, from the last state of each pair and the logits of its two words."""
        weight = self.decoder[self.preferred] - self.decoder[self.target]
        return (states * weight).sum(-1) + self.bias[self.preferred] - self.bias[self.target]

    def plain(self, mask: Tensor, values: Tensor) -> Tensor:
        return self.by_softmax(last(*self.states(self.rows, mask, values)))

    def careful(self, mask: Tensor, values: Tensor) -> Tensor:
        rows, of_pair = self.distinct()
        return self.by_two_logits(last(*self.states(rows, mask, values))[:, of_pair])


def last(states: Tensor, length: Tensor) -> Tensor:
    """The last state of each run and row: (runs, rows, hidden)."""
    return states[length - 1, :, torch.arange(len(length))].transpose(0, 1)


def update(way: Way, mask: Tensor, values: Tensor) -> Tensor:
    """The log ratios, after the gradients of the soft margin."""
    mask, values = mask.clone().requires_grad_(), values.clone().requires_grad_()
    ratio = way(mask, values)
    softplus(ratio + 1).mean(1).sum().backward()
    return ratio.detach()


def same(found: dict[str, Tensor], ours: Tensor) -> float:
    """The largest difference of log ratios from ours, as a share of the largest. Preferences must be equal."""
    for name, ratio in found.items():
        assert torch.equal(ratio < 0, ours < 0), f"{name} and pivotal must prefer the same words"
    worst = max(float((ratio - ours).abs().max() / ours.abs().max()) for ratio in found.values())
    assert worst < 1e-5, f"the ways must compute the same, but differ by {worst}"
    return worst


def in_turns(ways: dict[str, Callable[[], object]], repeat: int) -> dict[str, list[float]]:
    """The CPU seconds of every call of each way."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, way in ways.items():
            started = time.process_time()
            way()
            seconds[name].append(time.process_time() - started)
    return seconds


def write(job: str, seconds: dict[str, list[float]], difference: float, out: Path | None) -> None:
    """Print how the other ways compare with pivotal, and add this to a file of JSON lines."""
    ours = seconds.pop("pivotal")
    for name, taken in seconds.items():
        row = {
            "job": job,
            "way": name,
            "pivotal_ms": round(statistics.median(ours) * 1e3),
            "ms": round(statistics.median(taken) * 1e3),
            "ratio": round(statistics.median(a / b for a, b in zip(taken, ours, strict=True)), 2),
            "difference": float(f"{difference:.1e}"),
        }
        print(f"  {name:24} {row['ms']:6} ms of CPU, pivotal {row['pivotal_ms']:6} ms: {row['ratio']:.2f} x")
        if out:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def updates(model: RecurrentLM, args: argparse.Namespace) -> None:
    problem = pivotal.Problem(model, pivotal.load_phenomenon("number-agreement"), steps=args.steps)
    batch = problem.restrict(problem.examples.batches(128)[0])
    by_hand = ByHand(model, batch)
    ways: dict[str, Way] = {
        "pivotal": lambda mask, values: batch.run(mask, values).log_ratio,
        "careful loop of LSTMCell": by_hand.careful,
        "plain loop of LSTMCell": by_hand.plain,
    }
    noise = torch.Generator().manual_seed(0)
    mask = (torch.rand(args.runs, len(batch.space), generator=noise) * 2 - 1).clamp(min=0)
    values = torch.rand(args.runs, 2, len(batch.space), generator=noise) * 2 - 1
    ratios = {name: update(way, mask, values) for name, way in ways.items()}
    worst = same(ratios, ratios["pivotal"])
    print(
        f"{len(batch)} pairs, {args.runs} runs, {args.steps} step; log ratios differ by {worst:.0e} of the largest"
    )
    calls = {name: partial(update, way, mask, values) for name, way in ways.items()}
    write(f"LSTM, {args.steps} step", in_turns(calls, args.repeat), worst, args.out)


@torch.no_grad()
def applying(model: RecurrentLM, args: argparse.Namespace) -> None:
    found = pivotal.Intervention.load(args.intervention)
    question = Question("wiki-lstm", "number-agreement")
    pairs = question.divide(question.load_pairs())[1]
    problem = pivotal.Problem(model, pairs, steps="every")
    mask, values = dense(found, problem.space, model.device)
    mask = mask[:, 0]  # one mask for both directions
    ways: dict[str, Callable[[pivotal.Problem], Callable[..., Tensor]]] = {
        "pivotal": lambda problem: lambda mask, values: problem.run(mask, values).log_ratio,
        "careful loop of LSTMCell": lambda problem: ByHand(model, problem).careful,
        "plain loop of LSTMCell": lambda problem: ByHand(model, problem).plain,
    }
    prepared = {name: way(problem) for name, way in ways.items()}
    ratios = {name: run(mask, values) for name, run in prepared.items()}
    worst = same(ratios, ratios["pivotal"])
    flips = float((ratios["pivotal"] < 0).float().mean())
    print(f"{len(problem)} pairs, {flips:.1%} flip; log ratios differ by {worst:.0e} of the largest")

    def from_pairs(name: str) -> None:
        if name == "pivotal":
            pivotal.Problem(model, pairs, steps="every").run_intervention(found)
        else:
            run = ways[name](problem)
            run(torch.zeros_like(mask), values)
            run(mask, values)

    again = {name: partial(run, mask, values) for name, run in prepared.items()}
    write("LSTM, applying", in_turns(again, args.repeat), worst, args.out)
    first = {name: partial(from_pairs, name) for name in ways}
    write("LSTM, applying, with preparing", in_turns(first, args.repeat), worst, args.out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", default="update", choices=("update", "apply"))
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--intervention", type=Path, default=INTERVENTION, help="what `apply` applies, at every step"
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    model = pivotal.load_model("wiki-lstm", device="cpu")
    assert isinstance(model, RecurrentLM)
    {"update": updates, "apply": applying}[args.job](model, args)


if __name__ == "__main__":
    main()
