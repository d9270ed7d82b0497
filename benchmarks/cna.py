"""Contrastive neuron attribution (CNA, Herring et al. 2026, arXiv 2605.12290) beside our searches, on the same jobs.

    python benchmarks/cna.py [--jobs past-present …] [--model smollm2-135m] [--out docs/results/cna.jsonl]
    python benchmarks/cna.py --control [--model …]

CNA, from its description: record the MLP neurons at the last token of each prompt, take the difference of their means
between two lists of prompts, leave out the neurons that are among the most active ones after most ordinary sentences,
and keep the 0.1% with the largest differences. At inference these are scaled by one factor. Its settings are swept here
on training pairs that it does not rank with: share, factor (one for each direction), and the last token or every token.

Our side gets the same training pairs, and chooses its number of units on the same ones as CNA's settings. Both are
scored on the same held-out pairs. A row of the output is a method on a job. `fidelity` is the share of
KL(counterfactual || untouched) that the edit closes where the next word is asked. `--control` compares the gradient
attribution of single units with what setting each of them does on held-out pairs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from pivotal.evidence.fidelity import Gap
from pivotal.models import load_model
from pivotal.models.base import LanguageModel
from pivotal.models.edits import MaskedEdit, dense
from pivotal.models.tree import PrefixTree
from pivotal.problem.problem import Problem
from pivotal.problem.text import sentences_of, tokens_of
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon
from pivotal.report.tables import counted
from pivotal.searches.attribution import Attribution, Ranked
from pivotal.searches.base import interventions_of, most_units
from pivotal.searches.exchange import Exchange
from pivotal.searches.tools.trials import alone

HERE = Path(__file__).parent
JOBS = {
    "number-agreement": "number-agreement",
    "pronoun-gender-kinship": "pronoun-gender-kinship",
    "reflexive-gender": "reflexive-gender",
    "past-present": f"prompts:{HERE}/prompts/past.txt,{HERE}/prompts/present.txt",
}
PUBLISHED = 0.001
SHARES = (0.0003, 0.001, 0.003, 0.01)
FACTORS = (-2.0, 0.0, 2.0, 4.0, 8.0)
SIZES = (40, 12, 32)
"""The most pairs to rank and learn with, to choose settings with, and to score on."""
BATCH = 32
"""The prefixes of an update of our searches."""
UNITS = (2, 4, 8)
"""The most units of our default search among which our best settings are chosen."""
UNIVERSAL, ORDINARY = 0.8, 30


# -- the rival --------------------------------------------------------------------------------------------------------


def contrast_of(problem: Problem) -> Tensor:
    """The difference of the means at the last token between the prompts of the two labels. Without words, the label of
    a prompt is its list; with words, it is the word that the untouched model prefers."""
    last = problem.at_last_step()
    states, sums = torch.cat(last.untouched_states(list(last.space)), 1), []
    row = np.cumsum(last.tree.edited) - 1  # only the last tokens are edited, and only edited nodes have a row
    for side in range(2):
        leaves = np.unique(last.tree.leaf[last.direction == 1 - side])
        sums.append(states[torch.as_tensor(row[leaves])].mean(0))
    return sums[0] - sums[1]


def universal(model: LanguageModel, space: Any, share: float) -> Tensor:
    """The neurons that are among the most active ones at the last token of most ordinary sentences."""
    lines = sentences_of()[:ORDINARY]
    ids = [tokens_of(model, line) for line in lines]
    seen = torch.zeros(len(space))
    for tokens in ids:
        tree = PrefixTree.build([tokens], [len(tokens) - 1], [0], "single")
        recorder = _Recorder(space)
        model.states(model.prepare(tree), recorder)
        states = torch.cat([recorder.seen[site.name] for site in space.sites])
        seen[states.abs().topk(max(1, round(share * len(space)))).indices] += 1
    return seen > UNIVERSAL * len(ids)


class _Recorder:
    """An edit of nothing that keeps the states of the last edited node."""

    runs = 1

    def __init__(self, space: Any) -> None:
        self.sites, self.seen = frozenset(site.name for site in space.sites), {}

    def __call__(self, site: str, spans: Any, h: Tensor) -> Tensor:
        for span in spans:
            self.seen[site] = h[span.rows][-1, 0].float()
        return h


@dataclass
class Scaled:
    """A masked run that scales units: h -> (1 - mask) h with mask = 1 - factor."""

    mask: Tensor
    last: bool

    def states(self, problem: Problem) -> Tensor:
        asked = problem.at_last_step() if self.last else problem
        zeros = torch.zeros(1, 2, problem.space.coordinates)
        states = asked.run(self.mask[None], zeros).states
        if not self.last:
            return states
        # Every node before the last one is as the untouched model computes it.
        whole = problem.tensors.clean[:, None].clone()
        whole[torch.as_tensor(problem.tree.live_row[problem.tree.leaf])] = states[
            torch.as_tensor(asked.tree.live_row[asked.tree.leaf])
        ]
        return whole


def scaled(ranked: Tensor, share: float, factors: tuple[float, float], last: bool) -> Scaled:
    units = ranked[: max(1, round(share * len(ranked)))]
    mask = torch.zeros(2, len(ranked))
    for direction, factor in enumerate(factors):
        mask[direction, units] = 1 - factor
    return Scaled(mask, last)


def left_by_direction(problem: Problem, states: Tensor) -> np.ndarray:
    """KL(counterfactual || edited) where the next word is asked, summed over the prefixes of each direction."""
    rows = torch.as_tensor(problem.tree.live_row[problem.tree.leaf])
    kl = problem.counterfactual.at(states, rows)[:, 0].numpy()
    return np.array([kl[problem.direction == d].sum() for d in range(2)])


def best_settings(problem: Problem, ranked: Tensor) -> tuple[float, tuple[float, float], bool, int]:
    """The share, the factor of each direction and the tokens that leave least KL, and the number of settings tried."""
    found, tried = [], 0
    for last in (False, True):
        for share in SHARES:
            left = np.array(
                [
                    left_by_direction(problem, scaled(ranked, share, (f, f), last).states(problem))
                    for f in FACTORS
                ]
            )
            tried += len(FACTORS)
            chosen = left.argmin(0)
            found.append((left.min(0).sum(), share, (FACTORS[chosen[0]], FACTORS[chosen[1]]), last))
    _, share, factors, last = min(found)
    return share, factors, last, tried


# -- its ranking with our values --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values(Attribution):
    """The first units of a ranking that is given, with fitted values."""

    name: ClassVar[str] = "values"
    given: Any = None

    def rank(self, problem: Problem, seed: int) -> Ranked:
        return self.given


def begun(problem: Problem, given: Ranked, folder: Path, **few: Any) -> Exchange:
    """Our default search, begun with the first units of a ranking."""
    score, values = given
    mask = torch.zeros(1, len(problem.labels), len(problem.space), dtype=torch.bool)
    mask[..., score.topk(most_units(None, problem)).indices] = True
    interventions_of(problem, mask, values[None])[0].save(folder)
    return Exchange(start=str(folder), **few)


# -- scores -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def scores(test: Problem, states: Tensor, mask: Tensor, values: Tensor) -> dict[str, Any]:
    outcome = test.outcome_of(states)
    ((asked, _),) = Gap(test, states).closed
    flipped = outcome.flipped()[0].numpy()
    return {
        "flips": float(flipped.mean()),
        "flips_by_direction": [float(flipped[test.direction == d].mean()) for d in range(2)],
        "fidelity": asked.value,
        "fidelity_interval": [asked.low, asked.high],
        "kl": float(test.untouched.mean(states)),
        "text": text_factor(test, mask, values),
        "prefixes": len(np.unique(test.tree.leaf)),
    }


def text_factor(test: Problem, mask: Tensor, values: Tensor) -> float:
    """The factor by which the perplexity of the bundled text grows with the edit at every token, in the direction that
    costs more."""
    model, space = test.model, test.space
    ids = [tokens for line in sentences_of()[:ORDINARY] if len(tokens := tokens_of(model, line)) > 1]
    tree = PrefixTree.build(ids, [0] * len(ids), [0] * len(ids), "every")
    runs = torch.cat([torch.zeros_like(mask[:1]), mask])[:, None]
    to = torch.cat([values[:1], values])[:, None]
    edit = MaskedEdit(space, runs.expand(-1, 2, -1), to.expand(-1, 2, -1))
    states = model.states(model.prepare(tree), edit)
    nats = np.zeros(3)
    for tokens, leaf in zip(ids, tree.leaf, strict=True):
        rows = torch.as_tensor(tree.live_row[tree.path(int(leaf))[:-1]])
        log_p = model.readout(states[rows]).log_softmax(-1)
        nats -= log_p[torch.arange(len(rows)), :, torch.tensor(tokens[1:])].sum(0).double().numpy()
    total = sum(len(tokens) - 1 for tokens in ids)
    return float(np.exp((nats[1:] - nats[0]).max() / total))


def sites_of(model: LanguageModel) -> str:
    """MLP neurons, or all units of a recurrent model."""
    return "mlp" if any(site.name.startswith("mlp") for site in model.sites) else "all"


def best_units(train: Problem, swept: Problem, units: Sequence[int], few: dict[str, Any]) -> int:
    """The most units with which our default search, on the training pairs alone, leaves least KL on the others."""
    left = {}
    for many in units:
        found = Exchange(max_units=many, **few).solve(train, runs=1, seed=0).best
        outcome = swept.run(*dense(found, swept.space, swept.model.device))
        left[many] = left_by_direction(swept, outcome.states).sum()
    return min(left, key=left.__getitem__)


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def pairs_of(job: str, sizes: Sequence[int]) -> tuple[PairSet, PairSet, PairSet]:
    """The pairs to learn from, to choose settings with, and to score on. No prefix is in two parts."""
    pairs = load_phenomenon(JOBS[job])
    learned, chosen, scored = sizes
    rest, test = pairs.at_most(2 * sum(sizes)).split(scored, seed=0)
    train, swept = rest.split(chosen, seed=0)
    return train.at_most(learned), swept, test


def rows_of(
    model: LanguageModel,
    job: str,
    sizes: Sequence[int],
    units: Sequence[int],
    asked: Sequence[str],
) -> Iterator[dict[str, Any]]:
    train_pairs, swept_pairs, test_pairs = pairs_of(job, sizes)
    train = Problem(model, train_pairs, sites=sites_of(model), objective="counterfactual")
    swept, test = train.on(swept_pairs), train.on(test_pairs)
    whole = train.on(PairSet(train_pairs.name, train_pairs.labels, (*train_pairs, *swept_pairs)))
    about = {"job": job, "model": model.name, "all_units": len(train.space)}

    def row(method: str, settings: str, units: int, seconds: float, found: dict[str, Any]) -> dict[str, Any]:
        return {**about, "method": method, "settings": settings, "units": units, "seconds": seconds, **found}

    def of_scaled(method: str, edit: Scaled, settings: str, seconds: float) -> dict[str, Any]:
        zeros = torch.zeros(2, train.space.coordinates)
        units = int((edit.mask != 0).any(0).sum())
        found = scores(test, edit.states(test), edit.mask, zeros)
        return row(method, settings, units, seconds, found)

    with torch.no_grad():
        skipped, blacklist = measured(lambda: universal(model, train.space, PUBLISHED))
        delta, ranking = measured(lambda: contrast_of(train).abs().masked_fill(skipped, -1))
        ranked = delta.argsort(descending=True)
        # Towards the first label the neurons are amplified, towards the second they are switched off.
        published = scaled(ranked, PUBLISHED, (2.0, 0.0), last=False)
        if not asked:
            yield of_scaled("CNA, as published", published, "0.1%, x 2 and x 0", blacklist + ranking)
            (share, factors, last, tried), sweep = measured(lambda: best_settings(swept, ranked))
            which = "last token" if last else "every token"
            settings = f"{share:.2%}, x {factors[0]:g} and x {factors[1]:g}, {which}; the best of {tried}"
            best = scaled(ranked, share, factors, last)
            yield of_scaled("CNA, best settings", best, settings, blacklist + ranking + sweep)
    many = max(1, round(PUBLISHED * len(train.space)))
    few: dict[str, Any] = {"batch": BATCH, "prefixes": sizes[0]}
    ours, ranking_ours = measured(lambda: Attribution(**few).rank(whole, 0))
    ends, choosing = measured(lambda: alone(whole.sample(sizes[0]), Attribution(**few).terms)[1])
    theirs, ranking_theirs = (delta, ends), blacklist + ranking + choosing
    few_swaps, folder = {**few, "sample": BATCH}, tempfile.TemporaryDirectory()
    methods: list[tuple[str, Attribution | Exchange, float]] = [
        ("exchange, our default search", Exchange(**few_swaps), 0.0),
        ("CNA's ranking, our values", Values(max_units=many, given=theirs, **few), ranking_theirs),
        ("our ranking, our values", Values(max_units=many, given=ours, **few), ranking_ours),
        ("exchange from CNA's ranking", begun(whole, theirs, Path(folder.name), **few_swaps), ranking_theirs),
    ]
    if units:
        most, choosing_ours = measured(lambda: best_units(train, swept, units, few_swaps))
        best_of_ours = Exchange(max_units=most, **few_swaps)
        methods.insert(1, ("exchange, best settings", best_of_ours, choosing_ours))
    for method, search, before in methods:
        if asked and method not in asked:
            continue
        found, seconds = measured(lambda search=search: search.solve(whole, runs=1, seed=0).best)
        seconds += before
        mask, values = dense(found, test.space, model.device)
        with torch.no_grad():
            outcome = test.run(mask, values)
        given = f"at most {counted(search.max_units or 4, 'unit')}, natural values"
        if method.endswith("best settings"):
            given += f"; the best of {len(units)}"
        yield row(method, given, len(found), seconds, scores(test, outcome.states, mask[0], values[0]))


# -- does attribution predict control? --------------------------------------------------------------------------------


@torch.no_grad()
def effects(problem: Problem, units: list[int], values: Tensor) -> np.ndarray:
    """The mean change of the log odds towards the target if each unit alone is set."""
    found = []
    for some in np.array_split(units, max(1, len(units) // problem.runs_at_once())):
        mask = torch.zeros(len(some), 2, len(problem.space))
        mask[torch.arange(len(some)), :, torch.tensor(some)] = 1.0
        ratio = problem.run(mask, values.expand(len(some), -1, -1)).log_ratio
        found.append((problem.clean_log_ratio - ratio).mean(1).numpy())
    return np.concatenate(found)


def control_of(model: LanguageModel, job: str, sizes: Sequence[int], most: int) -> dict[str, Any]:
    """The rank correlation of attribution on training pairs with the effects of single units on held-out pairs."""
    train_pairs, _, test_pairs = pairs_of(job, sizes)
    train = Problem(model, train_pairs, sites=sites_of(model))
    test = train.on(test_pairs).sample(16)
    noise, row = np.random.default_rng(0), {"job": job, "model": model.name, "control": {}}
    for method in ("gradient", "integrated"):
        score, values = Attribution(method=method).rank(train, 0)
        order = score.argsort(descending=True).tolist()
        top, rest = order[: most // 2], order[most // 2 :]
        drawn = top + noise.permutation(rest)[: most - len(top)].tolist()
        effect = effects(test, drawn, values)
        row["control"][method] = {
            "units": len(drawn),
            "all": spearman(score[drawn].numpy(), effect),
            "top": spearman(score[top].numpy(), effect[: len(top)]),
            "mean_effect_top": float(effect[: len(top)].mean()),
            "mean_effect_others": float(effect[len(top) :].mean()),
            "wrong_way_top": float((effect[: len(top)] < 0).mean()),
        }
    return row


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.argsort().argsort(), other.argsort().argsort())[0, 1])


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    asked.add_argument("--model", default="smollm2-135m")
    asked.add_argument(
        "--sizes", nargs=3, type=int, default=SIZES, help="pairs to learn from, to sweep on, to score on"
    )
    asked.add_argument(
        "--units",
        nargs="*",
        type=int,
        default=UNITS,
        help="the most units that our best settings choose from",
    )
    asked.add_argument(
        "--methods", nargs="+", default=[], help="only these of our methods, by their names in rows"
    )
    asked.add_argument("--out", type=Path, default=HERE.parent / "docs" / "results" / "cna.jsonl")
    asked.add_argument(
        "--control", action="store_true", help="attribution against the effects of single units"
    )
    asked.add_argument("--most", type=int, default=120, help="units whose effects --control measures")
    given = asked.parse_args()
    torch.set_num_threads(1)
    model = load_model(given.model)
    for job in given.jobs:
        rows = (
            [control_of(model, job, given.sizes, given.most)]
            if given.control
            else rows_of(model, job, given.sizes, given.units, given.methods)
        )
        for row in rows:
            print(json.dumps(row), flush=True)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
