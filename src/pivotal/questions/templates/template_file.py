"""Template files: phenomena as YAML files. `docs/ask-your-own-question.md` describes the format."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pivotal.errors import PivotalError, did_you_mean
from pivotal.files import asset, read_text, write_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.templates.draw import Plan, pairs_of, plan
from pivotal.questions.templates.lexicon import Labels, Lexicon, check_name, conditions_of, read_lexicon
from pivotal.questions.templates.template import SHARED_KEYS, Template, TemplateReader
from pivotal.yaml_places import Place, compose

SUFFIXES = (".yaml", ".yml")
_CURE = " Indent with spaces, and put texts with braces or colons in quotes."
_KEYS = ("name", "labels", "summary", "features", "test", "lexicon", "templates", *SHARED_KEYS)
_NAME = re.compile(r"[^\W_][\w-]*")


@dataclass(frozen=True)
class TemplateFile:
    """A phenomenon in a template file."""

    name: str
    labels: Labels
    summary: str
    lexicon: Lexicon
    templates: tuple[Template, ...]
    test: int | float | None
    """The default number or share of held-out pairs."""
    features: tuple[str, ...] = ()
    """What the phenomenon is about, such as number."""

    def size(self) -> int:
        """The number of pairs."""
        return sum(plan(template, self.labels).size for template in self.templates)

    def pairs(self, seed: int = 0) -> PairSet:
        """All pairs. The seed decides which sentences are made where a template makes a sample."""
        rng = random.Random(seed)
        made: dict[tuple[str, tuple[str, str]], tuple[MinimalPair, Template]] = {}
        plans = []
        for template in self.templates:
            plans.append(plan(template, self.labels))
            for pair in pairs_of(template, self.labels, plans[-1].draws(rng)):
                first, earlier = made.setdefault((pair.prefix, pair.words), (pair, template))
                if first is not pair:
                    raise _twice(pair, template, first, earlier)
        pairs = tuple(pair for pair, _ in made.values())
        notes = _unused(self.lexicon, plans)
        return PairSet(self.name, self.labels, pairs, held_out=self.test, features=self.features, notes=notes)


def read_template(path: str | Path) -> TemplateFile:
    """Read a template file. Errors name the file, the line and the column."""
    path = Path(path)
    return parse_template(read_text(path), str(path), Path(path.name.removesuffix(".gz")).stem)


def parse_template(text: str, source: str, name: str) -> TemplateFile:
    """The phenomenon in a YAML text. `name` is its name if the text gives none."""
    root = compose(text, source, "a template file", _CURE)
    root.require(
        root.is_mapping,
        "a template file is a mapping with the keys labels, words, lexicon and templates, but this is not one. "
        "`pivotal new-phenomenon NAME` writes one to begin with.",
    )
    top = root.fields(_KEYS, ["labels", "templates"])
    labels = _labels(top["labels"])
    lexicon = read_lexicon(top["lexicon"], labels) if "lexicon" in top else {}
    reader = TemplateReader(lexicon, labels, {key: top[key] for key in SHARED_KEYS if key in top})
    templates = tuple(
        reader.read(place, number)
        for number, place in enumerate(top["templates"].items('["The {noun} near the car"]'), start=1)
    )
    for condition in conditions_of(top.get("where"), lexicon):
        top["where"].require(
            any(set(condition.slots) <= set(template.slots) for template in templates),
            f"no template has the slots of a condition, {' and '.join(condition.slots)}.",
        )
    return TemplateFile(
        name=top["name"].text() if "name" in top else name,
        labels=labels,
        summary=top["summary"].text() if "summary" in top else "",
        lexicon=lexicon,
        templates=templates,
        test=_test(top["test"]) if "test" in top else None,
        features=tuple(one.text() for one in top["features"].items("[number]")) if "features" in top else (),
    )


@cache
def bundled() -> dict[str, Path]:
    """The template files that come with the package, by name."""
    return {path.stem: path for path in sorted(asset("phenomena").glob("*.yaml"))}


def write_new(path: Path, like: str | None = None) -> Path:
    """Write the commented example, or a copy of the bundled phenomenon `like`, and return the path of the file.

    `path` is the name of the phenomenon, with or without a folder and the suffix. A file that exists is not touched.
    """
    if path.name and path.suffix.lower() not in SUFFIXES:
        path = path.with_name(path.name + SUFFIXES[0])
    name = path.stem  # empty for '.' and '/'
    if not _NAME.fullmatch(name) or name in bundled():
        raise PivotalError(
            "The name of a new phenomenon is letters, digits, '-' and '_', as my-question, and not that of a bundled "
            f"phenomenon, but it is '{name}'."
        )
    if path.exists():
        raise PivotalError(f"{path} exists already, and nothing was written. Choose another name.")
    if like is None:
        text = read_text(asset("new-phenomenon.yaml")).replace("NAME", name)
    elif like in bundled():
        text = re.sub(r"(?m)^name:.*$", f"name: {name}", read_text(bundled()[like]), count=1)
    else:
        raise PivotalError(f"--like names a bundled template, not '{like}'.{did_you_mean(like, bundled())}")
    write_text(path, text)
    return path


def _labels(place: Place) -> Labels:
    items = place.items("[singular, plural]")
    labels = [check_name(item, item.text(), "a label") for item in items]
    place.require(
        len(set(labels)) == len(labels) == 2,
        f"'labels' are two different names, as [singular, plural], not {labels}.",
    )
    return labels[0], labels[1]


def _test(place: Place) -> int | float:
    try:
        share = float(place.text("200"))
    except ValueError:
        share = 0.0
    return share if 0 < share < 1 else place.positive_number()


def _unused(lexicon: Lexicon, plans: Sequence[Plan]) -> tuple[str, ...]:
    """A note about words of the lexicon that no sentence can have. A misspelt feature is a common cause."""
    used = {entry for made in plans for block in made.blocks for fill in block for _, entry in fill}
    alone = [entry for words in lexicon.values() for entry in words.entries if entry not in used]
    if not alone:
        return ()
    listed = ", ".join(f"{entry.lemma} (line {entry.place.line})" for entry in alone[:5])
    more = f" and {len(alone) - 5} more" if len(alone) > 5 else ""
    return (f"No sentence has {listed}{more}: no template has a slot for them, or 'where' leaves them out.",)


def _twice(pair: MinimalPair, template: Template, first: MinimalPair, earlier: Template) -> PivotalError:
    return template.place.error(
        f"a pair is made once and calls for one label, but '{pair.prefix}' with {' or '.join(pair.words)} is "
        f"{pair.label or 'unlabelled'} here and {first.label or 'unlabelled'} from the template in line "
        f"{earlier.place.line}. Change a word, or remove the repeated word or template."
    )
