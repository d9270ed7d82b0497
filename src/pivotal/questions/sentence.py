"""Make a pair from a typed sentence. Missing parts are looked up in the pairs of a phenomenon."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence

from pivotal.errors import PivotalError
from pivotal.questions.minimal_pair import MinimalPair, find_cue, members, shown
from pivotal.questions.pairs import PairSet

_EXAMPLE = "“The doctor near the cars admires”"


def pair_of(
    sentence: str,
    labels: tuple[str, str],
    known: Callable[[], PairSet],
    *,
    words: Sequence[str] | None = None,
    cue: str | None = None,
    at_cue: bool = True,
    named: tuple[str, str] = ("--words", "--cue"),
) -> tuple[MinimalPair, bool]:
    """The pair, and whether a cue was found. Without `at_cue` the sentence need not have a cue. `named` is what a user
    gives the words and the cue with.

    The last word of the sentence is one of the two words. `words` are the two words in the order of the labels. `cue`
    is a word of the sentence or its index. The rest is looked up in the `known` pairs, which are loaded only then.
    """
    said = sentence.split()
    if words is None:
        if len(said) < 2:
            raise PivotalError(
                f"A sentence has some words and then the word asked about, as {_EXAMPLE}, but it is {sentence!r}."
            )
        asked, prefix = _other_word(said[-1], known(), labels, named[0]), said[:-1]
    else:
        asked = _two(words, labels, named[0])
        prefix = said[:-1] if said and any(said[-1] in members(entry) for entry in asked) else said
        if not prefix:
            raise PivotalError(
                f"A sentence has some words before {' or '.join(map(shown, asked))}, but it is {sentence!r}."
            )
    text = " ".join(prefix)
    place = _given_cue(text, cue) if cue is not None else _known_cue(prefix, known())
    if place is None and at_cue:
        raise PivotalError(
            f"This intervention acts at the cue, but no word of “{text}” is a cue that the phenomenon knows, or more "
            f"than one is. Name it with {named[1]}: one of {', '.join(dict.fromkeys(prefix))}, or a 0-based index."
        )
    return MinimalPair(text, place or 0, asked), place is not None


def _two(words: Sequence[str], labels: tuple[str, str], option: str) -> tuple[str, str]:
    named = [word.strip() for word in words]
    if len(named) != 2 or not all(named) or named[0] == named[1]:
        raise PivotalError(
            f"Two different words are asked about, {labels[0]} first, such as admires,admire, but {option} is "
            f"{','.join(words)!r}."
        )
    return named[0], named[1]


def _other_word(word: str, known: PairSet, labels: tuple[str, str], option: str) -> tuple[str, str]:
    pairs = Counter(pair.words for pair in known if any(word in words for words in pair.word_sets))
    if len(pairs) == 1:
        return next(iter(pairs))
    usual = Counter(pair.words for pair in known).most_common(1)[0][0]
    cure = f"two words with {option}, that of “{labels[0]}” first, such as {','.join(map(shown, usual))}."
    if not pairs:
        forms = sorted({form for pair in known for words in pair.word_sets for form in words})
        near = difflib.get_close_matches(word, forms, n=3)
        guess = f"Did you mean {' or '.join(map(_quoted, near))}?" if near else f"It has {_few(forms)}."
        raise PivotalError(
            f"The last word of the sentence must be one of the words that {known.name} asks about, but {word!r} is "
            f"not. {guess} End the sentence with one of them, or name {cure}"
        )
    listed = "; ".join(" or ".join(_quoted(shown(word)) for word in two) for two, _ in pairs.most_common(3))
    raise PivotalError(
        f"The last word must say which two words are asked about, but {word!r} is in several pairs of "
        f"{known.name}: {listed}. Name {cure}"
    )


def _given_cue(prefix: str, cue: str) -> int:
    words = prefix.split()
    if cue not in words and cue.isascii() and cue.isdigit():
        if len(cue) > 9 or int(cue) >= len(words):
            raise PivotalError(
                f"The cue is a word of “{prefix}” or its index, from 0 to {len(words) - 1}, but it is {cue:.20}.",
                "cue",
            )
        return int(cue)
    return find_cue(prefix, cue)


def _known_cue(prefix: Sequence[str], known: PairSet) -> int | None:
    """The index of the cue: that of the same prefix in the phenomenon, or else of the only word that is a known cue. If
    several words are known cues, only those at a usual position count."""
    text = " ".join(prefix)
    for pair in known:
        if pair.prefix == text:
            return pair.cue
    cues = {pair.cue_word for pair in known if pair.cue is not None}
    found = [index for index, word in enumerate(prefix) if word in cues]
    if len(found) > 1:
        usual = {pair.cue for pair in known}
        found = [index for index in found if index in usual]
    return found[0] if len(found) == 1 else None


def _few(words: Sequence[str], most: int = 6) -> str:
    return ", ".join(map(_quoted, words[:most])) + (" …" if len(words) > most else "")


def _quoted(word: str) -> str:
    return f"“{word}”"
