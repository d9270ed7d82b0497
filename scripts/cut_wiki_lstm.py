"""Cut a large LSTM language model down to the one that comes with the package, and measure what that costs.

Kept: the most frequent words of a corpus and every word that the phenomena need. The rows of the embedding
and of the decoder are carried over, in int8; the recurrent matrices are rounded to int8 here. It
stops with an error, and writes nothing, if agreement in any construction moves by more than half a point.

    python scripts/cut_wiki_lstm.py SOURCE OUT --words 12288 --corpus train.txt.xz --text test.txt.xz \\
        --also lakretz.jsonl --also vig.jsonl
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from pivotal.models.recurrent.weights import dequantised
from pivotal.questions.pairs import PairSet
from pivotal.questions.phenomena import load_phenomenon

EOS, UNK = "<eos>", "<unk>"
OURS = ("number-agreement", "gender-bias")
CALIBRATION = 3000
HALF_A_POINT = 0.005

Sentence = list[str]
Stored = dict[str, Tensor]
"""What a file holds: matrices as `X` or as `X.int8` and `X.scale`."""


@dataclass(frozen=True)
class Model:
    """A language model in float32: one `nn.LSTM` per layer, so that every layer can be looked at."""

    index: dict[str, int]
    layers: list[nn.LSTM]
    weights: dict[str, Tensor]

    @classmethod
    def of(cls, words: list[str], stored: Stored) -> Model:
        weights = dequantised(stored)
        layers: list[nn.LSTM] = []
        while f"rnn.weight_ih_l{len(layers)}" in weights:
            names = [f"{kind}_{side}_l" for kind in ("weight", "bias") for side in ("ih", "hh")]
            state = {f"{name}0": weights[f"rnn.{name}{len(layers)}"] for name in names}
            layer = nn.LSTM(state["weight_ih_l0"].shape[1], state["weight_hh_l0"].shape[1], batch_first=True)
            layer.load_state_dict(state)
            layers.append(layer)
        return cls({word: i for i, word in enumerate(words)}, layers, weights)

    def ids(self, words: Sentence) -> Tensor:
        return torch.tensor([self.index.get(word, self.index[UNK]) for word in words])

    def read(self, batch: list[Sentence]) -> list[Tensor]:
        """What goes into each layer and comes out of the last one, each (sentences, longest, width)."""
        padded = pad_sequence([self.ids(sentence) for sentence in batch], batch_first=True)
        stages = [self.weights["encoder.weight"][padded]]
        for layer in self.layers:
            stages.append(layer(stages[-1])[0])
        return stages


def sentences(path: Path, count: int | None = None) -> Iterator[Sentence]:
    """One tokenised sentence per line, in a file packed with xz."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in islice(lines, count):
            yield line.split()


def batches(texts: list[Sentence], size: int = 128) -> Iterator[list[Sentence]]:
    """Sentences of like length together, each preceded by `<eos>`: every one is read from the zero state."""
    ordered = sorted(([EOS, *text] for text in texts), key=len)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def unpadded(stage: Tensor, batch: list[Sentence]) -> Tensor:
    return torch.cat([row[: len(sentence)] for row, sentence in zip(stage, batch, strict=True)])


def choose_words(known: list[str], needed: set[str], counts: Counter[str], size: int) -> list[str]:
    """`<eos>`, `<unk>`, then needed and frequent words, the most frequent first."""
    rest = [word for word in known if word not in (EOS, UNK)]
    by_count = sorted(rest, key=lambda word: -counts[word])
    kept = {word for word in rest if word in needed}
    kept.update(islice((word for word in by_count if word not in kept), size - 2 - len(kept)))
    return [EOS, UNK, *(word for word in by_count if word in kept)]


def best_scale(weight: Tensor) -> Tensor:
    """The step of each row that gives the least squared error; clipping a few extremes can be worth it."""
    largest = weight.abs().amax(1, keepdim=True).clamp_min(1e-8) / 127
    scales = largest * torch.linspace(0.4, 1.0, 61)
    choices = ((weight / s).round().clamp(-127, 127) * s for s in scales.T[..., None])
    errors = torch.stack([(choice - weight).square().sum(1) for choice in choices])
    return scales.gather(1, errors.argmin(0)[:, None])[:, 0]


def rounded(weight: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The int8 matrix and scales whose *products* with `inputs` come closest to the matrix's own.

    Column by column, the columns still to come make up for the error just made (GPTQ, Frantar et al. 2023).
    Here it leaves a third less error in the margin of two logits than rounding every weight to the nearest.
    """
    scale = best_scale(weight)
    gram = (inputs.T @ inputs / len(inputs)).double()
    gram += 0.01 * gram.diagonal().mean() * torch.eye(len(gram))
    order = gram.diagonal().argsort(descending=True)
    upper = torch.linalg.cholesky(torch.linalg.inv(gram[order][:, order]), upper=True)
    left, result = weight.double()[:, order], torch.empty_like(weight, dtype=torch.int8)
    for column, place in enumerate(order.tolist()):
        steps = (left[:, column] / scale).round().clamp(-127, 127)
        result[:, place] = steps.to(torch.int8)
        error = (left[:, column] - steps * scale) / upper[column, column]
        left[:, column:] -= error[:, None] * upper[column, column:]
    return result, scale


def with_int8_rows(stored: Stored) -> Stored:
    """Embedding and decoder in int8, as some sources have them already; a tied decoder written out."""
    result = dict(stored)
    for name in ("encoder.weight", "decoder.weight"):
        if name in result:
            weight = result.pop(name).float()
            scale = best_scale(weight)
            result[f"{name}.int8"] = (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
            result[f"{name}.scale"] = scale
    for end in ("int8", "scale"):
        result.setdefault(f"decoder.weight.{end}", result[f"encoder.weight.{end}"])
    return result


def cut(stored: Stored, source: Model, words: list[str], texts: list[Sentence]) -> Stored:
    rows = source.ids(words)
    result = {
        name: tensor[rows] if name.startswith(("encoder.", "decoder.")) else tensor
        for name, tensor in stored.items()
        if not name.startswith("rnn.weight")
    }
    stages: list[list[Tensor]] = [[] for _ in range(len(source.layers) + 1)]
    for batch in batches(texts):
        for seen, stage in zip(stages, source.read(batch), strict=True):
            seen.append(unpadded(stage, batch))
    flows = [torch.cat(seen) for seen in stages]
    for layer in range(len(source.layers)):
        for side, flow in (("ih", flows[layer]), ("hh", flows[layer + 1])):
            name = f"rnn.weight_{side}_l{layer}"
            result[f"{name}.int8"], result[f"{name}.scale"] = rounded(source.weights[name], flow)
    return {name: tensor.contiguous() for name, tensor in sorted(result.items())}


def surprisals(model: Model, texts: list[Sentence], reading: set[str], choices: list[str]) -> Tensor:
    """-log p of every word and of the `<eos>` after each sentence, in the order of `batches`, in nats.

    Words outside `reading` are read as `<unk>`; the softmax covers `choices`, and a word outside is `<unk>`.
    """
    rows = model.ids(choices)
    decoder, bias = model.weights["decoder.weight"][rows], model.weights["decoder.bias"][rows]
    place = {word: i for i, word in enumerate(choices)}
    found = []
    for batch in batches(texts):
        states = unpadded(model.read([[w if w in reading else UNK for w in s] for s in batch])[-1], batch)
        aims = torch.tensor([place.get(word, place[UNK]) for s in batch for word in (*s[1:], EOS)])
        for some, aim in zip(states.split(1024), aims.split(1024), strict=True):
            found.append(cross_entropy(some @ decoder.T + bias, aim, reduction="none"))
    return torch.cat(found)


def perplexities(source: Model, after: Model, texts: list[Sentence]) -> dict[str, Any]:
    every, kept, choices = set(source.index), set(after.index), list(after.index)
    aims = [word for batch in batches(texts) for s in batch for word in (*s[1:], EOS)]
    in_source = torch.tensor([word in every and word != UNK for word in aims])
    in_cut = torch.tensor([word in kept and word != UNK for word in aims])

    def perplexity(nats: Tensor, which: Tensor | None = None) -> float:
        return round(math.exp((nats if which is None else nats[which]).mean().item()), 2)

    def figures(nats: Tensor, known: Tensor) -> dict[str, float]:
        share = round(1 - known.float().mean().item(), 4)
        return {"all": perplexity(nats), "without_unk": perplexity(nats, known), "unk_share": share}

    before = surprisals(source, texts, every, list(source.index))
    small = surprisals(after, texts, kept, choices)
    return {
        "sentences": len(texts),
        "tokens": len(aims),
        "state": "zero before each sentence, then <eos> is read; the <eos> that ends a sentence is predicted",
        "before": figures(before, in_source),
        "after": figures(small, in_cut),
        "same_targets_same_choices": {
            "what": "targets inside the cut vocabulary, softmax over the cut vocabulary",
            "before": perplexity(surprisals(source, texts, every, choices), in_cut),
            "before_reading_cut_words": perplexity(surprisals(source, texts, kept, choices), in_cut),
            "after": perplexity(small, in_cut),
        },
    }


def margins(model: Model, pairs: PairSet) -> Tensor:
    """Logit of the first word minus logit of the second, after `<eos>` and the prefix from the zero state."""
    prefixes = list(dict.fromkeys(pair.prefix for pair in pairs))
    at = {prefix: i for i, prefix in enumerate(prefixes)}
    texts = [[EOS, *prefix.split()] for prefix in prefixes]
    ends = torch.tensor([len(text) - 1 for text in texts])
    states = model.read(texts)[-1][torch.arange(len(texts)), ends]
    first, second = (model.ids([pair.words[i] for pair in pairs]) for i in (0, 1))
    decoder, bias = model.weights["decoder.weight"], model.weights["decoder.bias"]
    states = states[[at[pair.prefix] for pair in pairs]]
    return ((decoder[first] - decoder[second]) * states).sum(1) + bias[first] - bias[second]


def preferences(source: Model, after: Model, pairs: PairSet) -> dict[str, Any]:
    """Accuracy by group where each pair has an expected word, else how often the first one is preferred."""
    known = [p for p in pairs if all(w in source.index for w in (*p.prefix.split(), *p.words))]
    asked = PairSet(pairs.name, pairs.labels, tuple(known))
    report: dict[str, Any] = {"pairs": len(asked), "outside_the_vocabulary": len(pairs) - len(asked)}
    chosen = {name: margins(m, asked) > 0 for name, m in (("before", source), ("after", after))}
    report["preferences_changed"] = int((chosen["before"] != chosen["after"]).sum())
    for name, first in chosen.items():
        if all(pair.label for pair in asked):
            right = first == torch.tensor([pair.label == asked.labels[0] for pair in asked])
            groups = {g: torch.tensor([pair.group == g for pair in asked]) for g in asked.groups}
            report[name] = {"all": right, **{g: right[member] for g, member in groups.items()}}
        else:
            report[name] = {f"prefers_{asked.labels[0]}": first}
        report[name] = {key: round(value.float().mean().item(), 4) for key, value in report[name].items()}
    return report


def short(spec: str) -> str:
    """The name of a phenomenon, and of the folder it is read from without the way there."""
    name, colon, path = spec.partition(":")
    return f"{name}{colon}{Path(path).name}"


def card(args: argparse.Namespace, words: int, measured: dict[str, Any]) -> dict[str, Any]:
    source = json.loads((args.source / "card.json").read_text(encoding="utf-8"))
    command = (
        f"python scripts/cut_wiki_lstm.py {args.source.name} {args.out.name} --words {args.words} "
        f"--corpus {args.corpus.name} --text {args.text.name} --sentences {args.sentences}"
    )
    return {
        "name": args.out.name,
        "summary": f"LSTM of 2 x 650 units that has read English Wikipedia; {words:,} words",
        "licence": "training text: English Wikipedia, CC BY-SA; weights: MIT, as the package",
        "source": source,
        "vocabulary": f"the most frequent words of {args.corpus.name} and every word that the phenomena need",
        "storage": "X = X.int8 * X.scale[:, None]; rows of embedding and decoder as in the source, recurrent "
        f"matrices rounded column by column (GPTQ) on {CALIBRATION} sentences of {args.corpus.name}",
        "command": " ".join([command, *(f"--also {short(spec)}" for spec in args.also)]),
        "measured": measured,
    }


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("source", type=Path, help="folder with model.safetensors, vocab.txt and card.json")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--words", type=int, default=12288, help="size of the vocabulary")
    parser.add_argument("--corpus", type=Path, required=True, help="text to count words in (xz)")
    parser.add_argument("--text", type=Path, required=True, help="held-out text for the perplexity (xz)")
    parser.add_argument("--sentences", type=int, default=5000, help="how much of it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME:PATH", help="more pairs")
    args = parser.parse_args()
    torch.set_grad_enabled(False)

    stored = with_int8_rows(load_file(args.source / "model.safetensors"))
    known = (args.source / "vocab.txt").read_text(encoding="utf-8").split("\n")[: len(stored["decoder.bias"])]
    source = Model.of(known, stored)
    phenomena = {short(spec): load_phenomenon(spec) for spec in (*OURS, *args.also)}
    needed = {w for pairs in phenomena.values() for p in pairs for w in (*p.prefix.split(), *p.words)}
    counts = Counter(word for sentence in sentences(args.corpus) for word in sentence)
    words = choose_words(known, needed, counts, args.words)
    small = cut(stored, source, words, list(sentences(args.corpus, CALIBRATION)))
    after = Model.of(words, small)

    measured = {name: preferences(source, after, pairs) for name, pairs in phenomena.items()}
    for name, found in measured.items():
        print(name, json.dumps(found, indent=1))
        for group, share in found["before"].items():
            if abs(found["after"][group] - share) > HALF_A_POINT:
                raise SystemExit(f"{name}, {group}: moved by more than half a point; nothing written")
    texts = list(sentences(args.text, args.sentences))
    measured["perplexity"] = {"text": args.text.name, **perplexities(source, after, texts)}
    print(json.dumps(measured["perplexity"], indent=1))

    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    shape = {"layers": len(source.layers), "embedding": source.layers[0].input_size}
    shape |= {"hidden": source.layers[0].hidden_size, "words": len(words)}
    tied = all(
        torch.equal(small[f"encoder.weight.{x}"], small[f"decoder.weight.{x}"]) for x in ("int8", "scale")
    )
    if tied:  # one matrix: the loader takes the embedding for the decoder
        small = {name: tensor for name, tensor in small.items() if not name.startswith("decoder.weight")}
    save_file(small, args.out / "model.safetensors")
    special = {"tied": tied, "eos": EOS, "unk": UNK, "priming": EOS}
    config = {"format": "pivotal-recurrent-1", "cell": "lstm", **shape, **special}
    for file, content in (("config.json", config), ("card.json", card(args, len(words), measured))):
        (args.out / file).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
