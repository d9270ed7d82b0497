"""Sets of minimal pairs."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, overload

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import suffix_of
from pivotal.printing import counted
from pivotal.questions.minimal_pair import MinimalPair, clean_text
from pivotal.questions.pairs_file import labels_of_row, pair_of_row, pair_row, write_pairs
from pivotal.questions.rows import BadRows, name_of, rows_of
from pivotal.questions.splits import Lexemes, Split, by_prefix, lexical, stratified


@dataclass(frozen=True)
class PairSet:
    """An ordered, immutable set of pairs that share their two labels."""

    name: str
    labels: tuple[str, str]
    pairs: tuple[MinimalPair, ...]
    dropped: int = 0
    """For the training part of a split by words: the number of pairs in neither part."""
    held_out: int | float | None = None
    """How many pairs, or which share, a split of the whole set holds out by default. None: a fifth."""
    held_from: int | None = None
    """The index of the first held-out pair, if a file of their own holds them. They are the last pairs of the set."""
    merged: int = 0
    """For a set that was read from a file: the number of lines that repeat an earlier one and were left out."""
    joint: bool = False
    """Whether the groups are questions that are asked together. Each question then counts the same in a search."""
    features: tuple[str, ...] = ()
    """What the set is about, such as number or gender. Sets that share a feature are related: an intervention for one
    is expected to move the other."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a reader inferred or left out, for the user to check. It is no part of the set."""

    def __post_init__(self) -> None:
        labels = checked_labels(self.labels)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "pairs", tuple(self.pairs))
        for pair in self.pairs:
            if pair.label and pair.label not in labels:
                hint = did_you_mean(pair.label, labels)
                raise PivotalError(f"'{pair.label}' is not one of the two labels of the set.{hint}", "label")
            if pair.asks_words != self.asks_words:
                two = f"“{pair.prefix}” and “{self.pairs[0].prefix}”"
                raise PivotalError(f"Of {two}, only one asks two words. Make two questions of them.", "words")
            if not (pair.asks_words or (pair.label and pair.counterfactuals[1 - labels.index(pair.label)])):
                needs = "needs a label and the counterfactual prefix of the other label"
                raise PivotalError(f"“{pair.prefix}” has no words, so it {needs}.", "words")

    @property
    def asks_words(self) -> bool:
        """Whether the pairs ask which of two words follows. If not, they ask what follows at all."""
        return not self.pairs or self.pairs[0].asks_words

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        groups = f", {len(self.groups)} groups" if len(self.groups) > 1 else ""
        return f"PairSet({counted(len(self), 'pair')} of {self.name}, {' or '.join(self.labels)}{groups})"

    def _repr_html_(self) -> str:
        from pivotal.report.notebook import pairs_html

        return pairs_html(self)

    def __iter__(self) -> Iterator[MinimalPair]:
        return iter(self.pairs)

    @overload
    def __getitem__(self, index: int) -> MinimalPair: ...
    @overload
    def __getitem__(self, index: slice) -> PairSet: ...
    def __getitem__(self, index: int | slice) -> MinimalPair | PairSet:
        if isinstance(index, slice):
            return self._with(self.pairs[index])
        return self.pairs[index]

    @property
    def groups(self) -> dict[str, int]:
        """The number of pairs of each group, in order of appearance."""
        return dict(Counter(pair.group for pair in self.pairs))

    def fingerprint(self) -> str:
        """16 hex digits that depend on the labels and pairs, but not on the name, on counterfactual prefixes or on
        held-out pairs from a file of their own."""
        return self._fingerprint(self.pairs[: self.held_from])

    def test_fingerprint(self) -> str | None:
        """The same for the held-out pairs from a file of their own; None without such a file."""
        return None if self.held_from is None else self._fingerprint(self.pairs[self.held_from :])

    def _fingerprint(self, pairs: Sequence[MinimalPair]) -> str:
        return _digest(
            self.labels,
            ((pair.prefix, pair.cue, pair.words, pair.label, pair.group, pair.lexemes) for pair in pairs),
        )

    def counterfactual_fingerprint(self) -> str:
        """16 hex digits that depend on the labels and the counterfactual prefixes."""
        return _digest(self.labels, (pair.counterfactuals for pair in self.pairs))

    def lower(self) -> PairSet:
        """The same pairs in lower case. Labels, groups and lexemes stay as they are."""
        return replace(self, pairs=tuple(pair.lower() for pair in self.pairs))

    def sample(self, n: int, seed: int = 0) -> PairSet:
        """A random sample of `n` pairs, stratified by group and label."""
        if not 0 < n <= len(self):
            raise PivotalError(f"A sample has from 1 to {len(self)} pairs, the size of the set, not {n}.")
        return self.take(stratified(self._strata(), n, random.Random(seed)))

    def at_most(self, n: int) -> PairSet:
        """All pairs, or a random sample of `n` of them if there are more."""
        return self.sample(n) if len(self) > n else self

    def split(self, test: int | float = 1000, seed: int = 0, by: str = "prefixes") -> tuple[PairSet, PairSet]:
        """Split into (train, test). `test` is a number of pairs, or a fraction below 1.

        "prefixes" keeps all pairs of a prefix in one part, so that the test part has about `test` pairs. "words" holds
        out lemmas: test pairs have held-out lemmas in every slot, and training pairs have none; `train.dropped` counts
        the other pairs. "pairs" holds out single pairs, whose prefixes may occur in training. All are stratified by
        group and label as far as possible.
        """
        count = self._test_count(test)
        rng = random.Random(seed)
        if by == "prefixes":
            # Without words, a prefix and its counterfactual are two prompts of one question.
            texts = [p.prefix if p.asks_words else min(filter(None, p.counterfactuals)) for p in self.pairs]
            train_part, test_part = by_prefix(texts, self._strata(), count, rng)
        elif by == "pairs":
            test_part = stratified(self._strata(), count, rng)
            held = set(test_part)
            train_part = [i for i in range(len(self)) if i not in held]
        elif by == "words":
            train_part, test_part = lexical(self.lexemes(), self._strata(), count, rng)
        else:
            raise PivotalError(f"Unknown kind of split: '{by}'.{did_you_mean(by, get_args(Split))}")
        dropped = len(self) - len(train_part) - len(test_part)
        return replace(self.take(train_part), dropped=dropped), self.take(test_part)

    def save(self, path: str | Path) -> None:
        """Write the pairs to a .jsonl, .csv or .tsv file that `read_pairs` reads back unchanged."""
        if not self.pairs:
            raise PivotalError(f"A pairs file holds at least one pair; '{self.name}' has none to save.")
        write_pairs(Path(path), self.labels, self.pairs, self.features)

    def take(self, indices: Sequence[int]) -> PairSet:
        """The pairs with these indices, in this order."""
        return self._with(tuple(self.pairs[i] for i in indices))

    def _with(self, pairs: tuple[MinimalPair, ...]) -> PairSet:
        """Some of the pairs."""
        return replace(self, pairs=pairs, dropped=0, merged=0, held_from=None)

    def _strata(self) -> list[tuple[str, str]]:
        return [(pair.group, pair.label) for pair in self.pairs]

    def lexemes(self) -> list[Lexemes]:
        """The lemmas of each pair, by slot. If some pairs have none, they are the cue and the words of all pairs."""
        if all(pair.lexemes for pair in self.pairs):
            return [pair.lexemes for pair in self.pairs]
        return [(*_cue_lexeme(pair), ("word", " ".join(pair.words).lower())) for pair in self.pairs]

    def _test_count(self, test: int | float) -> int:
        if len(self) < 2:
            different = " different" if self.merged else ""
            raise PivotalError(f"A split needs two{different} pairs, but '{self.name}' has {len(self)}.")
        count = round(test * len(self)) if 0 < test < 1 else test
        if not math.isfinite(count) or count != int(count):
            raise PivotalError(f"The test part is a number of pairs or a fraction below 1, not {test}.")
        if not 0 < count < len(self):
            most = f"1 to {len(self) - 1} of the {len(self)} pairs"
            raise PivotalError(f"The test part takes {most}, but test={test} asks for {int(count)}.")
        return int(count)


def read_pairs(source: str | Path | Iterable[Mapping[str, Any]], *, skip_bad: bool = False) -> PairSet:
    """Read the pairs of a file (.jsonl, .csv, .tsv), which may be compressed (.gz), or of rows in memory with the keys
    of such a file: `[{"prefix": "The cats", "words": {"singular": "runs", "plural": "run"}, "label": "plural"}]`.

    A pair that occurs several times is read once; `merged` counts the repetitions. Errors name the place and the
    column. With `skip_bad`, rows with errors are left out, and the notes of the set list them.
    """
    bad = BadRows(skip_bad)
    if isinstance(source, str | Path):
        path = Path(source)
        table = suffix_of(path) not in (".json", ".jsonl")
        return _set_of(name_of(path), rows_of(path, bad), bad, table=table, title=f"{path}: a pairs file")
    rows = ((f"pair {number}", row) for number, row in enumerate(source, start=1))
    return _set_of("pairs", rows, bad, table=False, title="A list of pairs")


def _set_of(
    name: str, rows: Iterable[tuple[str, Mapping[str, Any]]], bad: BadRows, *, table: bool, title: str
) -> PairSet:
    labels: tuple[str, str] | None = None
    pairs: list[MinimalPair] = []
    unlabelled: list[str] = []
    features: dict[str, None] = {}
    for where, content in rows:
        with bad.row(where):
            row = pair_row(content, table=table)
            labels = labels or checked_labels(labels_of_row(row))
            pairs.append(pair_of_row(row, labels))
            about = row.features.split("|") if isinstance(row.features, str) else row.features
            features |= dict.fromkeys(filter(None, (clean_text(one, "features") for one in about)))
            if not pairs[-1].label:
                unlabelled.append(where.rpartition(", ")[2])
    if labels is None or not pairs:
        raise PivotalError(f"{title} holds at least one pair; this one holds none.{bad.first()}")
    distinct = tuple(dict.fromkeys(pairs))
    notes = bad.notes()
    # A label is optional, but an empty cell among others may be a mistake.
    if 0 < len(unlabelled) < len(pairs):
        notes += (
            f"{len(unlabelled):,} of {len(pairs):,} rows state no label, the first in {unlabelled[0]}. They do not "
            "count towards accuracy.",
        )
    merged = len(pairs) - len(distinct)
    return PairSet(name, labels, distinct, merged=merged, features=tuple(features), notes=notes)


def checked_labels(labels: Sequence[str]) -> tuple[str, str]:
    """The two labels of a set, with single spaces."""
    cleaned = [clean_text(label, "words") for label in labels]
    if len(cleaned) != 2 or cleaned[0] == cleaned[1] or not all(cleaned):
        example = '{"singular": "approves", "plural": "approve"}'
        raise PivotalError(f"A pair has words for two labels, as {example}, not {cleaned}.", "words")
    return cleaned[0], cleaned[1]


def _cue_lexeme(pair: MinimalPair) -> Lexemes:
    return [] if pair.cue is None else [("cue", pair.cue_word.lower())]


def _digest(labels: tuple[str, str], contents: Iterable[tuple[object, ...]]) -> str:
    digest = hashlib.sha256(json.dumps(labels).encode())
    for content in contents:
        digest.update(json.dumps(content).encode())
    return digest.hexdigest()[:16]
