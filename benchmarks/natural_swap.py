"""What a change of number costs in KL, by two yardsticks for the KL of number interventions.

    python benchmarks/natural_swap.py [MODEL] [--sentences 1000]

The real thing: the same sentence with its subject's other form. An intervention that turns a singular into a plural
cannot be cheaper than this and still do what the plural does; one that is cheaper does less. Beside it stands how often
the other form turns the preference for the verb, which is what an intervention that did the same would flip.

The cleanest switch: at the verb alone, all verbs of the wrong number are made likelier than those of the right one by
the same factor, and nothing else is touched. No unit is that clean. What it takes to flip a share of the preferences is
what the switching of number as such costs; an intervention that is cheaper switches less than the number of verbs.
"""

from __future__ import annotations

import argparse

import torch
from jaxtyping import Float
from torch import Tensor

import pivotal
from pivotal.errors import PivotalError
from pivotal.models.tree import PrefixTree
from pivotal.problem.divergence import divergence

OTHER = {"singular": "plural", "plural": "singular"}
SHARES = (0.5, 0.65, 0.8, 0.9, 0.95, 0.97, 0.99)
COMMON = [
    "is are",
    "was were",
    "has have",
    "does do",
    "seems seem",
    "goes go",
    "makes make",
    "gets get",
    "comes come",
    "takes take",
    "says say",
    "knows know",
    "wants want",
    "needs need",
    "looks look",
    "works work",
    "lives live",
    "uses use",
    "gives give",
    "finds find",
    "thinks think",
    "tells tell",
    "becomes become",
    "begins begin",
    "includes include",
    "stands stand",
    "sees see",
    "likes like",
    "loves love",
    "loses lose",
    "plays play",
    "feels feel",
    "runs run",
    "keeps keep",
    "holds hold",
]
"""Verbs that a model expects after a subject more than those it is asked about."""


def tokens_of(model: pivotal.models.LanguageModel, words: tuple[str, str]) -> tuple[int, int] | None:
    """The tokens of the two words, if each of them is one token of the model."""
    try:
        first, second = (model.tokens_of(word) for word in words)
    except PivotalError:
        return None
    return (first[0], second[0]) if len(first) == len(second) == 1 else None


def verbs(model: pivotal.models.LanguageModel, forms: set[tuple[str, str]]) -> dict[str, list[int]]:
    """The tokens of verbs by number, as far as the model has both."""
    found = [tokens for words in sorted(forms) if (tokens := tokens_of(model, words)) is not None]
    singular, plural = zip(*found, strict=True)
    return {"singular": sorted(set(singular)), "plural": sorted(set(plural))}


def cleanest(
    logits: Float[Tensor, "sentences words"],
    words: list[tuple[int, int]],
    labels: list[str],
    positions: list[int],
    by_number: dict[str, list[int]],
) -> list[tuple[float, float, float]]:
    """For some shares of the preferences: the strength that turns so many, in nats, and its KL over all positions."""
    before = logits.double().log_softmax(-1)
    away = torch.zeros_like(before)
    margin = torch.zeros(len(words), dtype=torch.float64)
    for i, (singular, plural) in enumerate(words):
        right, wrong = (singular, plural) if labels[i] == "singular" else (plural, singular)
        margin[i] = before[i, right] - before[i, wrong]
        away[i, by_number[labels[i]]], away[i, by_number[OTHER[labels[i]]]] = -0.5, 0.5
    rows = []
    for share in SHARES:
        strength = float(margin.clamp(min=0).quantile(share))
        after = (before + strength * away).log_softmax(-1)
        kl = (before.exp() * (before - after)).sum(-1) / torch.tensor(positions)
        rows.append((share, strength, float(kl.mean())))
    return rows


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="wiki-lstm")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    model = pivotal.load_model(args.model, device=args.device)
    pairs = pivotal.load_phenomenon("number-agreement")
    form = {(dict(p.lexemes)["subject"], p.label): p.cue_word for p in pairs}
    words, labels, texts = [], [], []
    for pair in pairs.sample(args.sentences, seed=0):
        swapped = pair.prefix.split()
        swapped[pair.cue] = form[dict(pair.lexemes)["subject"], OTHER[pair.label]]
        both = [model.encode(text).ids for text in (pair.prefix, " ".join(swapped))]
        tokens = tokens_of(model, pair.words)
        # Positions are compared one by one, which needs as many tokens on either side.
        if tokens is not None and len(both[0]) == len(both[1]):
            words.append(tokens)
            labels.append(pair.label)
            texts += both
    tree = PrefixTree.build(texts)
    states = model.states(model.prepare(tree))[:, 0]

    def path(leaf: int) -> list[int]:
        return [*path(int(tree.parent[leaf])), int(tree.live_row[leaf])] if leaf else []

    total, at_verb, turned = 0.0, 0.0, 0
    verb, positions = [], []
    for i, (first, second) in enumerate(words):
        rows = [path(int(tree.leaf[2 * i + side])) for side in (0, 1)]
        logits = [model.readout(states[row]) for row in rows]
        verb.append(logits[0][-1].cpu())
        positions.append(len(rows[0]) + 1)
        kls = divergence(logits[0], logits[1][:, None])[:, 0]
        total += float(kls.sum()) / (len(kls) + 1) / len(words)
        at_verb += float(kls[-1]) / len(words)
        prefers = [bool(side[-1, first] > side[-1, second]) for side in logits]
        turned += prefers[0] != prefers[1]
    print(
        f"{args.model}: KL over all positions {total:.3f}, at the verb {at_verb:.3f}; "
        f"the other form turns {turned / len(words):.1%} of the preferences ({len(words)} sentences)"
    )
    asked = {pair.words for pair in pairs}
    common = {(one, other) for one, other in map(str.split, COMMON)}
    for what, forms in (("asked about and common", asked | common), ("asked about", asked)):
        by_number = verbs(model, forms)
        print(f"the cleanest switch of {len(by_number['singular'])} verbs, those {what}:")
        for share, strength, kl in cleanest(torch.stack(verb), words, labels, positions, by_number):
            print(f"  {strength:.1f} nats flip {share:.0%} at a KL of {kl:.3f}")


if __name__ == "__main__":
    main()
