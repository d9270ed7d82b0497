"""What most files in other formats hold: a prefix, a good and a bad next word, and sometimes another prefix.

`assemble` makes pairs of them. Labels and cues that a file does not state are taken from its rows where that is sure:
labels are the words themselves if the same words are right in some rows and wrong in others, and the cue is the word in
which two prefixes differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pivotal.errors import PivotalError
from pivotal.printing import counted
from pivotal.questions.minimal_pair import MinimalPair, find_cue, members
from pivotal.questions.pairs import PairSet
from pivotal.questions.rows import SKIP, BadRows

ONE_WAY = ("good", "bad")
"""The labels if the same kind of word is always right. Such pairs have one direction."""
_MARKS = ".,;:?!"

T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """A row of a file in another format."""

    where: str
    """File and line, for messages."""
    prefix: str
    good: str
    """The word that should follow, or `a|b` for several."""
    bad: str
    other: str = ""
    """The prefix after which the bad word should follow; empty if the file has none."""
    cue: int | str | None = None
    group: str = ""
    label: str = ""
    """The label of the good word, if the file states it."""
    lexemes: tuple[tuple[str, str], ...] = ()
    """The lemmas, which twins share."""


@dataclass(frozen=True)
class Rules:
    """What a reader knows of a file that states neither labels nor cues."""

    labels: tuple[str, str] | None = None
    label_of: Callable[[Choice], int | None] = lambda choice: None
    """The label of the good word; None for a row to leave out."""
    find_cue: Callable[[Sequence[str]], int | None] = lambda words: None
    """From the words of a prefix to the index of the cue; None if it has none."""
    cue: str = ""
    """Which word the cue is, in words."""


# -- sentences that differ in one word --------------------------------------------------------------------------------


def between_sentences(good: str, bad: str) -> tuple[str, str, str]:
    """The prefix that two sentences share, and the two words that follow it. They may differ in one word only."""
    first, second = good.split(), bad.split()
    place = _first_difference(first, second)
    if place == 0 or place == min(len(first), len(second)) or first[place + 1 :] != second[place + 1 :]:
        raise PivotalError(
            f"Two sentences must begin alike and differ in one word, but these are “{good}” and “{bad}”. End both "
            f"after the word that differs, or make the rest alike.{SKIP}"
        )
    words = first[place], second[place]
    while words[0][-1:] == words[1][-1:] and words[0][-1:] in _MARKS and min(map(len, words)) > 1:
        words = words[0][:-1], words[1][:-1]
    return " ".join(first[:place]), *words


def between_continuations(prefix: str, good: str, bad: str) -> tuple[str, str, str]:
    """The prefix and the first words that differ, where continuations may have several words: what they share belongs
    to the prefix, and what follows the difference is left out."""
    first, second = good.split(), bad.split()
    place = _first_difference(first, second)
    if place == min(len(first), len(second)):
        raise PivotalError(f"The two continuations must differ in a word, but they are “{good}” and “{bad}”.")
    return " ".join([*prefix.split(), *first[:place]]), first[place], second[place]


def _first_difference(first: list[str], second: list[str]) -> int:
    """The index of the first word in which two texts differ, or the length of the shorter one."""
    differ = (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differ, min(len(first), len(second)))


# -- pairs ------------------------------------------------------------------------------------------------------------


def choices_in(
    rows: Iterable[tuple[str, T]], bad: BadRows, choices_of: Callable[[str, T], Iterable[Choice]]
) -> list[Choice]:
    """The choices of all rows that can be read. `bad` takes the others."""
    found: list[Choice] = []
    for where, row in rows:
        with bad.row(where):
            found += choices_of(where, row)
    return found


def assemble(name: str, choices: Sequence[Choice], bad: BadRows, rules: Rules | None = None) -> PairSet:
    """The pairs of some choices. The notes of the set say what was taken from the rows."""
    rules = rules or Rules()
    if not choices:
        raise PivotalError(f"{name}: the file must hold at least one pair, but it holds none.{bad.first()}")
    labels, label_of, notes = _labels(choices, rules)
    kept = [(choice, label) for choice, label in zip(choices, label_of, strict=True) if label is not None]
    odd = [choice for choice, label in zip(choices, label_of, strict=True) if label is None]
    for choice in odd if rules.labels is None else []:
        with bad.row(choice.where):
            said = f"The labels are {' and '.join(labels)}, but this row has '{choice.label}'. Correct it."
            raise PivotalError(f"{said}{SKIP}", "label")
    if odd and rules.labels is not None:
        notes.append(
            f"Left out {len(odd):,} of {len(choices):,} pairs whose two words are not one {labels[0]} and one "
            f"{labels[1]}, such as “{odd[0].good}” and “{odd[0].bad}” ({odd[0].where})."
        )
    twins = _twins(kept) if labels != ONE_WAY and not any(choice.other for choice, _ in kept) else {}
    pairs: list[MinimalPair] = []
    inferred: dict[str, list[MinimalPair]] = {}
    for row, (choice, label) in enumerate(kept):
        with bad.row(choice.where):
            other, cue, how = _cue(choice, twins.get(row, ""), rules)
            pairs.append(_pair(choice, labels, label, cue, other))
            inferred.setdefault(how, []).append(pairs[-1])
    if not pairs:
        raise PivotalError(f"{name}: none of the rows can be read.{bad.first()}")
    notes += [_cue_note(how, found) for how, found in inferred.items() if how]
    if missing := sum(pair.cue is None for pair in pairs):
        notes.append(
            f"No cue is known for {missing:,} of {counted(len(pairs), 'pair')}: use --steps every, or state the cue in "
            "a pairs file or a column cue."
        )
    distinct = tuple(dict.fromkeys(pairs))
    return PairSet(name, labels, distinct, merged=len(pairs) - len(distinct), notes=(*notes, *bad.notes()))


def _labels(choices: Sequence[Choice], rules: Rules) -> tuple[tuple[str, str], list[int | None], list[str]]:
    """The two labels, which one the good word of each row has, and a note about where they come from."""
    every = [choice.label for choice in choices if choice.label]
    stated = sorted((label for label, _ in Counter(every).most_common(2)), key=every.index)
    if len(stated) == 2:
        return (
            (stated[0], stated[1]),
            [stated.index(c.label) if c.label in stated else None for c in choices],
            [],
        )
    if stated:
        path = choices[0].where.partition(",")[0]
        raise PivotalError(f"A file states two labels or none, but {path} states only {stated[0]}.")
    if rules.labels is not None:
        return rules.labels, [rules.label_of(choice) for choice in choices], []
    sides = _two_sides(choices)
    if sides is not None and len({sides[choice.good] for choice in choices}) == 2:
        often = [Counter(w for c in choices for w in (c.good, c.bad) if sides[w] == s) for s in (0, 1)]
        first, second = (members(max(count, key=lambda w: (count[w], w)))[0] for count in often)
        note = f"The file states no labels. They are two of its words, {first} and {second}."
        return (first, second), [sides[choice.good] for choice in choices], [note]
    note = (
        "The file states no labels, so they are good and bad, and the pairs have one direction. A pairs file or a "
        "column label can state which of two labels the good word has."
    )
    return ONE_WAY, [0] * len(choices), [note]


def _two_sides(choices: Sequence[Choice]) -> dict[str, int] | None:
    """Which of two sides each word is on, if every two rows are connected by words that they share: is/are, was/are,
    was/were. None if they are not, or if the words form a circle of three."""
    edges: dict[str, set[str]] = {}
    for choice in choices:
        edges.setdefault(choice.good, set()).add(choice.bad)
        edges.setdefault(choice.bad, set()).add(choice.good)
    side = {choices[0].good: 0}
    waiting = list(side)
    while waiting:
        word = waiting.pop()
        for other in edges[word]:
            if other not in side:
                side[other] = 1 - side[word]
                waiting.append(other)
            elif side[other] == side[word]:
                return None
    return side if len(side) == len(edges) else None


def _twins(kept: Sequence[tuple[Choice, int]]) -> dict[int, str]:
    """For each row the prefix of the only row that asks for the other word after a prefix that differs in one word.

    Such a prefix is the counterfactual of the first: The doctor near the car -> is, The doctors near the car -> are. If
    there are several, their words are not forms of one word, so there is no counterfactual.
    """
    # For each label, the prefixes that fill a prefix with an open word.
    filled: tuple[dict[str, set[str]], dict[str, set[str]]] = ({}, {})
    for choice, label in kept:
        for key in _open_prefixes(choice):
            filled[label].setdefault(key, set()).add(choice.prefix)
    found = {}
    for row, (choice, label) in enumerate(kept):
        alike = [filled[1 - label].get(key, set()) for key in _open_prefixes(choice)]
        # A row that contradicts this one is not its counterfactual.
        others = {prefix for prefixes in alike for prefix in prefixes if prefixes != {choice.prefix}}
        if len(others) == 1 and choice.prefix not in others:
            found[row] = others.pop()
    return found


def _open_prefixes(choice: Choice) -> list[str]:
    """The prefix with each of its words left open, the two words and the lemmas. Words hold no tab."""
    words = choice.prefix.split()
    asked = " ".join(sorted((choice.good, choice.bad))) + str(choice.lexemes)
    return [" ".join((*words[:i], "\t", *words[i + 1 :], "\t", asked)) for i in range(len(words))]


def with_twins(pairs: PairSet) -> PairSet:
    """The pairs of a pairs file. Those that state no counterfactual prefix get that of the only similar row, and the
    word that differs as their cue."""
    labelled = [pair for pair in pairs if pair.label]
    kept = [
        (Choice("", p.prefix, *p.words, lexemes=p.lexemes), pairs.labels.index(p.label)) for p in labelled
    ]
    found = {}
    for row, twin in _twins(kept).items():
        pair, cue = labelled[row], only_difference(labelled[row].prefix.split(), twin.split())
        if pair.cue in (None, cue) and not any(pair.counterfactuals):
            forms = (twin, pair.prefix) if kept[row][1] else (pair.prefix, twin)
            found[pair] = replace(pair, cue=cue, counterfactuals=forms)
    how = "the word that differs from a similar row, whose prefix is the counterfactual"
    notes = (_cue_note(how, list(found.values())),) if found else ()
    return replace(pairs, pairs=tuple(found.get(p, p) for p in pairs), notes=pairs.notes + notes)


def _cue(choice: Choice, twin: str, rules: Rules) -> tuple[str, int | str | None, str]:
    """The other prefix of a row, its cue, and how the cue was found; empty if the row states it."""
    words = choice.prefix.split()
    if choice.cue is not None:
        stated = (
            choice.cue if isinstance(choice.cue, int) else [i for i, w in enumerate(words) if w == choice.cue]
        )
        differs = only_difference(words, twin.split())
        return choice.other or (twin if stated in (differs, [differs]) else ""), choice.cue, ""
    other = choice.other or twin
    if (place := only_difference(words, other.split())) is not None:
        return other, place, "the word that differs from " + ("a similar row" if twin else "the other prefix")
    place = rules.find_cue(words) if words else None
    return other, place, "" if place is None else rules.cue


def only_difference(first: Sequence[str], second: Sequence[str]) -> int | None:
    """The index of the only word in which two prefixes differ; None if they differ in none or in several."""
    places = [i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    return places[0] if len(places) == 1 and len(first) == len(second) else None


def _pair(
    choice: Choice, labels: tuple[str, str], label: int, cue: int | str | None, other: str
) -> MinimalPair:
    """The pair of a row. The other prefix is its counterfactual if it is as long."""
    if choice.other == choice.prefix:
        raise PivotalError(
            f"After the other prefix the bad word is right, so it must differ from the prefix, but both are “{other}”. "
            f"Correct one, or leave the other prefix out.{SKIP}"
        )
    words = (choice.good, choice.bad)
    forms = (choice.prefix, other) if other and len(other.split()) == len(choice.prefix.split()) else ("", "")
    if label == 1:
        words, forms = words[::-1], forms[::-1]
    place = find_cue(choice.prefix, cue)
    return MinimalPair(choice.prefix, place, words, labels[label], choice.group, counterfactuals=forms)


def _cue_note(how: str, pairs: Sequence[MinimalPair]) -> str:
    words, cue = pairs[0].prefix.split(), pairs[0].cue
    assert cue is not None
    words[cue] = f"[{words[cue]}]"
    return f"The cue of {counted(len(pairs), 'pair')} is {how}, such as “{' '.join(words)}”."
