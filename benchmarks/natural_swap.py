"""What a real change of number costs: KL between a sentence and the same sentence with its subject's other form.

    python benchmarks/natural_swap.py [MODEL] [--sentences 1000]

An intervention that turns a singular into a plural cannot be cheaper than this and still do what the plural does; one
that is cheaper does less. It is the yardstick for the KL of number interventions. Beside it stands how often the other
form turns the preference for the verb, which is what an intervention that did the same would flip.
"""

from __future__ import annotations

import argparse

import torch

import pivotal as pv
from pivotal.errors import PivotalError
from pivotal.problem import divergence
from pivotal.tree import PrefixTree

OTHER = {"singular": "plural", "plural": "singular"}


def asked(model: pv.LanguageModel, pair: pv.MinimalPair) -> tuple[int, int] | None:
    """The tokens of the two words, if the model has them."""
    try:
        first, second = (model.single_token(word) for word in pair.words)
    except PivotalError:
        return None
    return first, second


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="wiki-lstm")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    model = pv.load_model(args.model, device=args.device)
    pairs = pv.load_phenomenon("number-agreement")
    form = {(dict(p.lexemes)["subject"], p.label): p.cue_word for p in pairs}
    words, texts = [], []
    for pair in pairs.sample(args.sentences, seed=0):
        swapped = pair.prefix.split()
        swapped[pair.cue] = form[dict(pair.lexemes)["subject"], OTHER[pair.label]]
        both = [model.encode(text).ids for text in (pair.prefix, " ".join(swapped))]
        tokens = asked(model, pair)
        # Positions are compared one by one, which needs as many tokens on either side.
        if tokens is not None and len(both[0]) == len(both[1]):
            words.append(tokens)
            texts += both
    tree = PrefixTree.build(texts)
    states = model.states(model.prepare(tree))[:, 0]

    def path(leaf: int) -> list[int]:
        return [*path(int(tree.parent[leaf])), int(tree.live_row[leaf])] if leaf else []

    total, at_verb, turned = 0.0, 0.0, 0
    for i, (first, second) in enumerate(words):
        rows = [path(int(tree.leaf[2 * i + side])) for side in (0, 1)]
        logits = [model.readout(states[row]) for row in rows]
        kls = divergence(logits[0], logits[1][:, None])[:, 0]
        total += float(kls.sum()) / (len(kls) + 1) / len(words)
        at_verb += float(kls[-1]) / len(words)
        prefers = [bool(side[-1, first] > side[-1, second]) for side in logits]
        turned += prefers[0] != prefers[1]
    print(
        f"{args.model}: KL over all positions {total:.3f}, at the verb {at_verb:.3f}; "
        f"the other form turns {turned / len(words):.1%} of the preferences ({len(words)} sentences)"
    )


if __name__ == "__main__":
    main()
