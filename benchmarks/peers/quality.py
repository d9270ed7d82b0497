"""What other ways find in the bundled LSTM, after how many updates, and what an update costs them.

    python benchmarks/peers/quality.py find --values unbounded --out docs/results/quality.jsonl
    python benchmarks/peers/quality.py cost --out docs/results/quality.jsonl

The question is number agreement at every step, with at most four units. `find` follows other searches on their way, and
scores them on held-out pairs. They are computed with pivotal's passes, because only the number of updates is taken
from here:

- *Relaxed*: a Hard Concrete mask, a Lagrangian and Adam, with the paper's settings and variants of them. Every 25
  updates, the units whose expected mask exceeds one half, four at most, are set to the learned values. At some updates
  the values of the four likeliest units are also fitted alone.
- *Ranking*: the gradient times the activation, or an estimate from gradients of the effect of a replacement, chooses
  four units. Then their values are learned.

`cost` times what these searches repeat, by a loop of `nn.LSTMCell` written by hand: an update with KL, without it, and
with a fixed mask. It also runs pivotal's search as a whole. All take turns in one process, and CPU seconds of one
thread are counted. Log ratios and KL are compared first. `scripts/peers.py` makes the table of both.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from lstm import ByHand, in_turns, last, same
from torch import Tensor
from torch.nn.functional import linear, softplus

import pivotal
from pivotal.evidence.examination import score_many
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.options import build
from pivotal.problem.objective import Terms
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.searches.attribution import Attribution, Ranked
from pivotal.searches.base import Search, interventions_of
from pivotal.searches.exchange import Exchange
from pivotal.searches.learned import LearnedMask
from pivotal.searches.tools.refit import Refit

UNITS = 4
LOOK = 25
"""Updates between two scores."""
REFITTED = (25, 50, 100, 200, 400, 800)
"""The updates of a relaxed mask after which the values of its likeliest units are fitted."""
REFIT = 40
FITS = (10, 20, 40, 80)
"""Updates of the values of ranked units."""
BATCH = 128
"""Prefixes of an update, as in the preset of the paper's settings."""
POSITIONS = 48

EXPECTED = 0.02
"""The share of units that the paper's relaxed mask may have: 26. Bounded to four units, it ends with one to three."""
RELAXED: dict[str, dict[str, object]] = {
    "the paper's settings": {},
    "the paper's settings without KL": {"kl_weight": 0.0},
    "the paper's settings with a soft margin and KL weight 0.1": {
        "kl_weight": 0.1,
        "loss": "soft-margin",
    },
}


class GradientTimesActivation(Attribution):
    """What captum's `LayerGradientXActivation` gives: the estimated effect of setting a unit to zero. The fit is the
    usual one, not the short one of `attribution`."""

    name = "gradient-times-activation"

    def rank(self, problem: Problem, seed: int) -> Ranked:
        values = torch.zeros(len(problem.labels), problem.space.coordinates)
        slope = self._slope(problem.sample(self.prefixes, seed), values, torch.zeros(1))
        return slope.sum(0).abs(), problem.measure_activations().target

    def last_fit(self) -> tuple[Refit, int]:
        return Refit(self.terms, self.refit, batch=self.batch), 0


RANKINGS: dict[str, Attribution] = {
    "gradient times activation": GradientTimesActivation(max_units=UNITS, prefixes=512, batch=BATCH),
    "integrated gradients": Attribution(max_units=UNITS, method="integrated"),
}


OURS: dict[str, Search] = {
    "pivotal": Exchange(max_units=UNITS),
    "pivotal, `--search attribution`": Attribution(max_units=UNITS),
    "pivotal, `--search learned`": LearnedMask(max_units=UNITS),
}


def followed(name: str, train: Problem, test: Problem, seeds: int, updates: int) -> Iterator[dict[str, Any]]:
    """The scores of a relaxed search on its way."""
    search = build(LearnedMask, {**LearnedMask.presets["paper"], "max_units": EXPECTED, **RELAXED[name]})
    learner = search.learner(train, seeds, 0)
    refit = Refit(search.terms, REFIT, batch=BATCH)
    while learner.update < updates:
        learner.step(False)
        if learner.update % LOOK:
            continue
        values = learner.values.detach()
        found = {0: interventions_of(train, learner.hard(UNITS), values)}
        if learner.update in REFITTED:
            logits = learner.logits.detach().expand_as(values)
            likeliest = torch.zeros_like(values).scatter_(-1, logits.topk(UNITS).indices, 1.0)
            found[REFIT] = interventions_of(
                train, likeliest.bool(), refit.fit(train, likeliest, values).values
            )
        for again, some in found.items():
            for seed, score in enumerate(scored(some, test)):
                yield {"way": name, "seed": seed, "updates": learner.update, "refit": again, **score}


def ranked(name: str, train: Problem, test: Problem, seeds: int, _: int) -> Iterator[dict[str, Any]]:
    """The scores of ranked units, after several numbers of updates of their values."""
    for seed, updates in product(range(seeds), FITS):
        found = replace(RANKINGS[name], refit=updates).solve(train, runs=1, seed=seed).interventions[0]
        yield {"way": name, "seed": seed, "updates": 0, "refit": updates, **scored([found], test)[0]}


def scored(found: Sequence[pivotal.Intervention], test: Problem) -> list[dict[str, Any]]:
    """Flips, units and KL on held-out pairs."""
    flips, kl = score_many(found, test)
    return [
        {"flips": round(float(f.mean()), 4), "units": len(one), "kl": round(float(k), 4)}
        for one, f, k in zip(found, flips, kl, strict=True)
    ]


class WithKL:
    """Updates of a batch by hand, with KL to the untouched model. Its states are computed before anything is timed."""

    def __init__(self, model: RecurrentLM, batch: Problem) -> None:
        self.by_hand = ByHand(model, batch)
        self.first = len(self.by_hand.priming)
        nothing = torch.zeros(1, len(batch.space)), torch.zeros(1, 2, len(batch.space))
        self.distinct, self.of_pair = self.by_hand.distinct()
        with torch.no_grad():
            self.untouched = {
                careful: self.by_hand.states(rows, *nothing)[0][:, 0]
                for careful, rows in ((True, self.distinct), (False, self.by_hand.rows))
            }
        share = torch.bincount(torch.tensor(self.of_pair)) / len(self.of_pair)
        length = torch.tensor([len(tokens) for tokens, _, _ in self.distinct])
        step = torch.arange(self.first, self.first + int(length.max()))[:, None]
        weight = torch.where(step < self.first + length, share / (length + 1), 0.0)
        self.places, self.weight = weight.nonzero(), weight[weight > 0]

    def divergence(self, clean: Tensor, edited: Tensor) -> Tensor:
        p, q = (
            linear(states, self.by_hand.decoder, self.by_hand.bias).log_softmax(-1)
            for states in (clean, edited)
        )
        return (p.exp() * (p - q)).sum(-1)

    def careful(self, mask: Tensor, values: Tensor, positions: int) -> tuple[Tensor, Tensor]:
        """Log ratios, and KL at drawn positions; 0 is no KL and -1 takes all positions."""
        states, length = self.by_hand.states(self.distinct, mask, values)
        ratio = self.by_hand.by_two_logits(last(states, length)[:, self.of_pair])
        if not positions:
            return ratio, torch.zeros(1)
        here, weight = self.places, self.weight
        if positions > 0:
            drawn, times = torch.multinomial(weight, positions, replacement=True).unique(return_counts=True)
            here, weight = here[drawn], times / positions * weight.sum()
        step, row = here[:, 0] + self.first, here[:, 1]
        return ratio, weight @ self.divergence(self.untouched[True][step, row], states[step, 0, row])

    def plain(self, mask: Tensor, values: Tensor, positions: int) -> tuple[Tensor, Tensor]:
        """Log ratios, and KL at all positions of all pairs, unless `positions` is 0."""
        states, length = self.by_hand.states(self.by_hand.rows, mask, values)
        ratio = self.by_hand.by_softmax(last(states, length))
        if not positions:
            return ratio, torch.zeros(1)
        kl = self.divergence(self.untouched[False][self.first :], states[self.first :, 0])
        there = torch.arange(self.first, len(states))[:, None] < length
        return ratio, (kl * there / (length - self.first + 1)).sum() / len(length)


def stepped(
    way: Callable[..., tuple[Tensor, Tensor]], mask: Tensor, values: Tensor, positions: int, *, fixed: bool
) -> None:
    """An update: the gradients of the loss by values and, unless it is fixed, by the mask."""
    values = values.clone().requires_grad_()
    ratio, kl = way(mask.clone().requires_grad_(not fixed), values, positions)
    (softplus(ratio + 1).mean() + 0.1 * kl.sum()).backward()


def costs(model: RecurrentLM, train: Problem, repeat: int) -> Iterator[dict[str, Any]]:
    """The CPU seconds of what the other searches repeat, for one run."""
    batch = train.restrict(train.examples.batches(BATCH)[0])
    by_hand = WithKL(model, batch)
    noise = torch.Generator().manual_seed(0)
    mask = (torch.rand(1, len(batch.space), generator=noise) * 2 - 1).clamp(min=0)
    hard = torch.zeros_like(mask)
    hard[:, model.hidden + torch.arange(UNITS)] = 1  # in the last layer, where searches find most units
    values = torch.rand(1, 2, len(batch.space), generator=noise) * 2 - 1
    ways = {"careful": by_hand.careful, "plain": by_hand.plain}
    for some in (mask, hard):
        with torch.no_grad():
            ours = batch.run(some, values)
            found = {name: way(some, values, -1) for name, way in ways.items()}
        same({name: ratio for name, (ratio, _) in found.items()}, ours.log_ratio)
        exact = float(batch.untouched.mean(ours.states)[0])
        assert all(abs(float(kl) / exact - 1) < 1e-4 for _, kl in found.values()), "KL must be the same"
    kinds = {
        "update": (mask, POSITIONS),
        "update without KL": (mask, 0),
        "refit": (hard, POSITIONS),
        "refit without KL": (hard, 0),
    }
    calls = {
        (kind, name): partial(stepped, way, some, values, positions, fixed=some is hard)
        for kind, (some, positions) in kinds.items()
        for name, way in ways.items()
    }

    def ours_too(some: Tensor, positions: int, fixed: bool) -> None:
        terms = Terms(kl_weight=0.1 if positions else 0.0)

        def way(mask: Tensor, values: Tensor, positions: int) -> tuple[Tensor, Tensor]:
            outcome = batch.run(mask, values)
            drawn = terms.draw(batch, noise, positions or None)
            return outcome.log_ratio, terms.costs(batch, outcome, drawn)[:, 0]

        stepped(way, some, values, positions, fixed=fixed)

    for kind, (some, positions) in kinds.items():
        calls[kind, "pivotal"] = partial(ours_too, some, positions, some is hard)
    in_turns(calls, 1)  # what is computed once
    for (kind, name), seconds in in_turns(calls, repeat).items():
        yield {"cost": kind, "loop": name, "seconds": [round(second, 4) for second in seconds]}


def searched(name: str, search: Search, train: Problem, test: Problem, seed: int) -> dict[str, Any]:
    """A search of pivotal: the CPU seconds of all of it, and what it finds."""
    started = time.process_time()
    found = search.solve(train, runs=1, seed=seed).interventions[0]
    seconds = time.process_time() - started
    return {"way": name, "seed": seed, "seconds": round(seconds, 1), **scored([found], test)[0]}


def rows_of(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    model = pivotal.load_model("wiki-lstm", device="cpu")
    assert isinstance(model, RecurrentLM)
    question = Question("wiki-lstm", "number-agreement", values=args.values)
    train_pairs, test_pairs = question.divide(question.load_pairs())

    def train() -> Problem:
        """A problem that remembers nothing of an earlier search."""
        return Problem(model, train_pairs, values=args.values)

    test = train().on(test_pairs)
    if args.job == "find":
        ways = {**dict.fromkeys(RANKINGS, ranked), **dict.fromkeys(RELAXED, followed)}
        for name in args.ways or ways:
            for row in ways[name](name, train(), test, args.seeds, args.updates):
                yield {"values": args.values, **row}
    else:
        for seed in range(args.seeds):
            for name in args.ways or OURS:
                search = OURS[name]
                yield {"values": args.values, **searched(name, search, train(), test, seed)}
            if args.repeat:
                yield from costs(model, train(), args.repeat)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", choices=("find", "cost"))
    parser.add_argument("--values", default="unbounded", choices=("unbounded", "natural"))
    parser.add_argument(
        "--ways",
        nargs="+",
        choices=[*RANKINGS, *RELAXED, *OURS],
        help="what `find` follows, or the searches of `cost`",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=800, help="how far `find` follows a relaxed mask")
    parser.add_argument(
        "--repeat", type=int, default=3, help="how often updates are timed; 0 times searches alone"
    )
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the rows to")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for row in rows_of(args):
        print(json.dumps(row), flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
