"""The parts of a template: prefixes, words, labels, cue, counterfactual prefixes and lexemes, read from its keys."""

from __future__ import annotations

import re
from dataclasses import replace

from pivotal.errors import PivotalError, did_you_mean
from pivotal.questions.templates.lexicon import ANY, Lexicon
from pivotal.questions.templates.nodes import Node
from pivotal.questions.templates.slots import Slot, Text, parse_slot, parse_text, slots_of

NONE = "none"

Labels = tuple[str, str]
Words = tuple[tuple[Text, ...], tuple[Text, ...]]
Prefixes = tuple[Text, Text]


def prefixes_of(node: Node, lexicon: Lexicon, labels: Labels) -> Prefixes:
    """The prefix of each label: one text for both, or a text for each."""
    if not node.is_mapping:
        text = parse_text(node, lexicon, labels)
        return text, text
    texts = [parse_text(inner, lexicon, labels) for inner in by_label(node, labels)]
    first, second = (set(slots_of((text,))) for text in texts)
    if first != second:
        odd = ", ".join(f"{{{name}}}" for name in sorted(first ^ second))
        raise node.error(
            f"the two prefixes have the same slots, so that they differ in nothing else; {odd} is in one only."
        )
    return texts[0], texts[1]


def by_label(node: Node, labels: Labels, example: str = "") -> tuple[Node, Node]:
    """The values of the two labels: a mapping by label, or a list in their order."""
    if node.is_mapping:
        found = node.entries()
        for key, inner in found.items():
            if key not in labels:
                raise inner.error(
                    f"the keys of {node.name} are the labels, but '{key}' is none.{did_you_mean(key, labels)}"
                )
        for label in labels:
            if label not in found:
                raise node.error(f"{node.name} has no entry for the label '{label}'.")
        return found[labels[0]], found[labels[1]]
    items = node.items(example)
    if len(items) != 2:
        raise node.error(f"{node.name} has one item for each of the two labels, but it has {len(items)}.")
    return items[0], items[1]


def words_of(node: Node, lexicon: Lexicon, labels: Labels) -> Words:
    """The words of each label: the forms of a list, or given words, which may be sets."""
    node = node.unbraced()
    if node.is_text:
        name = node.text().removeprefix("{").removesuffix("}")
        list_name = re.sub(r"\d*(\..*)?$", "", name)
        if list_name not in lexicon:
            raise node.error(
                f"'words' is a list of the lexicon or two words, as [is, are], but there is no list '{name}'."
                f"{f' Write [{name}].' if ',' in name else did_you_mean(list_name, lexicon)}"
            )
        forms = lexicon[list_name].forms
        if not set(labels) <= set(forms):
            raise node.error(
                f"the two words are the forms {labels[0]} and {labels[1]} of an entry, but '{list_name}' has "
                f"{'the forms ' + ' and '.join(forms) if forms else 'no forms'}."
            )
        slot = parse_slot(name, node, lexicon, labels)
        if not slot.agrees:
            raise node.error(f"'words' names a list, as {list_name}, and no form of it, but it is '{name}'.")
        _check_forms(slot, labels)
        return (Text((slot,)),), (Text((slot,)),)
    first, second = (_set(inner, lexicon, labels) for inner in by_label(node, labels, "[is, are]"))
    return first, second


def _check_forms(slot: Slot, labels: Labels) -> None:
    for entry in slot.words.entries:
        both = [entry.forms[label] for label in labels]
        if both[0] == both[1]:
            raise PivotalError(
                f"{entry.place}: the two words of a pair differ, but both forms of this entry are '{both[0]}'."
            )
        for word in both:
            if " " in word:
                raise PivotalError(f"{entry.place}: the words of a pair have no spaces, but '{word}' has.")


def _set(node: Node, lexicon: Lexicon, labels: Labels) -> tuple[Text, ...]:
    nodes = [node] if node.is_text else node.items("[is, are]")
    texts = tuple(parse_text(inner, lexicon, labels) for inner in nodes)
    for inner, text in zip(nodes, texts, strict=True):
        if not text.slots and " " in text.parts[0]:  # type: ignore[operator]
            raise inner.error(f"each of the words is one word without spaces, not '{text.parts[0]}'.")
        if texts.count(text) > 1:
            raise inner.error(f"the words of a label differ, but '{inner.value}' occurs twice.")
    return texts


def asked_labels(node: Node | None, labels: Labels) -> tuple[str, ...]:
    """The labels of which pairs are made; none if neither word is expected."""
    if node is None:
        return labels
    label = node.text()
    if label == NONE:
        return ()
    if label not in labels:
        raise node.error(
            f"'label' is one of the two labels, or none if neither word is right, not '{label}'."
            f"{did_you_mean(label, (*labels, NONE))}"
        )
    return (label,)


def cue_of(node: Node | None, template: Node, prefixes: Prefixes, asked: tuple[str, ...]) -> str | int | None:
    """A slot, a word or an index; None if it is the only word in which the two prefixes differ."""
    agreeing = [slot.name for slot in prefixes[0].slots if slot.agrees]
    if agreeing and not asked:
        raise template.error(
            f"without a label, no slot can take the form of the label, but {{{agreeing[0]}}} does. Name its form, as "
            f"{{{agreeing[0]}.FORM}}."
        )
    same = prefixes[0] == prefixes[1]
    if asked and same and not agreeing:
        raise template.error(
            "the prefix must differ between the labels, but no slot of it has a form for each label. Add a slot that "
            "has, give a prefix for each label, or write 'label: none' if neither word is right."
        )
    if node is None:
        if not same and not agreeing:
            return None
        if len(agreeing) == 1 and same:
            return agreeing[0]
        names = list(dict.fromkeys(agreeing or [slot.name for slot in prefixes[0].slots]))
        choices = f"Write 'cue: {names[0]}'" if len(names) == 1 else f"It is one of {', '.join(names)}"
        raise template.error(
            f"{template.name} needs the key 'cue', the slot or word that decides between the labels."
            f"{f' {choices}.' if names else ''}"
        )
    return _given_cue(node, template, prefixes)


def _given_cue(node: Node, template: Node, prefixes: Prefixes) -> str | int:
    cue = node.unbraced().text().removeprefix("{").removesuffix("}")
    names = [slot.name for slot in prefixes[0].slots]
    if cue in names:
        for text in prefixes:
            if [slot.name for slot in text.slots].count(cue) > 1:
                raise node.error(
                    f"the cue is one place, but the slot {{{cue}}} is in the prefix twice. Give its index from 0."
                )
        return cue
    if cue.isascii() and cue.isdigit() and len(cue) < 10:
        return int(cue)
    for text in prefixes:
        literal = [word for part in text.parts if isinstance(part, str) for word in part.split()]
        if cue not in literal:
            raise node.error(
                f"'cue' is a slot or a word of the prefix, but '{cue}' is neither in {template.name} (line "
                f"{template.place.line}).{did_you_mean(cue, {*names, *literal})}"
            )
    return cue


def counterfactuals_of(
    node: Node | None, prefixes: Prefixes, asked: tuple[str, ...], lexicon: Lexicon, labels: Labels
) -> tuple[Text | None, Text | None]:
    """The prefix that calls for each label: by default the prefixes themselves, with the forms of the other label."""
    if node is None:
        return prefixes if asked else (None, None)
    example = "{plural: The cars near the house}, or {noun: {singular: car, plural: cars}}"
    if node.is_text and node.value.strip() == NONE:
        return None, None
    given = node.entries(example)
    if set(given) <= set(labels):
        texts = {label: _of_the_prefix(inner, prefixes, lexicon, labels) for label, inner in given.items()}
        return texts.get(labels[0]), texts.get(labels[1])
    replaced = list(prefixes)
    names = slots_of(prefixes)
    for key, inner in given.items():
        if key not in names:
            raise inner.error(
                f"the keys of 'counterfactual' are labels or slots of the prefix, but '{key}' is neither."
                f"{did_you_mean(key, (*labels, *names))}"
            )
        if inner.is_text:
            made = (
                f"{{{key}}} has a form for each label, so leave the key out: the other form is made by itself"
            )
            give = f"Give one word for each label, in their order: {{{key}: [man, woman]}}"
            raise inner.error(
                f"the counterfactual of a slot has a word for each label, not '{inner.value:.40}' for both. "
                f"{made if names[key].agrees else give}."
            )
        for i, word in enumerate(by_label(inner, labels, "[man, woman]")):
            replaced[i] = _replaced(replaced[i], key, word.text())
    return replaced[0], replaced[1]


def _of_the_prefix(node: Node, prefixes: Prefixes, lexicon: Lexicon, labels: Labels) -> Text:
    """The text of a counterfactual prefix. It has no slot that the prefix does not have."""
    text, known = parse_text(node, lexicon, labels), slots_of(prefixes)
    for slot in text.slots:
        if slot.name not in known:
            raise node.error(
                f"a counterfactual prefix has the slots of the prefix, but {{{slot.name}}} is not one of them."
                f"{did_you_mean(slot.name, known)}"
            )
        if slot.form == ANY and known[slot.name].form != ANY:
            raise node.error(
                f"{{{slot.name}.any}} can be in a counterfactual prefix only if it is in the prefix."
            )
    return text


def _replaced(text: Text, name: str, word: str) -> Text:
    is_slot = [isinstance(part, Slot) and part.name == name for part in text.parts]
    return replace(
        text, parts=tuple(word if found else part for part, found in zip(text.parts, is_slot, strict=True))
    )


def lexemes_of(
    node: Node | None, prefixes: Prefixes, words: Words, cue: str | int | None, *, own: bool
) -> tuple[tuple[str, str], ...]:
    """(name, slot) of the slots whose lemmas a split by words holds out. A list given for all templates may name
    slots that this one does not have. By default, they are the cue and the slots of the words, if they vary."""
    before, slots = slots_of(prefixes), slots_of((*prefixes, *words[0], *words[1]))
    if node is None:
        asked = [name for name in slots if name == cue or name not in before]
        return tuple((name, name) for name in asked if len(slots[name].words.entries) > 1)
    if node.is_text and node.value.strip() == NONE:
        return ()
    listed = [] if node.is_mapping else node.items("[noun, verb]")
    named = {inner.text(): inner for inner in listed} or node.entries()
    found = []
    for name, inner in named.items():
        slot = inner.text()
        if slot in slots:
            found.append((name, slot))
        elif own:
            raise inner.error(
                f"'lexemes' names slots of the template, but '{slot}' is none.{did_you_mean(slot, slots)}"
            )
    return tuple(found)
