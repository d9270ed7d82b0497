"""Make pairs from the choices of a file, with labels and cues inferred where the file states none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import SKIP, BadRows
from pivotal.questions.readers.choice import Choice
from pivotal.questions.readers.cues import FindCue, between_prefixes, cue_rule, twins
from pivotal.questions.readers.labels import STATED, Labelling, labelled


@dataclass(frozen=True)
class Rules:
    """What a reader knows better than the general rules."""

    find_cue: FindCue | None = None
    cue: str = ""
    """Which word the cue is, in words."""


def assemble(
    name: str,
    choices: Sequence[Choice],
    bad: BadRows,
    rules: Rules | None = None,
    labels: Labelling | None = None,
) -> PairSet:
    """The pairs of some choices. The notes of the set say what was inferred."""
    if not choices:
        raise PivotalError(f"{name}: there must be at least one pair, but there is none.{bad.first()}")
    labelling = labels or _stated_labels(choices) or labelled(choices)
    notes = [_label_note(labelling, choices)]
    if apart := len(choices) - labelling.apart:
        odd = choices[labelling.good.index(None)]
        notes.append(
            f"Left out {_counted(apart)} of {len(choices):,} whose two words are not one {labelling.labels[0]} and one "
            f"{labelling.labels[1]}, such as “{odd.good}” and “{odd.bad}” ({odd.where})."
        )
        choices, labelling = labelling.told_apart(choices)
    cues, others, note = _cues(choices, labelling, rules or Rules())
    pairs = []
    for row, choice in enumerate(choices):
        with bad.row():
            pairs.append(_pair(choice, labelling, cues[row], others[row], labelling.good[row]))
    if not pairs:
        raise PivotalError(f"{name}: none of the rows can be read.{bad.first()}")
    notes.append(note)
    distinct, told = tuple(dict.fromkeys(pairs)), (*filter(None, notes), *bad.notes())
    return PairSet(name, labelling.labels, distinct, merged=len(pairs) - len(distinct), notes=told)


def _counted(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs:,} pairs"


def _stated_labels(choices: Sequence[Choice]) -> Labelling | None:
    """The labels that the file states, if it states exactly two."""
    stated = list(dict.fromkeys(choice.label for choice in choices if choice.label))
    if not stated:
        return None
    if len(stated) != 2:
        raise PivotalError(
            f"A file states two labels, but {choices[0].where.partition(',')[0]} states {len(stated)}: "
            f"{', '.join(stated[:5])}. Use a column with two values, or none."
        )
    good = tuple(stated.index(choice.label) if choice.label else None for choice in choices)
    return Labelling((stated[0], stated[1]), good, STATED)


def _cues(
    choices: Sequence[Choice], labelling: Labelling, rules: Rules
) -> tuple[list[int | None], list[str], str]:
    """The cue and the counterfactual prefix of each row, and a note about what was inferred."""
    cues: list[int | None] = [None] * len(choices)
    others = [choice.other for choice in choices]
    twin = twins(choices, labelling) if not any(others) and not labelling.one_way else [None] * len(choices)
    rule = (rules.find_cue, rules.cue) if rules.find_cue is not None else cue_rule(choices, labelling)
    inferred: dict[str, list[int]] = {}
    for row, choice in enumerate(choices):
        if choice.cue is not None:
            if not others[row] and (other := twin[row]) is not None:
                place = between_prefixes(choice.prefix, choices[other].prefix)
                others[row] = choices[other].prefix if place == _stated_cue(choice) else ""
            continue
        how = "the word that differs from the other prefix"
        if not others[row] and (other := twin[row]) is not None:
            others[row], how = choices[other].prefix, "the word that differs from a similar row"
        if others[row]:
            cues[row] = between_prefixes(choice.prefix, others[row])
        if cues[row] is None and rule is not None and (words := choice.prefix.split()):
            cues[row], how = rule[0](words), rule[1]
        if cues[row] is not None:
            inferred.setdefault(how, []).append(row)
    notes = [_cue_note(how, rows, choices, cues) for how, rows in inferred.items()]
    if missing := sum(cue is None and c.cue is None for cue, c in zip(cues, choices, strict=True)):
        notes.append(
            f"{missing:,} of {len(choices):,} pairs have no cue and can be asked at every step only."
        )
    return cues, others, " ".join(notes)


def _stated_cue(choice: Choice) -> int | None:
    """The index of the cue that a row states; None if the prefix does not have it once."""
    words = choice.prefix.split()
    if isinstance(choice.cue, str):
        return words.index(choice.cue) if words.count(choice.cue) == 1 else None
    return choice.cue


def _pair(
    choice: Choice, labelling: Labelling, inferred: int | None, other: str, label: int | None
) -> MinimalPair:
    """The pair of a row. The other prefix is its counterfactual if it is as long."""
    assert label is not None
    words = (choice.good, choice.bad) if label == 0 else (choice.bad, choice.good)
    forms = ("", "")
    if choice.other == choice.prefix:
        raise PivotalError(
            f"{choice.where}: after the other prefix the bad word is right, so it must differ from the prefix, but "
            f"both are “{other}”. Correct one, or leave the other prefix out.{SKIP}"
        )
    if other and len(other.split()) == len(choice.prefix.split()):
        forms = (choice.prefix, other) if label == 0 else (other, choice.prefix)
    try:
        cue = choice.cue if choice.cue is not None else inferred
        return MinimalPair.parse(
            choice.prefix, cue, words, labelling.labels[label], choice.group, counterfactuals=forms
        )
    except PivotalError as error:
        raise PivotalError(f"{choice.where}: {error}", error.field) from None


def _label_note(labelling: Labelling, choices: Iterable[Choice]) -> str:
    if labelling.kind == STATED:
        return ""
    if labelling.one_way:
        return (
            "The same kind of word is always right, or the words do not say their kind. The labels are good and bad, "
            "and the pairs have one direction."
        )
    shown = []
    for wanted in (0, 1):
        for row, choice in enumerate(choices):
            if labelling.good[row] == wanted:
                shown.append(f"“{choice.good}” is {labelling.labels[wanted]}")
                break
    return f"Labels from {labelling.kind}: {', '.join(shown)}."


def _cue_note(how: str, rows: list[int], choices: Sequence[Choice], cues: Sequence[int | None]) -> str:
    row = rows[0]
    words, cue = choices[row].prefix.split(), cues[row]
    assert cue is not None
    words[cue] = f"[{words[cue]}]"
    return f"Cues inferred for {_counted(len(rows))}: {how}, such as “{' '.join(words)}”."
