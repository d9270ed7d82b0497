"""The question that a run answers: the model, the pairs, and how the model is asked.

The fields of `Question` define the options of the command line and the settings of a study's cells. A run folder stores
the question, so that the run can be reproduced.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pivotal.errors import PivotalError
from pivotal.options import check_types
from pivotal.questions.splits import Split
from pivotal.units import Objective, Steps, Values

if TYPE_CHECKING:
    from pivotal.questions.pairs import PairSet
    from pivotal.questions.readers.base import Part, ReadOptions

Unknown = Literal["skip", "unk"]
"""What to do with a pair if its prefix has words outside the vocabulary."""

Dtype = Literal["float32", "float64", "bfloat16", "float16"]

JOINT = " + "
"""Separates the questions of a joint question, as in `number-agreement + mine.jsonl`."""

MOST_SEED = 2**53
"""The largest seed. Larger numbers are not exact in JSON."""


@dataclass(frozen=True)
class Question:
    """A model, a phenomenon, and the settings that say how the model is asked."""

    model: str = "wiki-lstm"
    """The model: a name from `pivotal list models`, a folder, a .gguf file, or hf:ORG/NAME."""
    phenomenon: str = "number-agreement"
    """The pairs: a name from `pivotal list phenomena`, `name:PATH`, a template file (.yaml), or a pairs file (.jsonl,
    .csv, .tsv). Several, separated by “ + ”, form one question."""
    steps: Steps = "every"
    """Where units are set. single: at the cue only. every: at every word of the prefix."""
    sites: str = "all"
    """Sites to search: all, hidden, hidden.1, mlp.3-8, head, or several separated by commas. @ names another basis:
    resid.12@pca, resid.12@sae:FOLDER (`pivotal list bases`)."""
    values: Values = "natural"
    """What a unit may be set to. unbounded: any value. natural: a value in its natural range, the 1st to 99th
    percentile of its own states at the edited steps. interchange: for each pair, its state in the counterfactual
    prefix."""
    objective: Objective = "flips"
    """What the edited model should do. flips: prefer the other word. counterfactual: predict, at every position, what
    the untouched model predicts after the counterfactual prefix."""
    split: Split = "prefixes"
    """What is new in a held-out pair: its prefix, its words (no held-out noun or verb occurs in training), or only the
    pair."""
    test: int | float | str | None = None
    """The held-out pairs: a number, a fraction below 1, or a file or phenomenon whose pairs are all held out. Default:
    what the phenomenon states, otherwise a fifth."""
    seed: int = 0
    """Seed of the split and of all random choices."""
    priming: str | None = None
    """Text that the model reads before every sentence. Default: the start token that it was trained with, if known."""
    dtype: Dtype | None = None
    """Number format of the model; half precision needs a GPU. Default: float32."""
    split_seed: int | None = None
    """Seed of the split alone, so that runs with different seeds have the same held-out pairs. Default: `seed`."""
    lower: bool = False
    """Read all pairs in lower case, for a model without capital letters in its vocabulary."""
    unknown: Unknown = "skip"
    """What to do with a prefix that has words outside a word-level model's vocabulary: skip the pair, or read them as
    <unk>."""
    columns: str = ""
    """What the columns of a table hold, e.g. prefix=text,good=yes,bad=no. Further roles: other, cue, label, group."""
    keep: str = ""
    """What must not change: other questions, text for the bundled text, or a .txt file; several are separated by
    “ + ”."""
    labels: str = ""
    """For several questions: how labels of the others map to those of the first, e.g. he=male,she=female."""
    skip_bad: bool = False
    """Skip and list the rows of a file that cannot be read, instead of refusing the file."""

    def __post_init__(self) -> None:
        check_types(self, but=("model", "phenomenon", "test"))  # which may be in memory
        for name in ("seed", "split_seed"):
            if (seed := getattr(self, name)) is not None:
                check_seed(seed, name)
        if isinstance(self.test, str):
            with suppress(ValueError):  # from a command line, where a number is text too
                object.__setattr__(self, "test", float(self.test))
        if isinstance(self.test, str):
            if self.split != "prefixes":
                said = f"test names the held-out pairs, {self.test}, so split={self.split!r} has no effect."
                raise PivotalError(f"{said} Leave one of them out.", "split")
        elif isinstance(self.test, int | float):
            whole = math.isfinite(self.test) and self.test == int(self.test)
            if not 0 < self.test < 1 and not (whole and self.test >= 1):
                rule = "The held-out pairs are a number of pairs, a fraction below 1 or a file"
                raise PivotalError(f"{rule}, but test is {self.test:g}.", "test")
            # 1000.0 and 1000 must give the same question.
            object.__setattr__(self, "test", int(self.test) if whole else self.test)

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Question:
        """The question of a run, from the settings in its run.json."""
        names = {field.name for field in dataclasses.fields(Question)}
        try:
            return msgspec.convert(
                {name: value for name, value in settings.items() if name in names}, Question
            )
        except msgspec.ValidationError as error:
            raise PivotalError(
                f"The settings of the run must be those of a question, but they are not ({error}). run.json is damaged."
            ) from None

    def checked(self) -> Question:
        """The question. PivotalError if it says how files are read, but reads no such files."""
        from pivotal.questions.phenomena import check_reading

        read = [*names_of(self.phenomenon), *filter(None, names_of(self.keep))]
        check_reading(read + ([self.test] if isinstance(self.test, str) else []), self.reading)
        return self

    def load_pairs(self, pairs: PairSet | None = None, test: PairSet | None = None) -> PairSet:
        """All pairs of the phenomenon, and behind them those that `test` names. The pairs of several questions are
        pooled. `pairs` and `test` are given if they were read already."""
        from pivotal.questions.phenomena import load_phenomenon
        from pivotal.questions.relabel import with_held_out

        if pairs is None:
            pairs = self._pooled([load_phenomenon(name, self.reading) for name in names_of(self.phenomenon)])
        if not isinstance(self.test, str) or pairs.held_from is not None:
            return pairs
        try:
            test = load_phenomenon(self.test, self.reading) if test is None else test
            return with_held_out(pairs, self._cased(test))
        except PivotalError as error:
            raise PivotalError(f"The held-out pairs cannot be used. {error}", "test") from None

    def load_parts(self) -> list[Part]:
        """The questions that the user named: one, or each question of a folder such as blimp:FOLDER."""
        from pivotal.questions.readers import Part, reader_of

        reader = None if JOINT in self.phenomenon else reader_of(self.phenomenon, self.reading)
        parts = [] if reader is None else reader.parts()
        if len(parts) > 1:
            if isinstance(self.test, str):
                several = f"{self.phenomenon} has {len(parts)} questions"
                raise PivotalError(f"{self.test} can hold out pairs of one question, but {several}.", "test")
            return [replace(part, pairs=part.pairs and self._cased(part.pairs)) for part in parts]
        # A single question without pairs is an error. Reading it again says where and why.
        read = parts[0].pairs if parts else None
        pairs = self.load_pairs(None if read is None else self._pooled([read]))
        return [Part(pairs.name, pairs)]

    @property
    def reading(self) -> ReadOptions:
        """How files in other formats are read."""
        from pivotal.questions.readers.base import ReadOptions

        return ReadOptions(columns=self.columns, skip_bad=self.skip_bad)

    def _pooled(self, sets: Sequence[PairSet]) -> PairSet:
        from pivotal.questions.relabel import parse_labels, pooled

        return self._cased(pooled(sets, parse_labels(self.labels)))

    def _cased(self, pairs: PairSet) -> PairSet:
        return pairs.lower() if self.lower else pairs

    def divide(self, pairs: PairSet) -> tuple[PairSet, PairSet]:
        """The training pairs and the held-out pairs."""
        if pairs.held_from is not None:
            return pairs[: pairs.held_from], pairs[pairs.held_from :]
        assert not isinstance(self.test, str)
        test = default_test(pairs) if self.test is None else self.test
        seed = self.seed if self.split_seed is None else self.split_seed
        return pairs.split(test=test, seed=seed, by=self.split)


def names_of(phenomenon: str) -> list[str]:
    """The questions of a joint question; one if it is not joint."""
    return [name.strip() for name in phenomenon.split(JOINT)] if JOINT in phenomenon else [phenomenon]


def default_test(pairs: PairSet) -> int:
    """The number of held-out pairs if `test` is not given: the share that the set states, or the number that it states,
    but at most a fifth."""
    asked = pairs.held_out
    if asked is not None and asked < 1:
        return max(1, round(asked * len(pairs)))
    fifth = max(1, len(pairs) // 5)
    return fifth if asked is None else min(int(asked), fifth)


def check_seed(seed: int, name: str = "seed") -> None:
    """Raise PivotalError if the seed is out of range."""
    if not 0 <= seed <= MOST_SEED:
        raise PivotalError(f"A seed is a whole number from 0 to 2^53, but {name} is {seed}.", name)
