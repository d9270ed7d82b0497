"""Reader of BLiMP (Warstadt et al. 2020): one .jsonl file for each of its 67 paradigms.

Twenty paradigms have two words after one prefix and become pairs. In twelve of them each kind of word is right in some
pairs and wrong in others; in eight the same kind is always right, so they have one direction. The other paradigms
compare one word after two prefixes, or whole sentences. BLiMP states neither labels nor cues, so this file says for
each paradigm where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.readers.base import Part, Reader
from pivotal.questions.readers.choices import (
    ONE_WAY,
    Choice,
    Rules,
    assemble,
    between_continuations,
    between_sentences,
)
from pivotal.questions.rows import BadRows, name_of, rows_of

_KEYS = ("sentence_good", "sentence_bad")
_FEATURES = {
    "agreement": "number",
    "plural": "number",
    "number": "number",
    "gender": "gender",
    "npi": "negation",
    "anima": "animacy",
    "transitive": "argument-structure",
    "passive": "voice",
    "wh_": "argument-structure",
    "ellipsis": "number",
}
"""What a paradigm is about, by a part of its name."""
_PREFIX, _GOOD, _BAD = "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad"


def features_of(paradigm: str) -> tuple[str, ...]:
    """What a paradigm is about."""
    return tuple(dict.fromkeys(feature for part, feature in _FEATURES.items() if part in paradigm))


@dataclass(frozen=True)
class Blimp(Reader):
    """A file of BLiMP, or the folder with all of them."""

    name: ClassVar[str] = "blimp"
    summary: ClassVar[str] = (
        "reads BLiMP (Warstadt et al. 2020): blimp:FILE.jsonl, or blimp:FOLDER with its 67 files"
    )

    def pairs(self) -> PairSet:
        """The pairs of a file. Of a folder, those of all paradigms with the labels that most paradigms have."""
        path = Path(self.path)
        if not path.is_dir():
            return self._paradigm(path)
        parts = self.parts()
        asked = [part.pairs for part in parts if part.pairs is not None]
        if not asked:
            raise PivotalError(f"{path}: none of its {len(parts)} files becomes pairs. {parts[0].reason}")
        two_way = [pairs for pairs in asked if pairs.labels != ONE_WAY] or asked
        labels = [pairs.labels for pairs in two_way]
        most = max(labels, key=lambda one: (labels.count(one), -labels.index(one)))
        chosen = [pairs for pairs in two_way if pairs.labels == most]
        note = (
            f"{len(chosen)} of {len(parts)} paradigms have the labels {most[0]} and {most[1]}: "
            f"{', '.join(pairs.name for pairs in chosen)}. Name one file to ask another."
        )
        return PairSet("blimp", most, tuple(pair for pairs in chosen for pair in pairs), notes=(note,))

    def parts(self) -> list[Part]:
        path = Path(self.path)
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise PivotalError(f"{path}: the folder must hold the .jsonl files of BLiMP, but it holds none.")
        found = []
        for file in files:
            try:
                pairs = self._paradigm(file)
            except PivotalError as error:
                found.append(Part(file.stem, None, str(error).removeprefix(f"{file}: ")))
            else:
                found.append(Part(file.stem, pairs))
        return found

    def _paradigm(self, path: Path) -> PairSet:
        bad = BadRows(self.reading.skip_bad)
        choices, uid, same = [], name_of(path), 0
        for where, row in rows_of(path, bad):
            uid = str(row.get("UID") or uid)
            if row.get("one_prefix_method") is False:
                compared = (
                    "one word after two prefixes" if row.get("two_prefix_method") else "whole sentences"
                )
                raise PivotalError(f"{path}: it compares {compared}, not two words after one prefix.")
            if _PREFIX in row and row.get(_GOOD) == row.get(_BAD):
                same += 1  # as published: such a row asks nothing
                continue
            with bad.row(where):
                choices.append(_choice(where, row, uid))
        rules = next((rules for name, rules in _PARADIGMS.items() if uid.startswith(name)), None)
        made = assemble(uid, choices, bad, rules)
        notes = (f"Left out {same} rows with the same word twice.",) * bool(same)
        return replace(made, notes=(*made.notes, *notes), features=features_of(uid))


def _choice(where: str, row: Mapping[str, object], uid: str) -> Choice:
    keys = (_PREFIX, _GOOD, _BAD) if _PREFIX in row else _KEYS
    texts = [str(row[key]) for key in keys if isinstance(row.get(key), str) and str(row[key]).strip()]
    if len(texts) < len(keys):
        raise PivotalError(f"A row of BLiMP has the texts {', '.join(keys)}, but one is missing.")
    between = between_continuations(*texts) if _PREFIX in row else between_sentences(*texts)
    return Choice(where, *between, group=uid)


# -- where the labels and cues of a paradigm are ----------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SINGULAR, _PLURAL = 0, 1
_DEMONSTRATIVES = {"this": _SINGULAR, "that": _SINGULAR, "these": _PLURAL, "those": _PLURAL}
_DETERMINERS = _words(
    "this that these those a an every each one another many several few two three four five six ten the some no any "
    "most all both my your his her its our their which"
)
_COMPOUNDS = _words("art college grocery high movie shopping public")
"""Words that begin a noun of two words, such as grocery store."""
_AFTER_SUBJECT = _words(
    "who that which whom whose of about near behind beside with by from in on at to for under over"
)
_SUBJECT_PRONOUNS = _words("i you he she it we they")
_SAYING = ("imagin", "think", "thought", "explain", "say", "said", "claim", "know", "knew")
_SINGULAR_VERBS, _PLURAL_VERBS = _words("is was has does am"), _words("are were have do")
_REFLEXIVES = {"himself": _SINGULAR, "herself": _SINGULAR, "itself": _SINGULAR, "themselves": _PLURAL}
_FEMININE = {"himself": 0, "itself": 0, "herself": 1}


def _noun_number(choice: Choice) -> int | None:
    """The number that the last demonstrative states. It is right for irregular nouns as well."""
    stated = [_DEMONSTRATIVES[word] for word in choice.prefix.lower().split() if word in _DEMONSTRATIVES]
    return stated[-1] if stated else None


def _verb_number(choice: Choice) -> int | None:
    good, bad = (word.lower().replace("’", "'").removesuffix("n't") for word in (choice.good, choice.bad))
    if good in _SINGULAR_VERBS or good in _third_person(bad):
        return _SINGULAR
    return _PLURAL if good in _PLURAL_VERBS or bad in _third_person(good) else None


def _third_person(verb: str) -> tuple[str, str]:
    consonant_y = verb[-1:] == "y" and verb[-2:-1] not in tuple("aeiou")
    return f"{verb[:-1]}ies" if consonant_y else f"{verb}s", f"{verb}es"


def _class_in(classes: Mapping[str, int]) -> Callable[[Choice], int | None]:
    """The class of the good word, if the bad word has the other."""

    def of(choice: Choice) -> int | None:
        good, bad = classes.get(choice.good.lower()), classes.get(choice.bad.lower())
        return good if None not in (good, bad) and good != bad else None

    return of


def _demonstrative(words: Sequence[str]) -> int | None:
    places = [i for i, word in enumerate(words) if word.lower() in _DEMONSTRATIVES]
    return places[-1] if places and places[-1] >= len(words) - 4 else None


def _participle(words: Sequence[str]) -> int | None:
    places = [i for i, word in enumerate(words) if word == "by" and i]
    return places[-1] - 1 if places else None


def _subject(words: Sequence[str], start: int = 0) -> int:
    """The index of the head of the subject that begins at `start`: a name, or the noun after a determiner."""
    lower = [word.lower() for word in words]
    place = start
    if lower[place : place + 3] == ["a", "lot", "of"]:
        place += 3
    elif place + 1 < len(words) and (lower[place] in _DETERMINERS or lower[place].endswith(("'s", "’s"))):
        place += 1
    if place + 1 < len(words) and lower[place] in _COMPOUNDS:
        place += 1
    return min(place, len(words) - 1)


def _subject_before_verb(words: Sequence[str]) -> int:
    """The index of the head of the subject at the end of a prefix: a pronoun that is the last word; otherwise the
    prefix is the subject, and its head is before the first relative pronoun or preposition, or at the end."""
    lower = [word.lower() for word in words]
    if lower[-1] in _SUBJECT_PRONOUNS:
        return len(words) - 1
    after = (i for i in range(_subject(words) + 1, len(words)) if lower[i] in _AFTER_SUBJECT)
    return next(after, len(words)) - 1


def _embedded_subject(words: Sequence[str]) -> int | None:
    """The head of the subject after the last verb of thinking or saying."""
    places = [i for i, word in enumerate(words) if word.lower().startswith(_SAYING) and i + 1 < len(words)]
    if not places:
        return None
    start = places[-1] + 1
    return _subject(words, start + (words[start] in ("about", "that") and start + 1 < len(words)))


_NUMBER, _GENDER = ("singular", "plural"), ("not feminine", "feminine")
_SUBJECT = (_subject, "the head of the subject")
_AGREEMENT = Rules(_NUMBER, _verb_number, _subject_before_verb, "the head of the subject")
_NO_LABEL = (ONE_WAY, lambda choice: 0)
_FIRST, _LAST = (lambda words: 0, "the first word"), (lambda words: len(words) - 1, "the last word")
_PARADIGMS: dict[str, Rules] = {
    "anaphor_gender": Rules(_GENDER, _class_in(_FEMININE), *_SUBJECT),
    "anaphor_number": Rules(_NUMBER, _class_in(_REFLEXIVES), *_SUBJECT),
    "animate_subject_passive": Rules(*_NO_LABEL, _participle, "the participle before “by”"),
    "determiner_noun_agreement": Rules(
        _NUMBER, _noun_number, _demonstrative, "the determiner before the noun"
    ),
    "distractor_agreement": _AGREEMENT,
    "irregular_past_participle_verbs": Rules(*_NO_LABEL, *_LAST),
    "irregular_plural_subject_verb": _AGREEMENT,
    "npi_present_1": Rules(*_NO_LABEL, *_FIRST),
    "npi_present_2": Rules(*_NO_LABEL, *_LAST),
    "principle_A_c_command": Rules(_NUMBER, _class_in(_REFLEXIVES), *_SUBJECT),
    "principle_A_case_1": Rules(*_NO_LABEL, *_SUBJECT),
    "principle_A_case_2": Rules(*_NO_LABEL, *_LAST),
    "principle_A_domain_1": Rules(*_NO_LABEL, *_SUBJECT),
    "principle_A_domain_2": Rules(
        _GENDER, _class_in(_FEMININE), _embedded_subject, "the head of the subject of the second clause"
    ),
    "regular_plural_subject_verb": _AGREEMENT,
    "wh_island": Rules(*_NO_LABEL, *_FIRST),
}
"""By the beginning of their names. A paradigm that is not here has the labels that its words give, and no cue."""
