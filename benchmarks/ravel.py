"""RAVEL as a judge: does an exchange of units move one attribute of an entity and leave its other attributes?

    python benchmarks/ravel.py FOLDER MODEL TYPE [--layers 8 14 20]     # what the model knows, and what layers carry
    python benchmarks/ravel.py FOLDER MODEL TYPE --layer 14 --attributes Singular [--methods MDAS …] [--dims 16 48]

FOLDER is the folder with RAVEL's files (`data` in data.tgz of github.com/explanare/ravel), and TYPE is city, verb,
nobel_prize_winner, occupation or physical_object. What the model knows is asked once and kept in WORK, and the rows are
added to --out.

The units of the entity's last token in a base prompt take the states that they have at the last token of a source
entity, in a prompt of its own. *Cause*: the attribute asked for becomes the source's. *Isolate*: each other attribute
stays the base's, as the mean over these attributes. *Disentangle*: the mean of both. An answer counts if its first
three tokens are said greedily. Every method gets the same layer, training instances and numbers of dimensions; of its
settings, those that disentangle the validation instances best are tested, on held-out entities and held-out prompts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from ravel_instances import Asked, Ids, Instance, Right, Sizes, answer_rows, instances, read, what_it_knows
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrizations import orthogonal

from pivotal.errors import PivotalError
from pivotal.evidence.intervals import share_of
from pivotal.files import write_text
from pivotal.models import LanguageModel, load_model
from pivotal.models.bases.basis import completed, components
from pivotal.models.bases.edit import own_site
from pivotal.models.edits import Edit, MaskedEdit, Sources
from pivotal.models.tree import PrefixTree, Span
from pivotal.problem.asking import AskedPair, Rejected
from pivotal.problem.counterfactuals import Counterfactuals
from pivotal.problem.examples import Examples
from pivotal.problem.problem import Problem
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.searches import Attribution, Exchange, LearnedMask
from pivotal.units import Unit

BATCH = 32
"""Instances per update, half of them about the attribute that is to change."""
LOOKS = 3
"""How often a training is validated; the best of these is tested."""
ROUNDS = 6
"""The most swaps of our default search."""


# -- instances as trees ------------------------------------------------------------------------------------


class Exchanges:
    """Instances made ready for exchanges of states, with the answers that are wanted for a target attribute."""

    def __init__(self, model: LanguageModel, those: Sequence[Instance], target: str) -> None:
        self.model, self.those, self.target = model, those, target
        self.cause = np.array([one.attribute == target for one in those])
        wanted = [one.other if cause else one.own for one, cause in zip(those, self.cause, strict=True)]
        bases = [one.base for one in those]
        self.sources, at = sources_of([one.source for one in those])
        ids = [base.ids + said[:-1] for base, said in zip(bases, wanted, strict=True)]
        cues = [base.place for base in bases]
        matched = [[node] * len(one) for node, one in zip(at, ids, strict=True)]
        self.tree = PrefixTree.build(ids, cues, [0] * len(ids), "single", matched)
        self.prepared = model.prepare(self.tree)
        rows = answer_rows(self.tree, wanted)
        self._rows = [row for some in rows for row in some]
        self._of = np.repeat(np.arange(len(ids)), [len(some) for some in rows])
        self._tokens = torch.tensor([token for said in wanted for token in said])

    def states_of(self, site: str) -> Sources:
        return self.sources.sources(self.model, self.model.unit_space(site), self.tree)

    def logits(self, edit: Edit | None) -> Float[Tensor, "tokens vocabulary"]:
        states = self.model.states(self.prepared, edit)[:, 0]
        return self.model.readout(states[self._rows])

    @torch.no_grad()
    def hits(self, edit: Edit | None) -> Bool[np.ndarray, " instances"]:
        """Whether each wanted answer is said."""
        wrong = (self.logits(edit).argmax(-1) != self._tokens).numpy()
        return np.bincount(self._of, wrong, len(self.those)) == 0

    def loss(self, edit: Edit, *, isolating: bool) -> Tensor:
        """Cross-entropy of the wanted answers. What is to change and what is to stay have equal weight."""
        each = cross_entropy(self.logits(edit), self._tokens, reduction="none")
        cause = torch.as_tensor(self.cause[self._of])
        loss = each[cause].mean()
        return loss + each[~cause].mean() if isolating else loss


def sources_of(asked: Sequence[Asked]) -> tuple[Counterfactuals, list[int]]:
    """The tree of the source prompts up to the entity's last token, and the node of that token for each."""
    ids = [one.ids[: one.place + 1] for one in asked]
    tree = PrefixTree.build(ids, directions=[0] * len(ids), steps="every")
    return Counterfactuals(tree), tree.leaf.tolist()


def batches(
    model: LanguageModel, those: Sequence[Instance], target: str, many: int, seed: int
) -> list[Exchanges]:
    """Training batches, half of them about the target attribute."""
    rng = np.random.default_rng(seed)
    cause = [one for one in those if one.attribute == target]
    rest = [one for one in those if one.attribute != target]
    half = min(BATCH // 2, len(cause))
    orders = [
        np.resize(rng.permutation(len(some)), many * half).reshape(many, half) for some in (cause, rest)
    ]
    return [
        Exchanges(model, [*(cause[i] for i in first), *(rest[i] for i in second)], target)
        for first, second in zip(*orders, strict=True)
    ]


def examples(model: LanguageModel, those: Sequence[Instance], target: str, *, isolating: bool) -> Examples:
    """The instances as examples of a problem of interchange. The word to flip to is the answer that is wanted: the
    source's for the target attribute, and the base's for every other, which it must not lose. It is compared with all
    other answers to prompts of the attribute, because it must be the likeliest word, and not only likelier than one."""
    those = [one for one in those if isolating or one.attribute == target]
    answers: dict[str, set[Ids]] = defaultdict(set)
    for one in those:
        answers[one.attribute].add(one.own)
    rows, direction, sets = [], [], set[Ids]()
    for number, one in enumerate(those):
        step, own, other = one.differ, one.own, one.other
        wanted = (other if one.attribute == target else own)[step]
        alike = {a[step] for a in answers[one.attribute] if a[:step] == own[:step] and len(a) > step}
        rest = tuple(sorted((alike | {own[step], other[step]}) - {wanted}))
        # Both directions occur, because bases are fitted to the states of both.
        sides = ((wanted,), rest) if number % 2 == 0 else (rest, (wanted,))
        direction.append(number % 2)
        rows.append(AskedPair(one.base.ids + own[:step], one.base.place, sides))
        sets |= set(sides)
    counterfactuals, at = sources_of([one.source for one in those])
    matched = [[node] * len(row.ids) for node, row in zip(at, rows, strict=True)]
    cues = [one.base.place for one in those]
    tree = PrefixTree.build([row.ids for row in rows], cues, direction, "single", matched)
    order = tuple(sorted(sets, key=lambda ids: (len(ids), ids)))
    place = {ids: i for i, ids in enumerate(order)}
    words = np.array([[place[side] for side in row.sides] for row in rows])
    pairs = PairSet(
        f"ravel {target}",
        ("first", "second"),
        tuple(
            MinimalPair(
                one.base.prompt,
                None,
                ("own", "other"),
                group="cause" if one.attribute == target else "isolate",
            )
            for one in those
        ),
        joint=isolating,
    )
    made = Examples(pairs, tree, np.array(direction), order, words, tuple(rows), Rejected())
    return replace(made, counterfactuals=counterfactuals)


# -- edits -------------------------------------------------------------------------------------------------


class Along:
    """Gives the states of a site the parts of the source's that lie along orthonormal rows; without rows, all."""

    runs = 1

    def __init__(self, site: str, sources: Sources, rows: Float[Tensor, "some width"] | None) -> None:
        self.sites, self._sources, self._rows = frozenset({site}), sources, rows

    def __call__(self, site: str, spans: Sequence[Span], h: Tensor) -> Tensor:
        if site not in self.sites or not spans:
            return h
        moved = torch.zeros_like(h)
        for span in spans:
            change = self._sources.at(site, span) - h[span.start : span.stop]
            moved[span.start : span.stop] = (
                change if self._rows is None else change @ self._rows.T @ self._rows
            )
        return h + moved


Method = Callable[[Exchanges], Edit]
"""What a method found: the edit of some exchanges."""


def along(site: str, rows: Tensor | None) -> Method:
    return lambda on: Along(site, on.states_of(site), rows)


def of_units(model: LanguageModel, units: Sequence[Unit]) -> Method:
    """The exchange of the units that a search found. Those of a basis are orthonormal directions of the site."""
    sites = list(dict.fromkeys(unit.site for unit in units))
    if sites[0] in model.bases:
        return along(own_site(sites[0]), model.bases[sites[0]].decoder[[unit.index for unit in units]])
    space = model.unit_space(",".join(sites))
    mask = torch.zeros(1, len(space))
    mask[0, [space.flat(unit) for unit in units]] = 1.0
    values = torch.zeros(1, 1, len(space))
    return lambda on: MaskedEdit(space, mask, values, sources=on.states_of(",".join(sites)))


# -- methods -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """What every method of a table is given."""

    model: LanguageModel
    target: str
    layer: int
    those: dict[str, list[Instance]]
    updates: int = 150
    rate: float = 0.01
    seed: int = 0

    @property
    def site(self) -> str:
        return f"resid.{self.layer}"

    def problem(self, sites: str, *, isolating: bool) -> Problem:
        made = examples(self.model, self.those["train"], self.target, isolating=isolating)
        return Problem(self.model, made, sites=sites, steps="single", values="interchange")

    def training_states(self) -> tuple[Float[Tensor, "states width"], list[Instance]]:
        """The states of the base entities of the target attribute."""
        those = [one for one in self.those["train"] if one.attribute == self.target]
        sources, at = sources_of([one.base for one in those])
        rows = torch.tensor(at) - 1  # every node but the root has a row
        return sources.states(self.model, self.model.unit_space(self.site))[self.site][rows], those


Candidates = Iterator[tuple[dict[str, Any], int, Method]]
"""Settings, the number of dimensions, and what was found with them."""


def full_layer(setup: Setup, dims: Sequence[int]) -> Candidates:
    yield {}, setup.model.unit_space(setup.site).coordinates, along(setup.site, None)


def means_of(setup: Setup) -> tuple[Float[Tensor, "directions width"], Float[Tensor, "states width"]]:
    """Differences of means: the directions in which the mean states of the attribute's values differ, by falling
    difference; and the states."""
    states, those = setup.training_states()
    names = sorted({one.own for one in those})
    of = torch.tensor([names.index(one.own) for one in those])
    means = torch.stack([states[of == i].mean(0) for i in range(len(names))])
    return components(means)[1].float()[: len(names) - 1], states


def class_means(setup: Setup, dims: Sequence[int]) -> Candidates:
    directions, _ = means_of(setup)
    for k in dict.fromkeys(min(k, len(directions)) for k in dims):
        yield {}, k, along(setup.site, directions[:k])


def in_means(setup: Setup, dims: Sequence[int]) -> Candidates:
    """The coordinates that `attribution` ranks first, with isolation in its loss, in a basis that begins with the
    differences of means."""
    directions, states = means_of(setup)
    site = f"{setup.site}@means"
    model = setup.model.in_bases({site: completed("means", directions, states)})
    problem = replace(setup, model=model).problem(site, isolating=True)
    for k in dims:
        for some in (k, k // 2, k // 4):
            found = Attribution(max_units=max(1, some), kl_weight=0.0, refit=0).solve(
                problem, seed=setup.seed
            )
            yield {"search": "attribution"}, max(1, some), of_units(problem.model, found.best.units)


def trained(setup: Setup, dims: Sequence[int], *, isolating: bool, from_means: bool = False) -> Candidates:
    """DAS, and multi-task DAS, whose loss also keeps the other attributes. The rows start at random, as published, or
    with the differences of means and then the principal components of the rest. In the latter, `attribution` also takes
    the K / 2 and K / 4 coordinates that it ranks first, with isolation in its loss."""
    parts = batches(setup.model, setup.those["train"], setup.target, 16, setup.seed)
    width = setup.model.unit_space(setup.site).coordinates
    for k in dims:
        torch.manual_seed(setup.seed)
        layer = nn.Linear(width, k, bias=False)
        if from_means:
            means, states = means_of(setup)
            with torch.no_grad():
                layer.weight.copy_(completed("means", means[:k], states).decoder[:k])
        turned: Any = orthogonal(layer)
        optimiser = torch.optim.AdamW(turned.parameters(), lr=setup.rate, weight_decay=0)
        for update in range(1, setup.updates + 1):
            part = parts[update % len(parts)]
            optimiser.zero_grad()
            edit = Along(setup.site, part.states_of(setup.site), turned.weight)
            part.loss(edit, isolating=isolating).backward()
            optimiser.step()
            if update % (setup.updates // LOOKS) == 0:
                rows = turned.weight.detach().clone()
                yield {"updates": update, "rate": setup.rate}, k, along(setup.site, rows)
        if from_means:
            site = f"{setup.site}@turned"
            basis = completed("turned", rows, states)
            problem = replace(setup, model=setup.model.in_bases({site: basis})).problem(site, isolating=True)
            for some in (max(1, k // 2), max(1, k // 4)):
                found = Attribution(max_units=some, kl_weight=0.0, refit=0).solve(problem, seed=setup.seed)
                settings = {"updates": setup.updates, "rate": setup.rate, "search": "attribution"}
                yield settings, some, of_units(problem.model, found.best.units)


def ranked(setup: Setup, dims: Sequence[int], kind: str, *, isolating: bool) -> Candidates:
    """The units of a site that `attribution` ranks first."""
    problem = setup.problem(
        f"{kind.partition('@')[0]}.{setup.layer}@{kind.partition('@')[2]}".rstrip("@"), isolating=isolating
    )
    for k in dims:
        found = Attribution(max_units=k, kl_weight=0.0, refit=0).solve(problem, seed=setup.seed)
        yield {"search": "attribution"}, k, of_units(problem.model, found.best.units)


def up_to(setup: Setup, dims: Sequence[int]) -> Candidates:
    """The MLP neurons of all blocks up to the layer that our default search finds, with isolation in its loss."""
    problem = setup.problem(f"mlp.0-{setup.layer}", isolating=True)
    for k in dims:
        for some in (k // 4, k):
            found = Exchange(max_units=some, kl_weight=0.0, rounds=ROUNDS, prune=-1).solve(
                problem, seed=setup.seed
            )
            yield {"search": "exchange"}, some, of_units(problem.model, found.best.units)


def masked(setup: Setup, dims: Sequence[int], kind: str) -> Candidates:
    """The units of a site that `learned` selects with isolation in its loss."""
    problem = setup.problem(f"{kind}.{setup.layer}", isolating=True)
    for k in dims:
        search = LearnedMask(
            max_units=k, kl_weight=0.0, refit=0, prune=-1, updates=setup.updates, batch=BATCH
        )
        found = search.solve(problem, seed=setup.seed)
        yield {"search": "learned"}, k, of_units(problem.model, found.best.units)


def rotated(setup: Setup, dims: Sequence[int], *, isolating: bool) -> Candidates:
    """`@das:K`: a rotation learned for the exchange, and the coordinates that `attribution` ranks first in it, K or
    fewer."""
    for k in dims:
        problem = setup.problem(f"{setup.site}@das:{k}", isolating=isolating)
        for some in (k, k * 3 // 4, k // 2) if isolating else (k,):
            found = Attribution(max_units=some, kl_weight=0.0, refit=0).solve(problem, seed=setup.seed)
            yield {"learned": k}, some, of_units(problem.model, found.best.units)


METHODS: dict[str, Callable[[Setup, Sequence[int]], Candidates]] = {
    "full layer": full_layer,
    "class means": class_means,
    "DAS": lambda setup, dims: trained(setup, dims, isolating=False),
    "MDAS": lambda setup, dims: trained(setup, dims, isolating=True),
    "resid": lambda setup, dims: ranked(setup, dims, "resid", isolating=False),
    "resid, isolating": lambda setup, dims: ranked(setup, dims, "resid", isolating=True),
    "resid, learned, isolating": lambda setup, dims: masked(setup, dims, "resid"),
    "mlp, isolating": lambda setup, dims: ranked(setup, dims, "mlp", isolating=True),
    "mlp up to the layer, isolating": up_to,
    "resid@pca, isolating": lambda setup, dims: ranked(setup, dims, "resid@pca", isolating=True),
    "resid@means, isolating": in_means,
    "resid@das": lambda setup, dims: rotated(setup, dims, isolating=False),
    "resid@das, isolating": lambda setup, dims: rotated(setup, dims, isolating=True),
    "MDAS from class means": lambda setup, dims: trained(setup, dims, isolating=True, from_means=True),
}


# -- scores ------------------------------------------------------------------------------------------------


def scores(on: Exchanges, hits: Bool[np.ndarray, " instances"]) -> dict[str, Any]:
    """Cause, isolate and disentangle with 95% intervals. Instances with the same base entity are one cluster."""
    names = np.array([one.attribute for one in on.those])
    clusters = np.unique([one.base.entity for one in on.those], return_inverse=True)[1]
    others = sorted(set(names) - {on.target})

    def of(chosen: np.ndarray) -> dict[str, float]:
        cause = hits[chosen][names[chosen] == on.target]
        kept = [hits[chosen][names[chosen] == name] for name in others]
        if not len(cause) or not all(map(len, kept)):
            return {}
        isolate = float(np.mean([some.mean() for some in kept]))
        return {
            "disentangle": (float(cause.mean()) + isolate) / 2,
            "cause": float(cause.mean()),
            "isolate": isolate,
        }

    rng, members = (
        np.random.default_rng(0),
        [np.flatnonzero(clusters == c) for c in range(clusters.max() + 1)],
    )
    drawn = [
        of(np.concatenate([members[c] for c in rng.integers(len(members), size=len(members))]))
        for _ in range(500)
    ]
    value = of(np.arange(len(hits)))
    found: dict[str, Any] = {"n": len(hits), "entities": len(members)}
    for name in value:
        ends = np.quantile([one[name] for one in drawn if one], [0.025, 0.975])
        found[name] = [value[name], *map(float, ends)]
    share = share_of(hits[names == on.target], clusters[names == on.target])
    found["cause"] = [share.value, share.low, share.high]  # a bootstrap has no width at 0% and 100%
    found["by_attribute"] = {name: float(hits[names == name].mean()) for name in others}
    return found


def rows_of(setup: Setup, methods: Sequence[str], dims: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A row for each method: its best settings on validation instances, and its scores on test instances."""
    on = {
        name: Exchanges(setup.model, setup.those[name], setup.target) for name in ("val", "entity", "prompt")
    }
    for name in methods:
        started, tried = time.process_time(), []
        for settings, k, method in METHODS[name](setup, dims):
            val = scores(on["val"], on["val"].hits(method(on["val"])))
            tried.append((val["disentangle"][0], settings, k, method, val))
            print(f"  {name} {k} {settings}: {_said(val)} {time.process_time() - started:.0f} s", flush=True)
        if not tried:
            continue
        # With equal scores, fewer dimensions.
        _, settings, k, method, val = max(tried, key=lambda one: (one[0], -one[2]))
        row = {"method": name, "dims": k, "settings": settings, "val": val["disentangle"]}
        for split in ("entity", "prompt"):
            row[split] = scores(on[split], on[split].hits(method(on[split])))
            print(f"{name} {k}, held-out {split}: {_said(row[split])}", flush=True)
        tries = [{"dims": k, **some, "disentangle": score} for score, some, k, _, _ in tried]
        yield row | {"tried": tries, "cpu_seconds": round(time.process_time() - started, 1)}


def _said(found: dict[str, Any]) -> str:
    return " / ".join(f"{found[name][0]:.2f}" for name in ("disentangle", "cause", "isolate"))


# -- the command -------------------------------------------------------------------------------------------


def known(args: argparse.Namespace, model: LanguageModel) -> dict[str, list[Instance]]:
    """The instances, from the answers in the working folder, which are asked first if they are not there."""
    ravel = read(args.folder, args.type)
    sizes = Sizes(
        **{one.name: getattr(args, one.name) for one in fields(Sizes) if getattr(args, one.name, None)}
    )
    path = Path(args.work) / f"{model.name}-{args.type}.json"
    right: dict[str, Right] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for attribute in ravel.prompts:
        if attribute not in right:
            right[attribute] = what_it_knows(model, ravel, attribute, sizes)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(right))
    right = {
        name: {prompt: {entity: tuple(ids) for entity, ids in told.items()} for prompt, told in some.items()}
        for name, some in right.items()
        if some
    }
    if len(right) < 2:
        raise PivotalError(
            f"Isolation needs two attributes that the model knows, but {model.name} knows {len(right)} of {args.type}. "
            "Use another type, or a larger model."
        )
    return instances(model, ravel, right, sizes)


def look(
    model: LanguageModel, those: dict[str, list[Instance]], layers: Sequence[int], targets: Sequence[str]
) -> None:
    """Print how many instances there are, and what an exchange of whole layers does to them."""
    for split, some in those.items():
        counts = {
            name: sum(one.attribute == name for one in some) for name in {one.attribute for one in some}
        }
        print(split, counts, flush=True)
    for target in targets or sorted({one.attribute for one in those["val"]}):
        on = Exchanges(model, those["val"], target)
        print(f"{target}, untouched: {_said(scores(on, on.hits(None)))}")
        for layer in layers:
            site = f"resid.{layer}"
            print(f"{target}, {site}: {_said(scores(on, on.hits(along(site, None)(on))))}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("model")
    parser.add_argument("type")
    parser.add_argument("--work", default="runs/ravel", help="where the answers of models are kept")
    parser.add_argument(
        "--layers", nargs="*", type=int, help="layers to exchange whole; by default six of them"
    )
    parser.add_argument("--layer", type=int, help="the layer at which every method works")
    parser.add_argument("--attributes", nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--dims", nargs="*", type=int, default=[16, 48])
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=int)
    parser.add_argument("--test", type=int)
    parser.add_argument(
        "--entities", nargs=3, type=int, help="the most entities that are asked about, by split"
    )
    parser.add_argument("--out", default="docs/results/ravel.jsonl")
    args = parser.parse_args()
    try:
        read(args.folder, args.type)  # before a model is loaded
        model = load_model(args.model, device="cpu")
        those = known(args, model)
        if args.layer is None:
            layers = args.layers or range(1, len(model.layers), max(1, len(model.layers) // 6))
            look(model, those, layers, args.attributes)
            return 0
        for target in args.attributes:
            setup = Setup(model, target, args.layer, those, args.updates, args.rate, args.seed)
            about = {"model": model.name, "type": args.type, "attribute": target, "layer": args.layer}
            for row in rows_of(setup, args.methods, args.dims):
                with Path(args.out).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(about | row) + "\n")
    except PivotalError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
