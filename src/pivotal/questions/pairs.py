"""Minimal pairs and sets of pairs."""

from __future__ import annotations

import hashlib
import json
import math
import random
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, overload

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.bad_rows import BadRows
from pivotal.questions.pairs_file import PairRow, name_of, read_rows, write_rows
from pivotal.questions.splits import Lexemes, Split, by_prefix, lexical, stratified, todays
from pivotal.questions.word_sets import check_words, joined, members


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """A prefix and two words that may follow it. White space is normalised to single spaces."""

    prefix: str
    cue: int | None
    """The index in `prefix.split()` of the word to edit at, from 0. None if there is no such word: the pair can then
    be asked at every step only."""
    words: tuple[str, str]
    """The two next words, in the order of the set's labels. A set of words is written `is|was|has`: any may follow."""
    label: str = ""
    """The label of the expected word, or empty if neither word is expected."""
    group: str = ""
    """The construction or template of the pair."""
    lexemes: tuple[tuple[str, str], ...] = ()
    """(slot, lemma), such as ("subject", "athlete"); sorted by slot."""
    counterfactuals: tuple[str, str] = ("", "")
    """For each label, the prefix with the form of the cue that calls for that label; empty if there is none. Each has
    as many words as the prefix. They are no part of the question, and the fingerprint of a set ignores them."""

    def __post_init__(self) -> None:
        if any(not isinstance(entry, str) for entry in self.words):
            object.__setattr__(self, "words", tuple(map(_entry, self.words)))
        texts = (
            self.prefix,
            *self.words,
            self.label,
            self.group,
            *(text for lexeme in self.lexemes for text in lexeme),
            *self.counterfactuals,
        )
        # Almost all pairs are clean. One check of all texts is faster than cleaning each text.
        if not all(
            isinstance(text, str) and text.isprintable() and text == " ".join(text.split()) for text in texts
        ):
            self._clean()
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "lexemes", tuple(sorted(self.lexemes)))
        object.__setattr__(self, "counterfactuals", tuple(self.counterfactuals))
        _check_pair(self)

    def _clean(self) -> None:
        put = object.__setattr__
        put(self, "words", tuple(clean_text(word, "words") for word in self.words))
        for name in ("prefix", "label", "group"):
            put(self, name, clean_text(getattr(self, name), name))
        put(
            self,
            "lexemes",
            tuple((clean_text(a, "lexemes"), clean_text(b, "lexemes")) for a, b in self.lexemes),
        )
        counterfactuals = tuple(clean_text(text, "counterfactual") for text in self.counterfactuals)
        put(self, "counterfactuals", counterfactuals)

    @classmethod
    def parse(
        cls,
        prefix: str,
        cue: int | str | None,
        words: Sequence[str | Sequence[str]],
        label: str = "",
        group: str = "",
        lexemes: Mapping[str, str] | None = None,
        counterfactuals: tuple[str, str] = ("", ""),
    ) -> MinimalPair:
        """Make a pair from data. The cue may be an index or a word, and a set of words may be a list."""
        index = find_cue(prefix, cue) if isinstance(cue, str) else cue
        both: Any = tuple(words)
        return cls(prefix, index, both, label, group, tuple((lexemes or {}).items()), counterfactuals)

    def lower(self) -> MinimalPair:
        """The same pair in lower case."""
        first, second = (entry.lower() for entry in self.words)
        return replace(
            self,
            prefix=self.prefix.lower(),
            words=(first, second),
            counterfactuals=(self.counterfactuals[0].lower(), self.counterfactuals[1].lower()),
        )

    @property
    def word_sets(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of each label. Most labels have one word."""
        first, second = self.words
        return members(first), members(second)

    @property
    def cue_word(self) -> str:
        """The word of the prefix that decides which of the two words is expected; empty without a cue."""
        return "" if self.cue is None else self.prefix.split(" ")[self.cue]


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
    merged: int = 0
    """For a set that was read from a file: the number of lines that repeat an earlier one and were left out."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a reader inferred or left out, for the user to check. It is no part of the set."""

    def __post_init__(self) -> None:
        labels = tuple(clean_text(label, "words") for label in self.labels)
        if len(labels) != 2 or labels[0] == labels[1] or not all(labels):
            raise PivotalError(f"A set of pairs has two different labels, not {labels!r}.", field="words")
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "pairs", tuple(self.pairs))
        for pair in self.pairs:
            if pair.label and pair.label not in labels:
                raise _unknown_label(pair.label, self.labels)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        pairs = "1 pair" if len(self) == 1 else f"{len(self):,} pairs"
        groups = f", {len(self.groups)} groups" if len(self.groups) > 1 else ""
        return f"PairSet({pairs} of {self.name}, {' or '.join(self.labels)}{groups})"

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
            return replace(self, pairs=self.pairs[index], dropped=0, merged=0)
        return self.pairs[index]

    @property
    def groups(self) -> dict[str, int]:
        """The number of pairs of each group, in order of appearance."""
        return dict(Counter(pair.group for pair in self.pairs))

    def fingerprint(self) -> str:
        """16 hex digits that depend on the labels and pairs, but not on the name."""
        digest = hashlib.sha256(json.dumps(self.labels).encode())
        for pair in self.pairs:
            content = (pair.prefix, pair.cue, pair.words, pair.label, pair.group, pair.lexemes)
            digest.update(json.dumps(content).encode())
        return digest.hexdigest()[:16]

    def lower(self) -> PairSet:
        """The same pairs in lower case. Labels, groups and lexemes stay as they are."""
        return replace(self, pairs=tuple(pair.lower() for pair in self.pairs))

    def sample(self, n: int, seed: int = 0) -> PairSet:
        """A random sample of `n` pairs, stratified by group and label."""
        if not 0 < n <= len(self):
            raise PivotalError(
                f"A sample has between 1 and {len(self)} pairs (the size of the set), not {n}."
            )
        return self._take(stratified(self._strata(), n, random.Random(seed)))

    def split(self, test: int | float = 1000, seed: int = 0, by: str = "prefixes") -> tuple[PairSet, PairSet]:
        """Split into (train, test). `test` is a number of pairs, or a fraction below 1.

        "prefixes" keeps all pairs of a prefix in one part, so that the test part has about `test` pairs. "words" holds
        out lemmas: test pairs have held-out lemmas in every slot, and training pairs have none; `train.dropped` counts
        the other pairs. "pairs" holds out single pairs, whose prefixes may occur in training. All are stratified by
        group and label as far as possible.
        """
        by = todays(by)
        count = self._test_count(test)
        rng = random.Random(seed)
        if by == "prefixes":
            train_part, test_part = by_prefix([p.prefix for p in self.pairs], self._strata(), count, rng)
        elif by == "pairs":
            test_part = stratified(self._strata(), count, rng)
            held = set(test_part)
            train_part = [i for i in range(len(self)) if i not in held]
        elif by == "words":
            train_part, test_part = lexical(self.lexemes(), self._strata(), count, rng)
        else:
            raise PivotalError(f"Unknown kind of split: '{by}'.{did_you_mean(by, get_args(Split))}")
        dropped = len(self) - len(train_part) - len(test_part)
        return replace(self._take(train_part), dropped=dropped), self._take(test_part)

    def save(self, path: str | Path) -> None:
        """Write the pairs to a .jsonl, .csv or .tsv file that `read_pairs` reads back unchanged."""
        if not self.pairs:
            raise PivotalError(f"A pairs file holds at least one pair; '{self.name}' has none to save.")
        rows = [
            PairRow(
                0,
                p.prefix,
                p.cue,
                dict(zip(self.labels, p.words, strict=True)),
                p.label,
                p.group,
                dict(p.lexemes),
                {label: text for label, text in zip(self.labels, p.counterfactuals, strict=True) if text},
            )
            for p in self.pairs
        ]
        write_rows(Path(path), self.labels, rows)

    def _take(self, indices: list[int]) -> PairSet:
        return replace(self, pairs=tuple(self.pairs[i] for i in indices), dropped=0, merged=0)

    def _strata(self) -> list[tuple[str, str]]:
        return [(pair.group, pair.label) for pair in self.pairs]

    def lexemes(self) -> list[Lexemes]:
        """The lemmas of each pair, by slot. If some pairs have none, they are the cue and the words of all pairs."""
        if all(pair.lexemes for pair in self.pairs):
            return [pair.lexemes for pair in self.pairs]
        return [(*_cue_lexeme(pair), ("word", " ".join(pair.words).lower())) for pair in self.pairs]

    def _test_count(self, test: int | float) -> int:
        if len(self) < 2:
            raise PivotalError(
                f"A set must have two pairs or more to be split into a training and a test part, but '{self.name}' has "
                f"{len(self)}{' different one' if self.merged else ''}. Add pairs."
            )
        count = round(test * len(self)) if 0 < test < 1 else test
        if not math.isfinite(count) or count != int(count):
            raise PivotalError(f"The test part is a number of pairs or a fraction below 1, not {test}.")
        if not 0 < count < len(self):
            raise PivotalError(
                f"The test part must have at least 1 and at most {len(self) - 1} of the {len(self)} pairs; "
                f"test={test} asks for {int(count)}. Give a smaller number, or a fraction such as 0.1."
            )
        return int(count)


def read_pairs(path: str | Path, *, skip_bad: bool = False) -> PairSet:
    """Read the pairs of a .jsonl, .csv or .tsv file, which may be compressed (.gz).

    A pair that occurs several times is read once; `merged` counts the repetitions. Errors name the file, the line and
    the column. With `skip_bad`, rows with errors are left out, and the notes of the set list them.
    """
    path = Path(path)
    labels: tuple[str, str] | None = None
    pairs: list[MinimalPair] = []
    bad = BadRows(skip_bad)
    for read in read_rows(path):
        with bad.row():
            row = read()
            try:
                labels = labels or _labels_of(row)
                pairs.append(_pair_of(row, labels))
            except PivotalError as error:
                raise PivotalError(
                    f"{path}, line {row.line}, column '{error.field}': {error}", error.field
                ) from None
    if labels is None or not pairs:
        raise PivotalError(f"{path}: a pairs file holds at least one pair; this one holds none.{bad.first()}")
    distinct = tuple(dict.fromkeys(pairs))
    return PairSet(name_of(path), labels, distinct, merged=len(pairs) - len(distinct), notes=bad.notes())


def _cue_lexeme(pair: MinimalPair) -> Lexemes:
    return [] if pair.cue is None else [("cue", pair.cue_word.lower())]


def find_cue(prefix: str, cue: str) -> int:
    """The index of the word `cue` in `prefix`. The prefix must contain it exactly once."""
    words, cue = prefix.split(), cue.strip()
    places = [index for index, word in enumerate(words) if word == cue]
    if not places:
        raise PivotalError(
            f"The cue must be a word of the prefix '{' '.join(words)}', which has no '{cue}'."
            f"{did_you_mean(cue, set(words))}",
            field="cue",
        )
    if len(places) > 1:
        where = ", ".join(map(str, places))
        raise PivotalError(
            f"The cue '{cue}' occurs {len(places)} times in '{' '.join(words)}'. "
            f"Give its index instead: {where}.",
            field="cue",
        )
    return places[0]


def clean_text(text: str, field: str) -> str:
    """Normalise white space to single spaces. Raise PivotalError for control characters and lone surrogates."""
    if not isinstance(text, str):
        raise PivotalError(f"Must be text, not {text!r}.", field)
    text = " ".join(text.split())
    if not text.isprintable():
        for char in text:
            if unicodedata.category(char) in ("Cc", "Cs"):
                raise PivotalError(f"Text cannot hold the character U+{ord(char):04X}. Remove it.", field)
    return text


def _entry(words: str | Sequence[str]) -> str:
    """The words of a label, which may be given as a list, as one text."""
    if isinstance(words, str):
        return words
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) for word in words):
        raise PivotalError(f"The words of a label are a word or a list of words, not {words!r}.", "words")
    return joined([clean_text(word, "words") for word in words])


def _check_pair(pair: MinimalPair) -> None:
    length = len(pair.prefix.split())
    if not length:
        raise PivotalError("The prefix is empty; it must hold at least the cue word.", field="prefix")
    if pair.cue is not None and (
        isinstance(pair.cue, bool) or not isinstance(pair.cue, int) or not 0 <= pair.cue < length
    ):
        raise PivotalError(
            f"The cue is an index from 0 to {length - 1} into the words of '{pair.prefix}', "
            f"not {pair.cue!r}.",
            field="cue",
        )
    check_words(pair.words)
    slots = [slot for slot, _ in pair.lexemes]
    if len(set(slots)) < len(slots) or not all(slot and lemma for slot, lemma in pair.lexemes):
        raise PivotalError(
            f"Lexemes are different slots with a lemma each, not {dict(pair.lexemes)}.", field="lexemes"
        )
    if len(pair.counterfactuals) != 2:
        raise PivotalError(
            f"A pair has a counterfactual prefix for each of its two labels, not {pair.counterfactuals!r}.",
            field="counterfactual",
        )
    for text in pair.counterfactuals:
        if text and len(text.split()) != length:
            raise PivotalError(
                f"A counterfactual prefix has as many words as the prefix ({length}), so that their steps can be "
                f"compared, but '{text}' has {len(text.split())}.",
                field="counterfactual",
            )


def _labels_of(row: PairRow) -> tuple[str, str]:
    labels = [clean_text(label, "words") for label in row.words]
    if len(labels) != 2 or labels[0] == labels[1] or not all(labels):
        raise PivotalError(
            f"A pair has two words under two different labels, not {len(labels)} {labels}. "
            'Example: {"singular": "approves", "plural": "approve"}.',
            field="words",
        )
    return labels[0], labels[1]


def _pair_of(row: PairRow, labels: tuple[str, str]) -> MinimalPair:
    words = {clean_text(label, "words"): word for label, word in row.words.items()}
    if set(words) != set(labels):
        raise PivotalError(
            f"Every pair has the labels of the first one, {list(labels)}, not {list(words)}.", field="words"
        )
    label = clean_text(row.label, "label")
    if label and label not in labels:
        raise _unknown_label(label, labels)
    both = (words[labels[0]], words[labels[1]])
    counterfactuals = _counterfactuals_of(row, labels, label)
    return MinimalPair.parse(row.prefix, row.cue, both, label, row.group, row.lexemes, counterfactuals)


def _counterfactuals_of(row: PairRow, labels: tuple[str, str], label: str) -> tuple[str, str]:
    """The counterfactual prefix of each label. The prefix itself is the one of its own label."""
    given = {clean_text(name, "counterfactual"): text for name, text in row.counterfactual.items()}
    for name in given:
        if name not in labels:
            raise PivotalError(
                f"A counterfactual prefix belongs to one of the two labels of the words, not to '{name}'."
                f"{did_you_mean(name, labels)}",
                field="counterfactual",
            )
    if given and label and label not in given:
        given[label] = row.prefix
    return given.get(labels[0], ""), given.get(labels[1], "")


def _unknown_label(label: str, labels: tuple[str, str]) -> PivotalError:
    return PivotalError(
        f"A pair's label is one of the two labels of its words, not '{label}'.{did_you_mean(label, labels)}",
        field="label",
    )
