"""What a real change of number costs: KL between a sentence and the same sentence with its subject's other form.

    python benchmarks/natural_swap.py

An intervention that turns a singular into a plural cannot be cheaper than this and still do what the plural does; one
that is cheaper does less. It is the yardstick for the KL of number interventions.
"""

from __future__ import annotations

import torch

import pivotal as pv
from pivotal.tree import PrefixTree


@torch.no_grad()
def main() -> None:
    model = pv.load_model("wiki-lstm", device="cpu")
    pairs = pv.load_phenomenon("number-agreement")
    form = {(dict(p.lexemes)["subject"], p.label): p.cue_word for p in pairs}
    other = {"singular": "plural", "plural": "singular"}
    sample = pairs.sample(1000, seed=0)
    texts = []
    for pair in sample:
        words = pair.prefix.split()
        words[pair.cue] = form[dict(pair.lexemes)["subject"], other[pair.label]]
        texts += [pair.prefix, " ".join(words)]
    tree = PrefixTree.build([model.encode(text).ids for text in texts])
    log_p = model.readout(model.states(model.prepare(tree))[:, 0]).log_softmax(-1)

    def path(leaf: int) -> list[int]:
        return [*path(int(tree.parent[leaf])), int(tree.live_row[leaf])] if leaf else []

    total, at_verb = 0.0, 0.0
    for i in range(len(sample)):
        kls = [
            float((log_p[a].exp() * (log_p[a] - log_p[b])).sum())
            for a, b in zip(path(int(tree.leaf[2 * i])), path(int(tree.leaf[2 * i + 1])), strict=True)
        ]
        total += sum(kls) / (len(kls) + 1) / len(sample)
        at_verb += kls[-1] / len(sample)
    print(f"KL over all positions {total:.3f}; at the verb {at_verb:.3f} ({len(sample)} sentences)")


if __name__ == "__main__":
    main()
