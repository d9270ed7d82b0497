"""The evidence for an intervention: what the untouched model knows, what was checked and found, and the verdict."""

from __future__ import annotations

from typing import Literal

from pivotal.printing import chance, counted
from pivotal.records.serial import Number, Record


class Share(Record, frozen=True):
    """A share of pairs with its 95% interval, for which the prefixes are the independent observations."""

    value: Number
    low: Number
    high: Number
    n: int
    """The number of pairs."""

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class LabelKnowledge(Record, frozen=True, kw_only=True):
    """The pairs of one label."""

    pairs: int
    """The number of pairs whose expected word has this label."""
    accuracy: Share | None
    """The share of them in which the model prefers the expected word; null if there are none."""
    preferred: int
    """The number of all pairs in which the model prefers the word of this label; they are flipped to the other."""
    prefixes: int
    """The number of distinct prefixes among those pairs."""


class Knowledge(Record, frozen=True, kw_only=True):
    """What the untouched model prefers in the pairs that it can score."""

    pairs: int
    clusters: int
    """The number of distinct prefixes. Pairs with the same prefix share a state, so they are not independent."""
    labelled: int
    """The number of pairs that state an expected word."""
    accuracy: Share | None
    """The share of labelled pairs in which the model prefers the expected word; null if no pair states one."""
    by_label: dict[str, LabelKnowledge]
    by_group: dict[str, Share]
    """The accuracy by construction, for the groups with labelled pairs."""
    one_sided: Number
    """The share of pairs in which the model prefers the label that it prefers more often: 0.5 is balanced, 1 is always
    the same label."""
    mass: Number | None
    """The median probability of the words of both labels together. If it is small, the model expects none of them. Null
    if no words are asked."""
    rank: Number | None
    """The median rank of the words of the more likely label: 1 plus the number of tokens that are more likely."""
    gap: Number | None = None
    """If no words are asked, the median of KL(counterfactual || untouched) after a prompt, in nats: by how much what
    the model says next differs between the prompt and its partner."""
    sampled: int | None = None
    """The number of prefixes whose pairs give both medians, if that is a sample of them; else null."""
    cue_tells: Number | None = None
    """How well the cue word tells which label is right: 1 if each cue word goes with one label, 0 if it does no better
    than with random labels. Null if the pairs cannot say, for example because no cue word is repeated."""
    asked: int = 0
    """The number of different pairs of words that are asked."""
    contradicted: int = 0
    """The number of prefixes after which pairs with the same words expect different labels."""

    def told(self) -> str:
        """The figures in one line."""
        if self.mass is None:
            return (
                f"This question has no words. Between {self.clusters:,} prompts and their partners, the untouched "
                f"predictions differ by a median KL of {self.gap:.3f}."
            )
        right = "No pair states what is right"
        if self.accuracy is not None:
            share = self.accuracy
            right = (
                f"The untouched model prefers the expected word in {share.value:.1%} of "
                f"{counted(self.labelled, 'pair')} (95% interval {share.low:.1%} to {share.high:.1%})"
            )
        prefers = " and ".join(f"“{label}” in {part.preferred:,}" for label, part in self.by_label.items())
        sample = "" if self.sampled is None else f" in a sample of {self.sampled:,} prefixes"
        return (
            f"{right}; it prefers {prefers}. The words of both labels together have a median probability of "
            f"{chance(self.mass)}{sample}."
        )

    @property
    def directions(self) -> dict[str, int]:
        """The number of pairs that are flipped to each label."""
        first, second = self.by_label
        return {first: self.by_label[second].preferred, second: self.by_label[first].preferred}

    @property
    def prefixes_towards(self) -> dict[str, int]:
        """The number of distinct prefixes that are flipped to each label."""
        first, second = self.by_label
        return {first: self.by_label[second].prefixes, second: self.by_label[first].prefixes}


Word = Literal["decide", "switch", "nudge", "no evidence"]
"""The verdicts, from the strongest to the weakest."""


Level = Literal["none", "quick", "full"]
"""How much evidence is collected."""


class UnitRange(Record, frozen=True, kw_only=True):
    """The natural range of a unit at the edited steps, and the values that it is set to."""

    unit: str
    """Site and index, such as `hidden.0:122`."""
    low: Number
    """The 1st percentile of its states in the untouched model."""
    high: Number
    """The 99th percentile."""
    values: dict[str, Number | None]
    """By direction; null if it is not set."""

    @property
    def inside(self) -> bool:
        """Whether all its values lie in the natural range, up to the rounding of float32."""
        slack = 1e-6 * max(1.0, abs(self.low), abs(self.high))
        return all(v is None or self.low - slack <= v <= self.high + slack for v in self.values.values())


class Natural(Record, frozen=True, kw_only=True):
    """The same units with their values moved into their natural ranges."""

    ranges: tuple[UnitRange, ...]
    """Empty for units of several coordinates."""
    flipped: Share
    by_direction: dict[str, Share]
    kl: Number


class UnseenWords(Record, frozen=True, kw_only=True):
    """The units of the best run on held-out pairs whose words their values were not learned with.

    Half of the lemmas of every slot are drawn. The values of the same units are learned again, from the start, on the
    training pairs that have none of these lemmas, and scored on the held-out pairs that have no others. The units
    themselves were chosen with all words; `--split words` holds words out of the whole search.
    """

    flip_accuracy: Share
    slots: tuple[str, ...]
    """The slots whose lemmas are unseen, such as `subject` and `verb`. Slots with one lemma are not among them."""
    train: int
    """The number of pairs on which the values were learned."""


class Interchange(Record, frozen=True, kw_only=True):
    """The same units set, pair by pair, to what they are in the counterfactual prefix. Nothing is learned.

    A flip is scored where the untouched model is right. Where it is wrong, it prefers the word of the counterfactual
    prefix already; these pairs are scored apart.
    """

    flipped: Share
    by_direction: dict[str, Share]
    whole_site: Share
    """With all units of their sites set to their counterfactual states, for comparison."""
    fixed: Share | None = None
    """The values of the intervention, one for each unit and direction, on the same pairs."""
    wrong: Share | None = None
    """The pairs that the untouched model gets wrong: the share in which it prefers the word of the counterfactual
    prefix after the interchange too. Null if there are none."""
    accuracy: Share | None = None
    """All of them: the share in which the model prefers the word of the counterfactual prefix after the interchange.
    Other work calls it interchange intervention accuracy."""
    kl: Number | None = None
    """KL of the interchange, averaged like the KL of an intervention."""
    whole_site_kl: Number | None = None
    """KL with all units of their sites set to their counterfactual states."""


class Dose(Record, frozen=True, kw_only=True):
    """The effect of a part of the edit. Dose 0 leaves a unit alone, dose 1 sets it to its value, dose 2 moves it twice
    as far."""

    doses: tuple[Number, ...]
    flip_accuracy: tuple[Number, ...]
    kl: tuple[Number, ...]
    """Averaged over all positions, from a sample of them."""
    half: Number | None
    """The dose that flips half of the preferences, by interpolation; null if no dose up to 2 does."""
    monotone: Number
    """The share of pairs whose log odds move towards the target at every step from dose 0 to dose 1."""
    wrong_way: Number
    """The share of pairs whose log odds move away from the target at dose 1."""


class Paths(Record, frozen=True, kw_only=True):
    """How the edit reaches the prediction: shares of the mean change of the log odds."""

    change: Number
    """The mean change of the log odds, in nats."""
    last_step: Number
    """The share that remains if the units are set at the last step only."""
    direct: Number | None
    """The share that goes from the units straight to the output projection, through no later layer or step; null if
    the model's adapter cannot tell."""


class CueSwap(Record, frozen=True, kw_only=True):
    """The untouched model on the counterfactual prefixes, which have the cue's other form: what a real change does."""

    kl: Number
    """KL between the two prefixes, averaged like the KL of an intervention."""
    flipped: Share
    """The pairs for which the counterfactual prefix makes the model prefer the other word."""
    by_direction: dict[str, Share] = {}
    """The same by the label of that word."""
    right: dict[str, Share]
    """By label: how often the model prefers a label's word after the form of the cue that calls for it."""


class TextCost(Record, frozen=True, kw_only=True):
    """Perplexity of ordinary text."""

    text: str
    """The name of the text."""
    tokens: int
    """The number of predicted tokens. The first token of a sentence is not predicted."""
    untouched: Number
    edited: dict[str, Number]
    """By direction, with the intervention applied."""
    factors: dict[str, tuple[Number, Number]] = {}
    """By direction, the 95% interval of the factor by which perplexity grows. Its observations are the sentences."""

    @property
    def worst(self) -> str:
        """The direction whose edit makes the text most perplexing."""
        return max(self.edited, key=lambda direction: self.edited[direction])

    @property
    def ratio(self) -> float:
        """The largest perplexity of an edited model, relative to the untouched model."""
        return self.edited[self.worst] / self.untouched

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of that factor; the factor itself if it has none."""
        return self.factors.get(self.worst, (self.ratio, self.ratio))


class Effect(Record, frozen=True, kw_only=True):
    """Another phenomenon with the intervention applied."""

    phenomenon: str
    pairs: int
    related: bool = False
    """Whether it shares a feature, an asked word or both labels with what the intervention was found for, so that it is
    expected to move."""
    flipped: Share | None = None
    """For a related phenomenon: the preferences that are flipped."""
    untouched: Share
    """The share of pairs for which the untouched model prefers the expected word. Pairs without an expected word count
    as expecting the word that the untouched model prefers."""
    edited: dict[str, Share]
    """The same by direction, with the intervention applied."""
    prefixes: int = 0
    """The number of distinct prefixes."""
    changed: dict[str, tuple[int, int]] = {}
    """By direction, the number of pairs that the edit makes wrong, and the number that it makes right."""
    by_chance: Number | None = None
    """The largest change in accuracy by random sets of units with the same KL, on some of the pairs. Like `by_cue`, it
    is measured for an unrelated phenomenon that moves by more than the verdict allows."""
    by_cue: Number | None = None
    """The change in accuracy of the untouched model if its sentences have the other forms of the cue words, where they
    have such words: what a real change does."""

    def told(self) -> str:
        """The figures in one line."""
        flipped = "" if self.flipped is None else f"{self.flipped} of {self.pairs:,} preferences flip; "
        edited = ", ".join(f"{share} towards {label}" for label, share in self.edited.items())
        return f"{flipped}{self.untouched} are right untouched, {edited}"

    @property
    def expected(self) -> float:
        """What random sets with the same KL, or a real change of the cue, move it by."""
        return max(self.by_chance or 0.0, self.by_cue or 0.0)

    @property
    def moved(self) -> float:
        """The largest change in accuracy, as a share; rounded, so that 5 points are not more than 5 points."""
        return round(max(abs(share.value - self.untouched.value) for share in self.edited.values()), 9)


class Panel(Record, frozen=True, kw_only=True):
    """What `pivotal evaluate --panel` prints: what an intervention does besides what it was found for."""

    model: str
    phenomenon: str
    """What the intervention was found for."""
    text: TextCost | None
    """Null if the model cannot read the text."""
    effects: tuple[Effect, ...]


class Necessity(Record, frozen=True, kw_only=True):
    """The accuracy of the model without what its units say. Nothing is switched: the units get the same values whatever
    the sentence. Pairs without an expected word count as expecting the word that the untouched model prefers."""

    untouched: Share
    held: Share
    """With the units held at their mean over the edited steps."""
    lost: Share
    """Pair by pair, from the least accuracy of the others, untouched or with random sets held, to that with the units
    held."""
    resampled: Number
    """With the units set to their states in other sentences, on average."""
    random: tuple[Number, ...]
    """With random sets of as many other units in the same layers held at their means: of nineteen sets those that cost
    most on a few prefixes, and those that cost there about as much as the units."""

    def told(self, units: str = "the units") -> str:
        """The figures in one line."""
        held = f"{self.held.value:.1%} ({self.held.low:.1%} to {self.held.high:.1%})"
        return (
            f"With {units} held at their mean, the model is right in {held} instead of {self.untouched.value:.1%}; at "
            f"their states in other sentences, in {self.resampled:.1%}; with random units held, in at least "
            f"{min(self.random):.1%}. Pair by pair, that is {100 * self.lost.value:.1f} points "
            f"({100 * self.lost.low:.1f} to {100 * self.lost.high:.1f}) below the least of the others."
        )


class FurtherSet(Record, frozen=True, kw_only=True):
    """What the same search finds without the units of the run and of the sets before."""

    units: tuple[str, ...]
    flipped: Share
    kl: Number
    fidelity: Number | None = None
    """The share of the gap to the counterfactual that it closes where the words are asked."""


class Redundancy(Record, frozen=True, kw_only=True):
    """How many disjoint sets of units flip the preference: the search is repeated without the units found so far."""

    level: Number
    """The flips of the best random set, or one half if none was tried. The search ends with a set that flips no more,
    or after five further sets."""
    ended: bool
    """Whether it ended because nothing more flips, so that there are no more sets."""
    sets: tuple[FurtherSet, ...]
    """The further sets, in the order in which they were found. The last one may flip no more than random sets."""
    held: Necessity | None = None
    """The accuracy of the model with the units of all sets that flip more held together; null if there is one set."""

    @property
    def carrying(self) -> int:
        """The number of disjoint sets that flip more than random sets do, that of the run among them."""
        return 1 + sum(one.flipped.low > self.level for one in self.sets)


class NullSearch(Record, frozen=True, kw_only=True):
    """The same search where there is nothing to find."""

    flip_accuracy: tuple[Number, ...]
    """On held-out pairs, of each repetition."""
    units: tuple[int, ...]
    clean_accuracy: Number | None = None
    """Of the model that was searched."""


class Evidence(Record, frozen=True, omit_defaults=True, kw_only=True):
    """What was measured about the best run. A check that was not made is absent."""

    level: Level = "quick"
    knowledge: Knowledge | None = None
    unseen_words: UnseenWords | None = None
    away: Share | None = None
    """The preferences for a label that the edit towards this label turns away from it. Absent for an interchange."""
    natural: Natural | None = None
    interchange: Interchange | None = None
    dose: Dose | None = None
    paths: Paths | None = None
    swap: CueSwap | None = None
    text: TextCost | None = None
    effects: tuple[Effect, ...] = ()
    unasked: tuple[str, ...] = ()
    """Other phenomena of which the model cannot score a single pair."""
    necessity: Necessity | None = None
    redundancy: Redundancy | None = None
    permuted: NullSearch | None = None
    """The same search after the words of the two labels were exchanged for a random half of the prefixes."""


class Check(Record, frozen=True, kw_only=True):
    """One check of the verdict."""

    name: str
    passed: bool | None
    """Null if it was not made, or if it could not decide."""
    undecided: bool = False
    """Whether it was made and could not decide."""
    found: str
    """What was found, in words."""
    cure: str = ""
    """The command that would look further."""


class Verdict(Record, frozen=True, kw_only=True):
    """What may be said about the best run."""

    word: Word
    sentence: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.passed is False)


class TransferRow(Record, frozen=True, kw_only=True):
    """One question with the intervention applied."""

    question: str
    effect: Effect | None = None
    """Null if the model cannot score it."""
    reason: str = ""
    """Why the model cannot score it."""
    prefix_in_training: int | None = None
    """How many of its pairs have a prefix that the run's training pairs have. Null if it is not known."""


class Transfer(Record, frozen=True, kw_only=True):
    """The transfer of an intervention to other questions than the one that it was found for."""

    model: str
    phenomenon: str
    """The phenomenon that the intervention was found for."""
    directions: tuple[str, str]
    rows: tuple[TransferRow, ...]

    def __repr__(self) -> str:
        rows = [f"{row.question}: {row.effect.told() if row.effect else row.reason}" for row in self.rows]
        return "\n".join([f"Transfer({self.phenomenon} in {self.model})", *rows])
