"""How much work the tree saves, and what an update costs beside the matrix products that it cannot do without.

    python benchmarks/step.py [--batch 128] [--runs 3]

The products are those of the step's own shapes, level by level: the second layer's input for every node, the
recurrent matrices for every node that has children, once forward and once backward (the model is frozen, so there is
one product with the transposed matrix and none for the weights). Step and products are timed in turn, in one process,
in CPU seconds of one thread. An update of a hard mask in the last layer, as in refits, needs the products of that
layer's recurrent matrix only, and its input once for all runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import pivotal
from pivotal.models.tree import PrefixTree
from pivotal.problem.objective import Terms


def nodes(pairs: pivotal.questions.PairSet, model: pivotal.models.LanguageModel) -> None:
    steps = sum(len(pair.prefix.split()) for pair in pairs)
    for kind in ("every", "single"):
        tree = pivotal.Problem(model, pairs, steps=kind).tree
        print(
            f"{pairs.name}, {kind} step: {len(pairs)} pairs, {steps} token steps sentence by sentence, "
            f"{tree.n_live} nodes: {steps / tree.n_live:.2f} x fewer"
        )


def last_layer(tree: PrefixTree, runs: int, hidden: int) -> Callable[[], None]:
    """The products of an update of a hard mask in the last of two layers."""
    weight = torch.randn(4 * hidden, hidden)
    shapes = []
    for level in tree.levels():
        live, parents = level.stop - level.live, len(level.source)
        if live:
            below, above = torch.randn(live, hidden), torch.randn(parents * runs, hidden)
            shapes.append((below, above, torch.randn(parents * runs, 4 * hidden)))

    def run() -> None:
        for below, above, gates in shapes:
            torch.nn.functional.linear(below, weight)
            torch.nn.functional.linear(above, weight)
            gates @ weight

    return run


def products(tree: PrefixTree, runs: int, hidden: int) -> Callable[[], None]:
    weight = torch.randn(4 * hidden, hidden)
    shapes = []
    for level in tree.levels():
        live, parents = level.stop - level.live, len(level.source)
        if live:
            shapes.append(
                [(torch.randn(n * runs, hidden), torch.randn(n * runs, 4 * hidden)) for n in (live, parents)]
            )

    def run() -> None:
        for (h, g), (parent_h, parent_g) in shapes:
            torch.nn.functional.linear(h, weight)
            for _ in range(2):
                torch.nn.functional.linear(parent_h, weight)
                parent_g @ weight
            g @ weight

    return run


def step(problem: pivotal.Problem, runs: int, *, hard: bool = False) -> Callable[[], None]:
    mask = torch.full((runs, len(problem.space)), 0.1, requires_grad=not hard)
    if hard:
        mask.zero_()[:, -5:] = 1.0
    values = torch.zeros(runs, 2, len(problem.space), requires_grad=True)
    optimiser = torch.optim.Adam([values] if hard else [mask, values], lr=1e-3)

    def run() -> None:
        optimiser.zero_grad()
        Terms().loss(problem.run(mask, values)).sum().backward()
        optimiser.step()

    return run


def median_of_each(functions: list[Callable[[], None]], repeat: int) -> list[float]:
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeat + 2):
        for function, seen in zip(functions, times, strict=True):
            started = time.process_time()
            function()
            if turn >= 2:
                seen.append(time.process_time() - started)
    return [sorted(seen)[len(seen) // 2] for seen in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=25)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = pivotal.load_model("wiki-lstm", device="cpu")
    pairs = pivotal.load_phenomenon("number-agreement")
    nodes(pairs, model)
    for steps in ("every", "single"):
        batch = pivotal.Problem(model, pairs, steps=steps).batches(args.batch)[0]
        functions = [
            step(batch, args.runs),
            products(batch.tree, args.runs, 650),
            step(batch, args.runs, hard=True),
            last_layer(batch.tree, args.runs, 650),
        ]
        taken = median_of_each(functions, args.repeat)
        for name, (update, bare) in zip(("update", "refit"), (taken[:2], taken[2:]), strict=True):
            print(
                f"{steps:6} step: {batch.tree.n_live} nodes x {args.runs} runs: {name} {update * 1e3:.1f} ms, "
                f"bare products {bare * 1e3:.1f} ms, ratio {update / bare:.2f}"
            )


if __name__ == "__main__":
    main()
