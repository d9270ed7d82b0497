"""The bundled phenomena: each is sound, balanced, described truly, and known by a model; golden figures of two."""

import json
import random
import re
import sys
from collections import Counter
from dataclasses import replace

import pytest
from tests.paths import ROOT

from pivotal import load_phenomenon
from pivotal.questions import PairSet
from pivotal.questions.minimal_pair import members
from pivotal.questions.templates.draw import pairs_of as expand
from pivotal.questions.templates.draw import plan
from pivotal.questions.templates.template import Template
from pivotal.questions.templates.template_file import bundled, read_template

sys.path.append(str(ROOT / "scripts"))

FILES = {name: read_template(path) for name, path in bundled().items()}
MADE: dict[str, PairSet] = {}
FIGURES = json.loads((ROOT / "docs" / "results" / "phenomena.json").read_text(encoding="utf-8"))
UNLABELLED = {"gender-bias"}

every = pytest.mark.parametrize("name", FILES)


def pairs_of(name: str) -> PairSet:
    return MADE.setdefault(name, FILES[name].pairs())


@every
def test_its_pairs_are_sound_and_balanced(name):
    pairs, file = pairs_of(name), FILES[name]
    assert file.name == name and len(pairs) == file.size() and 100 <= len(pairs) <= 12_000
    assert len({(pair.prefix, pair.words) for pair in pairs}) == len(pairs)
    assert all(pair.group and pair.lexemes and all(pair.counterfactuals) for pair in pairs)
    counts = Counter((pair.group, pair.label) for pair in pairs)
    if name in UNLABELLED:
        return
    for pair in pairs:
        own = pairs.labels.index(pair.label)
        assert pair.counterfactuals[own] == pair.prefix != pair.counterfactuals[1 - own]
    for group in pairs.groups:
        assert counts[group, pairs.labels[0]] == counts[group, pairs.labels[1]]
    for label in pairs.labels:
        assert len({pair.prefix for pair in pairs if pair.label == label}) >= 40


@every
def test_its_summary_shows_a_pair_that_it_can_make(name):
    file = FILES[name]
    shown = re.search(r": '(.+)' (\S+) (or|, not) (\S+)$", file.summary.replace(", not", " , not"))
    assert shown, file.summary
    prefix, right, kind, wrong = shown.groups()
    assert (kind == "or") == (name in UNLABELLED)
    for template in reversed(file.templates):  # the longest come last and are the fewest to try
        if _may_make(template, prefix):
            draws = plan(replace(template, sample=None), file.labels).draws(random.Random(0))
            for pair in expand(template, file.labels, draws):
                expected = file.labels.index(pair.label) if pair.label else 0
                words = [members(entry) for entry in pair.words]
                if pair.prefix == prefix and right in words[expected] and wrong in words[1 - expected]:
                    return
    raise AssertionError(file.summary)


def _may_make(template: Template, prefix: str) -> bool:
    """Whether the words of a prefix fit the template; making all its pairs takes longer."""
    return any(
        re.fullmatch("".join(re.escape(p) if isinstance(p, str) else ".+" for p in text.parts), prefix)
        for text in template.prefixes
    )


@every
def test_a_model_knows_it(name):
    """`python scripts/phenomena_table.py` measures what is new."""
    import phenomena_table

    assert FIGURES[name]["pairs"] == pairs_of(name).fingerprint(), "measured on other pairs"
    found = FIGURES[name]["models"]
    assert set(found) == set(phenomena_table.MODELS)
    knows = [phenomena_table.knows(one, FILES[name].labels) for one in found.values()]
    assert any(knows) or name in UNLABELLED


def test_the_changelog_counts_the_phenomena():
    assert f"[{len(FILES)} bundled phenomena]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_page_shows_the_figures():
    import phenomena_table

    page = (ROOT / "docs" / "phenomena.md").read_text(encoding="utf-8")
    assert page == phenomena_table.page(FIGURES), "make it again: python scripts/phenomena_table.py --page"


AGREEMENT = FILES["number-agreement"]
PAIRS = AGREEMENT.pairs()
CONSTRUCTIONS = ("simple", "adv", "adv_adv", "adv_conjunction", "namepp", "nounpp", "nounpp_adv")
SIZES = dict(zip(CONSTRUCTIONS, (600, 1800, 1800, 1200, 1800, 2400, 2400), strict=True))


def test_sizes_and_balance():
    assert len(PAIRS) == 12_000 and PAIRS.groups == SIZES
    subjects, verbs = (len(AGREEMENT.lexicon[name].entries) for name in ("subject", "verb"))
    for group in SIZES:
        pairs = [pair for pair in PAIRS if pair.group == group]
        cells = Counter((pair.cue_word, pair.words, pair.label) for pair in pairs)
        # Every subject form with every verb, equally often.
        assert len(cells) == 2 * subjects * verbs and len(set(cells.values())) == 1


def test_the_seed_decides():
    assert PAIRS.fingerprint() == "e2332b0c180ce958"  # changes only with a deliberate change of the data
    other = load_phenomenon("number-agreement", seed=1)
    assert other.fingerprint() != PAIRS.fingerprint() and other.groups == PAIRS.groups
    assert len(set(other)) == 12_000 and other.fingerprint() == "77b99b9b5d02485b"


def test_a_split_by_words_is_useful():
    train, test = PAIRS.split(test=1000, seed=0, by="words")
    assert len(test) == 1000 and len(train) > 3000
    assert set(test.groups) == set(train.groups) == set(PAIRS.groups)
    for slot in ("subject", "verb", "attractor", "name"):
        seen, unseen = ({dict(pair.lexemes).get(slot) for pair in part} - {None} for part in (train, test))
        assert seen and unseen and not seen & unseen


def test_the_cue_of_gender_bias_is_the_profession_and_no_pronoun_is_right():
    pairs = load_phenomenon("gender-bias")
    assert len(pairs) == 2873 and pairs.fingerprint() == "c684ef2b00714433"
    assert all(pair.lexemes == (("profession", pair.cue_word),) and pair.label == "" for pair in pairs)
    train, test = pairs.split(test=200, by="words")
    assert len(test) == 200 and train.dropped < 17
    assert not {pair.cue_word for pair in train} & {pair.cue_word for pair in test}
