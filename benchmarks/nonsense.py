"""Questions that ask nothing, and what the verdict says about them.

    python benchmarks/nonsense.py [MODEL] [--out DIR] [--only NAME] [--updates N]

Twenty-one sets of pairs have no phenomenon in them: random pairs of words, shuffled labels, labels that belong to the
words, one direction only, very few pairs, repeated pairs, words that the model never predicts. A strong search flips
most of them all the same. None may get a verdict above "no evidence". Beside them stand a model whose units are known
by construction, and bundled phenomena. One JSON line per question.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pivotal
from pivotal.evidence.controls import permuted
from pivotal.jobs.find import find
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.searches.learned import LearnedMask

SUBJECTS = [
    "man",
    "woman",
    "boy",
    "girl",
    "king",
    "doctor",
    "teacher",
    "farmer",
    "player",
    "writer",
    "judge",
    "singer",
]
VERBS = ["saw", "found", "liked", "took", "knew", "left", "wanted", "heard"]
NOUNS = [
    "cat",
    "dog",
    "house",
    "book",
    "car",
    "door",
    "river",
    "city",
    "table",
    "train",
    "garden",
    "letter",
    "horse",
    "ship",
    "song",
    "field",
]
SLEEPERS = ("whereas", "versus", "amongst", "whose", "whom")
"""Words that hardly ever follow an article."""

LABELS = ("first", "second")


def openings() -> list[str]:
    return [f"The {subject} {verb} the" for subject in SUBJECTS for verb in VERBS]


def random_words(seed: int) -> PairSet:
    """One random pair of nouns, with random labels."""
    rng = random.Random(seed)
    words = tuple(rng.sample(NOUNS, 2))
    return _set(f"random-words-{seed}", [(text, words, rng.choice(LABELS)) for text in openings()])


def many_random_words(seed: int) -> PairSet:
    """A random pair of nouns for each sentence, with random labels."""
    rng = random.Random(seed)
    rows = [(text, tuple(rng.sample(NOUNS, 2)), rng.choice(LABELS)) for text in openings()]
    return _set(f"many-random-words-{seed}", rows)


def shuffled_labels(phenomenon: str, seed: int) -> PairSet:
    """A real phenomenon whose labels are shuffled among the pairs."""
    pairs = pivotal.load_phenomenon(phenomenon).sample(300, seed)
    labels = [pair.label or random.Random(i + seed).choice(pairs.labels) for i, pair in enumerate(pairs)]
    random.Random(seed).shuffle(labels)
    made = tuple(
        replace(pair, label=label, counterfactuals=("", ""))
        for pair, label in zip(pairs, labels, strict=True)
    )
    return PairSet(f"shuffled-labels-{phenomenon}-{seed}", pairs.labels, made)


def one_direction(label: str) -> PairSet:
    pairs = pivotal.load_phenomenon("number-agreement").sample(600)
    return PairSet(f"only-{label}", pairs.labels, tuple(pair for pair in pairs if pair.label == label))


def alternating() -> PairSet:
    """The labels alternate, whatever the sentence."""
    rows = [(text, ("cat", "dog"), LABELS[i % 2]) for i, text in enumerate(openings())]
    return _set("alternating", rows)


def labels_of_words() -> PairSet:
    """Two pairs of words after every sentence. The label is that of the word that `wiki-lstm` prefers, whatever the
    sentence. So it is right in both directions, and there is nothing to know."""
    rows = []
    for text in openings():
        rows += [(text, ("song", "city"), LABELS[0]), (text, ("horse", "house"), LABELS[1])]
    return _set("labels-of-the-words", rows)


def few(n: int) -> PairSet:
    pairs = pivotal.load_phenomenon("number-agreement").sample(n, seed=3)
    return PairSet(f"only-{n}-pairs", pairs.labels, pairs.pairs)


def repeated(n: int, times: int) -> PairSet:
    pairs = pivotal.load_phenomenon("number-agreement").sample(n, seed=5)
    return PairSet(f"{n}-pairs-{times}-times", pairs.labels, pairs.pairs * times)


def unlabelled() -> PairSet:
    """Random words, and nobody says which is right."""
    return _set("no-labels", [(text, ("river", "song"), "") for text in openings()])


def never_predicted(seed: int) -> PairSet:
    rng = random.Random(seed)
    words = tuple(rng.sample(SLEEPERS, 2))
    return _set(f"never-predicted-{seed}", [(text, words, rng.choice(LABELS)) for text in openings()])


def _set(name: str, rows: list[tuple[str, tuple[str, ...], str]]) -> PairSet:
    made = tuple(MinimalPair(text, 1, (words[0], words[1]), label) for text, words, label in rows)
    return PairSet(name, LABELS, made)


def nonsense() -> Iterator[PairSet]:
    """Twenty-one questions that ask nothing."""
    yield alternating()
    yield labels_of_words()
    yield from (random_words(seed) for seed in range(5))
    yield from (many_random_words(seed) for seed in range(2))
    yield from (shuffled_labels("number-agreement", seed) for seed in range(2))
    yield shuffled_labels("gender-bias", 0)
    yield from (one_direction(label) for label in ("singular", "plural"))
    yield from (few(n) for n in (3, 6))
    yield from (repeated(n, times) for n, times in ((1, 30), (3, 20)))
    yield unlabelled()
    yield from (never_predicted(seed) for seed in range(2))


def questions(model: str) -> Iterator[tuple[str, str, PairSet]]:
    """(kind, model, pairs): nonsense, and what must stand above it."""
    yield from (("nonsense", model, pairs) for pairs in nonsense())
    number, gender = pivotal.load_phenomenon("number-agreement"), pivotal.load_phenomenon("gender-bias")
    yield "permuted labels", model, permuted(number.sample(2000), 1)
    yield "known by construction", "planted", pivotal.load_phenomenon("planted")
    yield "real", model, number
    yield "real", model, gender


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="wiki-lstm")
    parser.add_argument("--out", default="runs/nonsense", help="folder of the pairs, the runs and the rows")
    parser.add_argument("--only", default="", help="only the questions whose names contain this")
    parser.add_argument("--updates", type=int, default=160)
    parser.add_argument("--evidence", default="quick", choices=["quick", "full"])
    parser.add_argument("--values", default="unbounded", help="what units may be set to")
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    loaded: dict[str, pivotal.models.LanguageModel] = {}
    for kind, name, pairs in questions(asked.model):
        if asked.only not in pairs.name and asked.only != kind:
            continue
        if name not in loaded:
            loaded[name] = pivotal.load_model(name, device=asked.device)
        model = loaded[name]
        file = out / f"{kind.replace(' ', '-')}-{pairs.name}.jsonl"
        pairs.save(file)
        search = LearnedMask(updates=asked.updates)
        full = "full" if kind in ("known by construction", "real") else asked.evidence
        try:
            found = find(
                Question(name, str(file), values=asked.values),
                search,
                out=str(out / file.stem),
                model=model,
                evidence=full,
                overwrite=True,
            )
        except pivotal.PivotalError as error:  # refused: nothing was claimed
            row = {"kind": kind, "model": model.name, "question": pairs.name, "refused": str(error)}
        else:
            summary = found.summary
            assert summary.verdict is not None
            row = {
                "kind": kind,
                "model": model.name,
                "question": pairs.name,
                "pairs": len(pairs),
                "flips": round(summary.flip_accuracy, 4),
                "units": summary.units,
                "p": summary.controls.p_value,
                "verdict": summary.verdict.word,
                "failed": [check.name for check in summary.verdict.failed],
            }
        print(json.dumps(row), flush=True)
        with (out / "rows.jsonl").open("a") as rows:
            rows.write(json.dumps(row) + "\n")
        if kind == "nonsense" and row.get("verdict", "no evidence") != "no evidence":
            print(f"{pairs.name} is nonsense, but the verdict is {row['verdict']}.", file=sys.stderr)


if __name__ == "__main__":
    main()
