"""One template: a sentence pattern with its cue, its words and its counterfactual, read from a template file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pivotal.questions.templates.lexicon import Lexicon
from pivotal.questions.templates.nodes import Node
from pivotal.questions.templates.parts import (
    Labels,
    Words,
    asked_labels,
    counterfactuals_of,
    cue_of,
    lexemes_of,
    prefixes_of,
    words_of,
)
from pivotal.questions.templates.slots import Slot, Text, slots_of
from pivotal.questions.templates.where import Condition, read_conditions
from pivotal.yaml_places import Place

DEFAULTS = ("cue", "words", "label", "lexemes", "where", "sample", "counterfactual")
"""The keys of a template that may be given once for all templates, at the top of the file."""
KEYS = ("prefix", "group", *DEFAULTS)


@dataclass(frozen=True)
class Template:
    """A sentence pattern. Pairs of texts are in the order of the labels."""

    place: Place
    group: str
    prefixes: tuple[Text, Text]
    words: Words
    labels: tuple[str, ...]
    """The labels of which pairs are made; empty if neither word is expected."""
    cue: str | int | None
    """A slot or a word of the prefix, an index from 0, or None: the only word in which the two prefixes differ."""
    counterfactuals: tuple[Text | None, Text | None]
    lexemes: tuple[tuple[str, str], ...]
    """(name, slot)"""
    conditions: tuple[Condition, ...]
    sample: int | None

    @property
    def prefix_slots(self) -> dict[str, Slot]:
        return slots_of(self.prefixes)

    @property
    def slots(self) -> dict[str, Slot]:
        """All slots, in the order of appearance, those of the words last."""
        return self.prefix_slots | slots_of((*self.words[0], *self.words[1]))

    @property
    def cue_slot(self) -> str | None:
        """The slot that is the cue, if it is a slot."""
        return self.cue if isinstance(self.cue, str) and self.cue in self.prefix_slots else None


def read_template_node(
    node: Node, number: int, defaults: Mapping[str, Node], lexicon: Lexicon, labels: Labels
) -> Template:
    """The template of a node: a mapping, or the text of the prefix alone."""
    if node.is_text:
        own = {"prefix": Node(node.value, node.place, "'prefix'")}
    elif node.is_mapping:
        _check_quotes(node, lexicon)
        own = node.fields(KEYS, ["prefix"])
    else:
        raise node.error(f"{node.name} is a mapping with the key 'prefix', or the text of a prefix.")
    given = {**defaults, **own}
    if "words" not in given:
        raise node.error(f"{node.name} needs the key 'words', here or at the top of the file.")
    prefixes = prefixes_of(given["prefix"], lexicon, labels)
    words = words_of(given["words"], lexicon, labels)
    asked = asked_labels(given.get("label"), labels)
    slots = slots_of((*prefixes, *words[0], *words[1]))
    cue = cue_of(given.get("cue"), node, prefixes, asked)
    return Template(
        place=node.place,
        group=given["group"].text() if "group" in given else f"t{number:02}",
        prefixes=prefixes,
        words=words,
        labels=asked,
        cue=cue,
        counterfactuals=counterfactuals_of(given.get("counterfactual"), prefixes, asked, lexicon, labels),
        lexemes=lexemes_of(given.get("lexemes"), prefixes, words, cue, own="lexemes" in own),
        conditions=read_conditions(given.get("where"), lexicon, slots, own="where" in own),
        sample=given["sample"].whole(1) if "sample" in given else None,
    )


def _check_quotes(node: Node, lexicon: Lexicon) -> None:
    """YAML reads a text without quotes as a mapping if it begins with a brace or has a colon."""
    for key, inner in node.entries().items():
        if key not in KEYS and (" " in key or (inner.value == "" and key.lower() in lexicon)):
            raise inner.error(
                f"{node.name} was read as a mapping with the key '{key}'. Put the text in quotes."
            )
