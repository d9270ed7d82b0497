"""Make a pair from a typed sentence. Missing parts are looked up in the pairs of a phenomenon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.minimal_pair import MinimalPair, find_cue, members, shown
from pivotal.questions.pairs import PairSet
from pivotal.questions.pairs_file import index_or_word


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

    The prefix ends before the last word that the phenomenon asks about, and what follows is left out. `words` are the
    two words in the order of the labels; the sentence may then end with one of them or without. `cue` is a word of the
    sentence or its index. The rest is looked up in the `known` pairs, which are loaded only then.
    """
    typed = sentence.split()
    if words is None and not known().asks_words:
        cure = f"Name two to compare with {named[0]}, that of “{labels[0]}” first."
        raise PivotalError(f"{known().name} asks no words. {cure}")
    if words is None:
        forms = {form for pair in known() for entry in pair.word_sets for form in entry}
        prefix = typed[: next((i for i in range(len(typed) - 1, 0, -1) if typed[i] in forms), -1)]
        asked = _other_word(typed[len(prefix)], known(), labels, named[0]) if prefix else ("", "")
    else:
        if len(words) != 2 or words[0].strip() == words[1].strip():
            example = f"Give two different words, {labels[0]} first, such as admires,admire"
            raise PivotalError(f"{example}; {named[0]} is {','.join(words)!r}.")
        asked = words[0].strip(), words[1].strip()
        ends = typed and any(typed[-1] in members(entry) for entry in asked)
        prefix = typed[:-1] if ends else typed
    if not prefix:
        example = "“The doctor near the cars admires”"
        raise PivotalError(f"A sentence ends in the word asked about, such as {example}, not {sentence!r}.")
    text = " ".join(prefix)
    place = known_cue(prefix, known()) if cue is None else index_or_word(cue)
    if place is None and at_cue:
        raise PivotalError(
            f"This intervention acts at the cue, but no word of “{text}” is a cue that the phenomenon knows, or more "
            f"than one is. Name it with {named[1]}: one of {', '.join(dict.fromkeys(prefix))}, or a 0-based index."
        )
    return MinimalPair(text, find_cue(text, place or 0), asked), place is not None


def _other_word(word: str, known: PairSet, labels: tuple[str, str], option: str) -> tuple[str, str]:
    pairs = Counter(pair.words for pair in known if any(word in words for words in pair.word_sets))
    if len(pairs) == 1:
        return next(iter(pairs))
    usual = Counter(pair.words for pair in known).most_common(1)[0][0]
    cure = f"Name two words with {option}, that of “{labels[0]}” first, as {','.join(map(shown, usual))}."
    if pairs:
        listed = "; ".join(" or ".join(map(shown, two)) for two, _ in pairs.most_common(3))
        raise PivotalError(f"{word!r} is in several pairs of words of {known.name}: {listed}. {cure}")
    forms = Counter(form for pair in known for words in pair.word_sets for form in words)
    guess = did_you_mean(word, forms).partition(" Available:")[0]
    raise PivotalError(
        f"The last word of the sentence must be one of the words that {known.name} asks about, such as "
        f"{', '.join(list(forms)[:6])}, but {word!r} is not.{guess} {cure}"
    )


def known_cue(prefix: Sequence[str], known: PairSet) -> int | None:
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
