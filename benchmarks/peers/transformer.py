"""One update of a search in SmolLM2, or neurons set on held-out pairs, beside the same work in other libraries.

    python benchmarks/peers/transformer.py [--prefixes 128] [--repeat 3] [--out FILE]   # hooks of torch
    build/peers/pyvene/bin/python benchmarks/peers/transformer.py --peer pyvene       # after `make peers`
    python benchmarks/peers/transformer.py --job apply [--neurons mlp.26:1071 ...]      # with --peer as well

An update is the log ratios of the pairs of some prefixes with a mask over all neurons of the MLPs, and their gradients
by the mask and by the values. A neuron is set at every step. Every way has one row per distinct prefix and direction,
and computes the logits of the two words only, as far as its library can; `plain hooks` is the short way: one row per
pair, and a softmax over the vocabulary. `ranking` is another job, the only one of these that captum does: the gradient
times the activation of every neuron.

`apply` sets a few neurons to their means under the other label, on a thousand held-out pairs: once the pairs are
prepared, and from the pairs on. Preparing is a pass of the untouched model, which tells what it prefers, and the rows
or the tree. The other ways are given the tokens. They edit only the layers that have one of the neurons.

The numbers of both sides are compared before anything is timed. CPU seconds of one thread are compared, and the two
take turns in one process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import pivotal
from pivotal.models.transformers.lm import TransformersLM
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question

NEURONS = ["mlp.0:571", "mlp.25:161", "mlp.26:630", "mlp.26:1071"]
"""Found at every step, with values in their natural ranges, by the best of three runs with updates of 128 prefixes."""

Way = Callable[[Tensor, Tensor], Tensor]
"""From a mask (units) and values (directions, units) to the log ratios of the pairs."""


class Rows:
    """The pairs as padded rows of tokens, as one has them without pivotal."""

    def __init__(self, model: TransformersLM, problem: pivotal.Problem, *, distinct: bool) -> None:
        self.net, self.tokenizer, self.first = model.network, model.tokenizer, len(model.vocabulary.priming)
        self.modules = [tap.module for tap in model.taps if tap.site.name.startswith("mlp.")]
        self.width = len(problem.space) // len(self.modules)
        self.layers = list(range(len(self.modules)))
        """The layers to edit."""
        sentences = [(*model.vocabulary.priming, *tokens) for tokens in problem.tree.sequences()]
        keys: list[Any] = list(zip(sentences, problem.direction.tolist(), strict=True))
        rows = list(dict.fromkeys(keys)) if distinct else keys
        place = {row: i for i, row in enumerate(rows)}
        self.row = torch.tensor([place[key] for key in keys]) if distinct else torch.arange(len(keys))
        self.last = torch.tensor([len(tokens) - 1 for tokens, _ in rows])
        self.direction = torch.tensor([direction for _, direction in rows])
        # A causal model does not see the padding on the right.
        self.ids = torch.zeros(len(rows), int(self.last.max()) + 1, dtype=torch.int64)
        for i, (tokens, _) in enumerate(rows):
            self.ids[i, : len(tokens)] = torch.tensor(tokens)
        words = [
            [model.tokens_of(word)[0] for word in (pair.words[1 - d], pair.words[d])]
            for pair, d in zip(problem.pairs, problem.direction.tolist(), strict=True)
        ]
        self.preferred, self.target = torch.tensor(words).T

    def edit(self, layer: int, mask: Tensor, values: Tensor, h: Tensor) -> Tensor:
        """The inputs of a down projection with the neurons of its layer set."""
        part = slice(layer * self.width, (layer + 1) * self.width)
        m, v = mask[part], values[self.direction][:, None, part]
        if not self.first:
            return (1 - m) * h + m * v
        return torch.cat([h[:, : self.first], (1 - m) * h[:, self.first :] + m * v], 1)

    def from_states(self, states: Tensor) -> Tensor:
        """The log ratios, from the last states: two logits are enough."""
        at = states[torch.arange(len(states)), self.last][self.row]
        weight = self.net.lm_head.weight
        return (at * (weight[self.preferred] - weight[self.target])).sum(-1)

    def from_logits(self, logits: Tensor) -> Tensor:
        p = logits[torch.arange(len(logits)), self.last][self.row].log_softmax(-1)
        pair = torch.arange(len(self.row))
        return p[pair, self.preferred] - p[pair, self.target]

    def hooked(self, mask: Tensor, values: Tensor) -> ExitStack:
        """The hooks of torch, until the stack is closed."""
        stack = ExitStack()
        for layer in self.layers:

            def change(_: Any, args: Any, layer: int = layer) -> Any:
                return (self.edit(layer, mask, values, args[0]), *args[1:])

            stack.callback(self.modules[layer].register_forward_pre_hook(change).remove)
        return stack


def plain_hooks(rows: Rows) -> Way:
    def run(mask: Tensor, values: Tensor) -> Tensor:
        with rows.hooked(mask, values):
            return rows.from_logits(rows.net(rows.ids).logits)

    return run


def careful_hooks(rows: Rows) -> Way:
    def run(mask: Tensor, values: Tensor) -> Tensor:
        with rows.hooked(mask, values):
            return rows.from_states(rows.net.model(rows.ids).last_hidden_state)

    return run


def pyvene(rows: Rows) -> Way:
    import pyvene as pyv

    class SetNeurons(pyv.ConstantSourceIntervention):  # type: ignore[misc]
        """Sets the neurons of a layer by a mask."""

        def __init__(self, layer: int) -> None:
            super().__init__(keep_last_dim=True)
            self.layer = layer

        def forward(self, base: Tensor, *_: Any, **__: Any) -> Tensor:
            return rows.edit(self.layer, *now, base)

    now: list[Tensor] = []
    parts = [
        {"component": f"layers[{layer}].mlp.down_proj.input", "intervention": SetNeurons(layer)}
        for layer in rows.layers
    ]
    edited = pyv.IntervenableModel(parts, rows.net.model)

    def run(mask: Tensor, values: Tensor) -> Tensor:
        now[:] = [mask, values]
        _, after = edited({"input_ids": rows.ids}, unit_locations=None)
        return rows.from_states(after.last_hidden_state)

    return run


def nnsight(rows: Rows) -> Way:
    from nnsight import NNsight

    model = NNsight(rows.net.model)

    def run(mask: Tensor, values: Tensor) -> Tensor:
        with model.trace(rows.ids):
            for layer in rows.layers:
                module = model.layers[layer].mlp.down_proj
                module.input = rows.edit(layer, mask, values, module.input)
            states = model.output.last_hidden_state.save()
        return rows.from_states(states)

    return run


def transformer_lens(rows: Rows) -> Way:
    """TransformerLens returns logits at all positions."""
    from transformer_lens.model_bridge import TransformerBridge

    with tempfile.TemporaryDirectory() as folder:
        for part in (rows.net, rows.tokenizer):
            part.save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, device="cpu")
    bridge.requires_grad_(False)

    def run(mask: Tensor, values: Tensor) -> Tensor:
        def hook(layer: int) -> Callable[..., Tensor]:
            return lambda h, hook: rows.edit(layer, mask, values, h)

        hooks = [(f"blocks.{layer}.mlp.hook_post", hook(layer)) for layer in rows.layers]
        return rows.from_logits(bridge.run_with_hooks(rows.ids, fwd_hooks=hooks))

    return run


PEERS: dict[str, Callable[[Rows], Way]] = {
    "pyvene": pyvene,
    "nnsight": nnsight,
    "transformer-lens": transformer_lens,
}


def update(way: Way, mask: Tensor, values: Tensor) -> list[Tensor]:
    """The log ratios, and the gradients of the soft margin by mask and values."""
    mask, values = mask.clone().requires_grad_(), values.clone().requires_grad_()
    ratio = way(mask, values)
    torch.nn.functional.softplus(ratio + 1).mean().backward()
    assert mask.grad is not None and values.grad is not None
    return [ratio.detach(), mask.grad, values.grad]


def ranking_by_pivotal(problem: pivotal.Problem) -> list[Tensor]:
    """The gradient times the activation of every neuron: the slope of a mask that would set it to zero."""
    mask = torch.zeros(1, len(problem.space), requires_grad=True)
    problem.run(mask, torch.zeros(1, 2, len(problem.space))).log_ratio.sum().backward()
    assert mask.grad is not None
    return [-mask.grad[0]]


def ranking_by_captum(rows: Rows) -> list[Tensor]:
    from captum.attr import LayerGradientXActivation

    def ratios(ids: Tensor) -> Tensor:
        return rows.from_states(rows.net.model(ids).last_hidden_state).sum()[None]

    found = LayerGradientXActivation(ratios, rows.modules).attribute(rows.ids, attribute_to_layer_input=True)
    return [torch.cat([one[:, rows.first :].sum((0, 1)) for one in found]).detach()]


def compare(
    ours: Callable[[], list[Tensor]], other: Callable[[], list[Tensor]], repeat: int, *, most: float = 1e-3
) -> dict[str, Any]:
    """Milliseconds of CPU of both, in turns, and the largest difference of their numbers, as a share of the largest."""
    both = ours(), other()
    difference = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*both, strict=True))
    assert difference < most, f"the two must compute the same, but differ by {difference}"
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for way, seen in zip((ours, other), seconds, strict=True):
            started = time.process_time()
            way()
            seen.append(time.process_time() - started)
    ratio = statistics.median(b / a for a, b in zip(*seconds, strict=True))
    mine, others = (round(1e3 * statistics.median(seen)) for seen in seconds)
    return {"pivotal_ms": mine, "ms": others, "ratio": round(ratio, 2), "difference": difference}


def peers_of(name: str | None, rows: Callable[[bool], Rows]) -> dict[str, Way]:
    """The ways to compare with: those of a library, or hooks. `rows` makes distinct rows, or one per pair."""
    if name:
        return {f"{name} {version(name)}": PEERS[name](rows(True))}
    return {"careful hooks": careful_hooks(rows(True)), "plain hooks": plain_hooks(rows(False))}


def write(job: str, name: str, found: dict[str, Any], out: Path | None) -> None:
    row = {"job": job, "way": name, **found}
    print(
        f"  {name:28} {row['ms']:6} ms of CPU, pivotal {row['pivotal_ms']:6} ms: {row['ratio']:.2f} x; "
        f"numbers differ by {row['difference']:.0e} of the largest",
        flush=True,
    )
    if out:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def one_token(model: TransformersLM, pairs: PairSet) -> PairSet:
    """The pairs whose words are single tokens, so that a row of tokens is the prefix."""
    single = [pair for pair in pairs if all(len(model.tokens_of(word)) == 1 for word in pair.words)]
    return replace(pairs, pairs=tuple(single))


def updates(model: TransformersLM, args: argparse.Namespace) -> None:
    pairs = one_token(model, pivotal.load_phenomenon("number-agreement")[::4])
    problem = pivotal.Problem(model, pairs, sites="mlp", steps="every").batches(args.prefixes)[0]
    noise = torch.Generator().manual_seed(0)
    mask = 0.1 * torch.rand(len(problem.space), generator=noise)
    values = torch.rand(2, len(problem.space), generator=noise) - 0.5
    careful = Rows(model, problem, distinct=True)
    print(
        f"{len(problem)} pairs of {len(careful.ids)} prefixes, {problem.tree.n_live} nodes of the tree, "
        f"{int((careful.last + 1).sum())} tokens in rows, {len(problem.space):,} neurons"
    )
    if args.peer == "captum":
        found = compare(lambda: ranking_by_pivotal(problem), lambda: ranking_by_captum(careful), args.repeat)
        write("SmolLM2, every step", f"captum {version('captum')} (ranking)", found, args.out)
        return
    for name, way in peers_of(args.peer, lambda distinct: Rows(model, problem, distinct=distinct)).items():
        found = compare(
            lambda: update(lambda m, v: problem.run(m[None], v[None]).log_ratio[0], mask, values),
            partial(update, way, mask, values),
            args.repeat,
        )
        write("SmolLM2, every step", name, found, args.out)


@torch.no_grad()
def applying(model: TransformersLM, args: argparse.Namespace) -> None:
    question = Question("smollm2-135m", "number-agreement", sites="mlp", test=1000)
    pairs = question.divide(one_token(model, question.load_pairs()))[1]
    problem = pivotal.Problem(model, pairs, sites="mlp", steps="every")
    named = {str(unit): i for i, unit in enumerate(problem.space)}
    units = [named[name] for name in args.neurons]
    mask = torch.zeros(len(problem.space))
    mask[units] = 1
    values = problem.measure_activations().target

    width = len(problem.space) // len(problem.space.sites)
    layers = sorted({unit // width for unit in units})

    def rows(distinct: bool) -> Rows:
        made = Rows(model, problem, distinct=distinct)
        made.layers = layers
        return made

    def both(ratio: Tensor) -> list[Tensor]:
        """The log ratios, and the preferences as numbers, which must be equal too."""
        return [ratio, (ratio < 0).float()]

    def ours(problem: pivotal.Problem) -> list[Tensor]:
        return both(problem.run(mask[None], values[None]).log_ratio[0])

    flips = float((ours(problem)[0] < 0).float().mean())
    print(f"{len(problem)} pairs, {problem.tree.n_live} nodes of the tree, {flips:.1%} flip", flush=True)
    job = f"SmolLM2, applying, layers {layers[0]} to {layers[-1]}"
    for name, way in peers_of(args.peer, rows).items():
        found = compare(
            partial(ours, problem), lambda way=way: both(way(mask, values)), args.repeat, most=1e-5
        )
        write(job, name, found, args.out)
        if args.peer:  # preparing is the same as for hooks
            continue

        def whole(way: Way = way, name: str = name) -> list[Tensor]:
            rows(name != "plain hooks")
            way(torch.zeros_like(mask), values)
            return both(way(mask, values))

        found = compare(
            lambda: ours(pivotal.Problem(model, pairs, sites="mlp", steps="every")),
            whole,
            args.repeat,
            most=1e-5,
        )
        write(f"{job}, with preparing", name, found, args.out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", default="update", choices=("update", "apply"))
    parser.add_argument("--peer", choices=[*PEERS, "captum"])
    parser.add_argument("--prefixes", type=int, default=128)
    parser.add_argument("--neurons", nargs="+", default=NEURONS, help="what `apply` sets")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add the figures to")
    args = parser.parse_args()
    if args.job == "apply" and args.peer == "captum":
        parser.error("captum attributes and does not intervene: it has no job `apply`")
    torch.set_num_threads(1)
    model = pivotal.load_model("smollm2-135m", device="cpu")
    assert isinstance(model, TransformersLM)
    {"update": updates, "apply": applying}[args.job](model, args)


if __name__ == "__main__":
    main()
