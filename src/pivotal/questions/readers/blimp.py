"""Reader of BLiMP (Warstadt et al. 2020): one .jsonl file for each of its 67 paradigms.

Twenty paradigms have two words after one prefix and can be asked. In twelve of them each kind of word is right in some
pairs and wrong in others; in eight the same kind is always right, so they have one direction. The other paradigms
compare one word after two prefixes, or whole sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pivotal.errors import PivotalError
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import BadRows, name_of
from pivotal.questions.readers import english
from pivotal.questions.readers.assemble import Rules, assemble
from pivotal.questions.readers.base import Part, Reader, Sample
from pivotal.questions.readers.choice import Choice, between_continuations, between_sentences
from pivotal.questions.readers.labels import ONE_WAY
from pivotal.questions.readers.rows import rows_of

_KEYS = ("sentence_good", "sentence_bad")
_PREFIX, _GOOD, _BAD = "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad"
_THINK = ("imagin", "think", "thought", "explain", "say", "said", "claim", "know", "knew")


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
            raise PivotalError(f"{path}: none of its {len(parts)} files can be asked. {parts[0].reason}")
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
                found.append(Part(pairs.name, pairs))
        return found

    @classmethod
    def recognises(cls, sample: Sample) -> bool:
        return set(_KEYS) <= sample.keys and sample.path.suffix.lower() in (".jsonl", ".gz", "")

    def _paradigm(self, path: Path) -> PairSet:
        bad = BadRows(self.reading.skip_bad)
        choices, uid, same = [], name_of(path), 0
        for where, row in rows_of(path, bad):
            if isinstance(row.get("UID"), str):
                uid = str(row["UID"])
            _check_method(path, row)
            if _PREFIX in row and row.get(_GOOD) == row.get(_BAD):
                same += 1  # as published: such a row asks nothing
                continue
            with bad.row():
                choices.append(_choice(where, row, uid))
        made = assemble(uid, choices, bad, _rules(uid))
        note = f"Left out {same} rows with the same word twice."
        return replace(made, notes=(*made.notes, note)) if same else made


def _check_method(path: Path, row: Mapping[str, object]) -> None:
    if row.get("one_prefix_method") is not False:
        return
    if row.get("two_prefix_method"):
        raise PivotalError(
            f"{path}: it compares one word after two prefixes, not two words after one prefix."
        )
    raise PivotalError(f"{path}: it compares whole sentences, not two words after one prefix.")


def _choice(where: str, row: Mapping[str, object], uid: str) -> Choice:
    try:
        if _PREFIX in row:
            texts = [row.get(key) for key in (_PREFIX, _GOOD, _BAD)]
            if not all(isinstance(text, str) and text.strip() for text in texts):
                raise PivotalError(f"{_PREFIX}, {_GOOD} and {_BAD} must be texts, not {texts}.")
            prefix, good, bad = between_continuations(*map(str, texts))
        else:
            missing = [key for key in _KEYS if not isinstance(row.get(key), str)]
            if missing:
                raise PivotalError(
                    f"A row of BLiMP has {' and '.join(_KEYS)}, but here is no text {missing[0]}."
                )
            prefix, good, bad = between_sentences(str(row["sentence_good"]), str(row["sentence_bad"]))
    except PivotalError as error:
        raise PivotalError(f"{where}: {error}") from None
    return Choice(where, prefix, good, bad, group=uid)


# -- cues ------------------------------------------------------------------------------------------------------------


def _rules(uid: str) -> Rules:
    """The cue of the paradigms for which the general rules know none, or another."""
    for beginning, rules in _CUES.items():
        if uid.startswith(beginning):
            return rules
    return Rules()


def _first(words: Sequence[str]) -> int:
    return 0


def _last(words: Sequence[str]) -> int:
    return len(words) - 1


def _participle(words: Sequence[str]) -> int | None:
    """The word before “by”."""
    places = [i for i, word in enumerate(words) if word == "by" and i]
    return places[-1] - 1 if places else None


def _embedded_subject(words: Sequence[str]) -> int | None:
    """The head of the subject after the last verb of thinking or saying."""
    places = [i for i, word in enumerate(words) if word.lower().startswith(_THINK) and i + 1 < len(words)]
    if not places:
        return None
    start = places[-1] + 1
    if words[start] in ("about", "that") and start + 1 < len(words):
        start += 1
    return english.subject(words, start)


_SUBJECT = Rules(english.subject, "the head of the subject")
_CUES: dict[str, Rules] = {
    "animate_subject_passive": Rules(_participle, "the participle before “by”"),
    "irregular_past_participle_verbs": Rules(_last, "the last word"),
    "npi_present_1": Rules(_first, "the first word"),
    "npi_present_2": Rules(_last, "the last word"),
    "principle_A_case_1": _SUBJECT,
    "principle_A_case_2": Rules(_last, "the last word"),
    "principle_A_domain_1": _SUBJECT,
    "principle_A_domain_2": Rules(_embedded_subject, "the head of the subject of the second clause"),
    "wh_island": Rules(_first, "the first word"),
}
