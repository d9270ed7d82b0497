"""A little English, to find labels and cues in files that state neither. What it finds is told to the user."""

from __future__ import annotations

from collections.abc import Sequence

SINGULAR, PLURAL = 0, 1

_VERBS = {
    **dict.fromkeys(("is", "was", "has", "does", "am"), SINGULAR),
    **dict.fromkeys(("are", "were", "have", "do"), PLURAL),
}
_PRONOUNS = {
    **dict.fromkeys(
        ("he", "she", "it", "him", "his", "its", "himself", "herself", "itself", "this", "that"), SINGULAR
    ),
    **dict.fromkeys(("they", "them", "their", "themselves", "these", "those"), PLURAL),
}
_SUBJECT_PRONOUNS = frozenset({"i", "you", "he", "she", "it", "we", "they"})
FEMININE = frozenset({"she", "her", "hers", "herself"})
MASCULINE = frozenset({"he", "him", "his", "himself"})
NEUTER = frozenset({"it", "its", "itself"})

DETERMINERS = {
    **dict.fromkeys(("this", "that", "a", "an", "every", "each", "one", "another"), SINGULAR),
    **dict.fromkeys(
        ("these", "those", "many", "several", "few", "two", "three", "four", "five", "six", "ten"), PLURAL
    ),
}
"""The determiners that say the number of their noun."""
_OTHER_DETERMINERS = frozenset(
    {
        "the",
        "some",
        "no",
        "any",
        "most",
        "all",
        "both",
        "my",
        "your",
        "his",
        "her",
        "its",
        "our",
        "their",
        "which",
    }
)
RELATIVES = frozenset({"who", "that", "which", "whom", "whose"})
_PREPOSITIONS = frozenset(
    {
        "of",
        "about",
        "near",
        "behind",
        "beside",
        "with",
        "by",
        "from",
        "in",
        "on",
        "at",
        "to",
        "for",
        "under",
        "over",
    }
)
_COMPOUNDS = frozenset({"art", "college", "grocery", "high", "movie", "shopping", "public"})
"""Words that begin a noun of two words, such as grocery store."""


_IRREGULAR = (
    *(("man", "men"), ("foot", "feet"), ("tooth", "teeth"), ("goose", "geese"), ("mouse", "mice")),
    *(("child", "children"), ("person", "people"), ("ox", "oxen"), ("die", "dice"), ("louse", "lice")),
    *(("us", "i"), ("is", "es"), ("on", "a"), ("um", "a"), ("fe", "ves"), ("f", "ves"), ("ix", "ices")),
    *(("ex", "ices"), ("a", "ae")),
)
"""The ends of nouns in the singular and in the plural."""


def verb_number(word: str, other: str) -> int | None:
    """The number of a verb, of which `other` is another form; None if it cannot be told."""
    a, b = (text.lower().replace("’", "'").removesuffix("n't") for text in (word, other))
    if a in _VERBS:
        return _VERBS[a]
    if _with_s(b) == a or _with_es(b) == a:
        return SINGULAR
    return PLURAL if _with_s(a) == b or _with_es(a) == b else None


def noun_number(word: str, other: str) -> int | None:
    """The number of a noun, of which `other` is another form."""
    a, b = word.lower(), other.lower()
    if _with_s(b) == a or _with_es(b) == a or a in _irregular(b):
        return PLURAL
    return SINGULAR if _with_s(a) == b or _with_es(a) == b or b in _irregular(a) else None


def pronoun_number(word: str) -> int | None:
    return _PRONOUNS.get(word.lower())


def _with_s(word: str) -> str:
    return f"{word[:-1]}ies" if word[-1:] == "y" and word[-2:-1] not in tuple("aeiou") else f"{word}s"


def _with_es(word: str) -> str:
    return f"{word}es"


def _irregular(singular: str) -> tuple[str, ...]:
    """Possible irregular plurals of a noun."""
    return tuple(singular[: -len(end)] + plural for end, plural in _IRREGULAR if singular.endswith(end))


def is_determiner(word: str) -> bool:
    word = word.lower()
    return word in DETERMINERS or word in _OTHER_DETERMINERS or word.endswith(("'s", "’s"))


def last_determiner(words: Sequence[str]) -> int | None:
    """The index of a determiner that says the number of a noun at the end of a prefix: one of the last four words."""
    for place in range(len(words) - 1, max(-1, len(words) - 5), -1):
        if words[place].lower() in DETERMINERS:
            return place
    return None


def subject(words: Sequence[str], start: int = 0) -> int:
    """The index of the head of the subject that begins at `start`: a name, or the noun after a determiner."""
    lower = [word.lower() for word in words]
    place = start
    if lower[place : place + 3] == ["a", "lot", "of"]:
        place += 3
    elif place + 1 < len(words) and is_determiner(lower[place]):
        place += 1
    if place + 1 < len(words) and lower[place] in _COMPOUNDS:
        place += 1
    return min(place, len(words) - 1)


def subject_before_verb(words: Sequence[str]) -> int:
    """The index of the head of the subject at the end of a prefix: a pronoun that is the last word; otherwise the
    prefix is the subject, and its head is before the first relative pronoun or preposition, or at the end."""
    lower = [word.lower() for word in words]
    if lower[-1] in _SUBJECT_PRONOUNS:
        return len(words) - 1
    first = subject(words)
    for place in range(first + 1, len(words)):
        if lower[place] in RELATIVES or lower[place] in _PREPOSITIONS:
            return place - 1
    return len(words) - 1
