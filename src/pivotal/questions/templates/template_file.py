"""Template files: phenomena as YAML files. `docs/ask-your-own-question.md` describes the format."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import asset, read_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.templates.draw import plan
from pivotal.questions.templates.expand import expand
from pivotal.questions.templates.lexicon import RESERVED, Lexicon, LexiconEntry, read_lexicon
from pivotal.questions.templates.nodes import Node
from pivotal.questions.templates.template import DEFAULTS, Template, read_template_node
from pivotal.questions.templates.where import conditions_of
from pivotal.yaml_places import parse

SUFFIXES = (".yaml", ".yml")
_CURE = " Indent with spaces, and put texts with braces or colons in quotes."
_KEYS = ("name", "labels", "summary", "test", "lexicon", "templates", *DEFAULTS)


@dataclass(frozen=True)
class TemplateFile:
    """A phenomenon in a template file."""

    name: str
    labels: tuple[str, str]
    summary: str
    lexicon: Lexicon
    templates: tuple[Template, ...]
    test: int | float | None
    """The default number or share of held-out pairs."""

    def size(self) -> int:
        """The number of pairs."""
        return sum(plan(template, self.labels).size for template in self.templates)

    def pairs(self, seed: int = 0) -> PairSet:
        """All pairs. The seed decides which sentences are made where a template makes a sample."""
        rng = random.Random(seed)
        made: dict[tuple[str, tuple[str, str]], tuple[MinimalPair, Template]] = {}
        for template in self.templates:
            for pair in expand(template, self.labels, rng):
                first = made.setdefault((pair.prefix, pair.words), (pair, template))
                if first[0] is not pair:
                    raise _twice(pair, template, *first)
        pairs = tuple(pair for pair, _ in made.values())
        return PairSet(
            self.name, self.labels, pairs, held_out=self.test, notes=_unused(self.lexicon, self.templates)
        )


def read_template(path: str | Path) -> TemplateFile:
    """Read a template file. Errors name the file, the line and the column."""
    path = Path(path)
    return parse_template(read_text(path), str(path), Path(path.name.removesuffix(".gz")).stem)


def parse_template(text: str, source: str, name: str) -> TemplateFile:
    """The phenomenon in a YAML text. `name` is its name if the text gives none."""
    content, place = parse(text, source, "a template file", all_text=True, cure=_CURE)
    if not isinstance(content, dict):
        kind = "empty" if content is None else "a list" if isinstance(content, list) else "text"
        raise PivotalError(
            f"{source}: a template file is a mapping with the keys labels, words, lexicon and templates, but it is "
            f"{kind}. `pivotal new-phenomenon NAME` writes one to begin with."
        )
    top = Node(content, place, "a template file").fields(_KEYS, ["labels", "templates"])
    labels = _labels(top["labels"])
    lexicon = read_lexicon(top["lexicon"]) if "lexicon" in top else {}
    defaults = {key: top[key] for key in DEFAULTS if key in top}
    templates = tuple(
        read_template_node(node, number, defaults, lexicon, labels)
        for number, node in enumerate(top["templates"].items('["The {noun} near the car"]'), start=1)
    )
    _check_shared_lexemes(defaults.get("lexemes"), templates)
    _check_shared_conditions(defaults.get("where"), lexicon, templates)
    return TemplateFile(
        name=top["name"].text() if "name" in top else name,
        labels=labels,
        summary=top["summary"].text() if "summary" in top else "",
        lexicon=lexicon,
        templates=templates,
        test=_test(top.get("test")),
    )


@cache
def bundled() -> dict[str, Path]:
    """The template files that come with the package, by name."""
    return {path.stem: path for path in sorted(asset("phenomena").glob("*.yaml"))}


def _labels(node: Node) -> tuple[str, str]:
    items = node.items("[singular, plural]")
    labels = [item.text() for item in items]
    if len(labels) != 2 or labels[0] == labels[1]:
        raise node.error(f"'labels' are two different names, as [singular, plural], not {labels}.")
    for item, label in zip(items, labels, strict=True):
        if label in RESERVED or any(sign in label for sign in "{}=."):
            raise item.error(
                f"a label is text without braces, '=' and '.', and not {' or '.join(RESERVED)}; '{label}' is not "
                "allowed."
            )
    return labels[0], labels[1]


def _test(node: Node | None) -> int | float | None:
    if node is None:
        return None
    text = node.text("200")
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    return share if 0 < share < 1 else node.whole(1)


def _check_shared_lexemes(node: Node | None, templates: tuple[Template, ...]) -> None:
    """A slot that is named for all templates must be in one of them."""
    if node is None or node.is_text:
        return
    slots = {slot for template in templates for slot in template.slots}
    nodes = node.entries().values() if node.is_mapping else node.items()
    for inner in nodes:
        if inner.text() not in slots:
            raise inner.error(f"'lexemes' names slots, but no template has the slot '{inner.text()}'.")


def _check_shared_conditions(node: Node | None, lexicon: Lexicon, templates: tuple[Template, ...]) -> None:
    """The slots of a condition that is given for all templates must be in one of them."""
    for inner, condition in conditions_of(node, lexicon):
        if not any(set(condition.slots) <= set(template.slots) for template in templates):
            raise inner.error(
                f"no template has the slots of this condition, {' and '.join(condition.slots)}."
            )


def _unused(lexicon: Lexicon, templates: tuple[Template, ...]) -> tuple[str, ...]:
    """Notes about lists and words of the lexicon that no sentence can have. A misspelt feature is a common cause."""
    possible: dict[LexiconEntry, bool] = {}
    for template in templates:
        for name, slot in template.slots.items():
            for entry in slot.words.entries:
                met = all(
                    condition.can_hold(name, entry, template.slots) for condition in template.conditions
                )
                possible[entry] = possible.get(entry, False) or met
    notes = []
    if lists := [name for name, words in lexicon.items() if words.entries[0] not in possible]:
        notes.append(f"No template has a slot for {' or '.join(lists)}, which the lexicon lists.")
    if alone := [entry for entry, met in possible.items() if not met]:
        words = ", ".join(f"{entry.lemma} (line {entry.place.line})" for entry in alone[:5])
        more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
        notes.append(
            f"No sentence has {words}{more}: by 'where', no other word goes with them. Check their features."
        )
    return tuple(notes)


def _twice(pair: MinimalPair, template: Template, first: MinimalPair, earlier: Template) -> PivotalError:
    where = "this template" if earlier is template else f"the template in line {earlier.place.line}"
    question = f"'{pair.prefix}' with {' or '.join(pair.words)}"
    if pair.label != first.label:
        return PivotalError(
            f"{template.place}: a prefix calls for one label, but {question} is {pair.label} here and {first.label} in "
            f"{where}. Change a word."
        )
    return PivotalError(
        f"{template.place}: a pair is made once, but {question} comes a second time; the first is from {where}. "
        "Remove the repeated word or template."
    )
