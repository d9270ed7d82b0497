"""Write the published data of three papers as pairs files, which every command reads.

python scripts/paper_pairs.py lakretz FOLDER lakretz.jsonl          # the NA tasks of Lakretz et al. (2019)
python scripts/paper_pairs.py gulordava generated.tab gulordava.jsonl  # Gulordava et al. (2018)
python scripts/paper_pairs.py vig FOLDER vig.jsonl                  # the gender data of Vig et al. (2020)
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.templates.template_file import bundled, read_template

NUMBER, PRONOUNS = ("singular", "plural"), ("he", "she")
TASKS = ("simple", "adv", "adv_adv", "adv_conjunction", "namepp", "nounpp", "nounpp_adv")
PROFESSIONS = ("derived_professions_gpt2_single_token.json", "professions.json")
DEFINITIONAL = 0.8
"""The list rates whether a word is male (1) or female (-1) by definition: waiter is 1, actor 0.8, priest 0.7."""


def lakretz(folder: Path) -> PairSet:
    """Rows of sentence, condition, correct or wrong, id. The subject is the second word."""
    lexicon = read_template(bundled()["number-agreement"]).lexicon
    lemmas = {
        slot: {word: entry.lemma for entry in lexicon[slot].entries for word in entry.forms.values()}
        for slot in ("subject", "attractor", "name")
    }
    pairs = []
    for task in (task for task in TASKS if (folder / f"{task}.txt").exists()):
        verbs: dict[tuple[str, ...], dict[str, str]] = {}
        for line in filter(str.strip, (folder / f"{task}.txt").read_text().splitlines()):
            sentence, condition, verdict, key = (cell.strip() for cell in line.split("\t"))
            *prefix, verb = sentence.split()
            verbs.setdefault((" ".join(prefix), condition.split("_")[0], key), {})[verdict] = verb
        for (text, label, _), verb_of in verbs.items():
            prefix, words = text.split(), (verb_of["correct"], verb_of["wrong"])
            words = words if label == "singular" else words[::-1]
            middle = [(s, lemmas[s][w]) for s in ("attractor", "name") for w in prefix[2:] if w in lemmas[s]]
            if not middle and task.startswith("nounpp"):  # a noun outside our word lists is its own lemma
                middle = [("attractor", prefix[prefix.index("the", 2) + 1])]
            subject = ("subject", lemmas["subject"].get(prefix[1], prefix[1]))
            pairs.append(MinimalPair(text, 1, words, label, task, (subject, ("verb", words[1]), *middle)))
    return PairSet("lakretz", NUMBER, tuple(pairs))


def gulordava(path: Path) -> PairSet:
    """Two rows for each sentence, one for each verb form. The cue is the word that the verb agrees with."""

    def sentence(row: dict[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in ("pattern", "constr_id", "sent_id", "type"))

    pairs = []
    with path.open(encoding="utf-8", newline="") as file:
        rows = sorted(enumerate(csv.DictReader(file, delimiter="\t")), key=lambda row: sentence(row[1]))
        by_sentence = [list(found) for _, found in groupby(rows, key=lambda row: sentence(row[1]))]
    for found in sorted(by_sentence, key=lambda found: found[0][0]):
        form = {row["class"]: row["form"] for _, row in found}
        row = found[0][1]
        number = {"sing": "singular", "plur": "plural"}[row["correct_number"]]
        words = (form["correct"], form["wrong"]) if number == "singular" else (form["wrong"], form["correct"])
        cue = len(row["prefix"].split()) - int(row["len_context"])
        # A nonce sentence and its original share this lexeme, so that a split by words keeps them in one part.
        family = ("sentence", f"{row['pattern']}-{row['constr_id']}")
        group = {"original": "original", "generated": "nonce"}[row["type"]]
        pairs.append(MinimalPair(row["prefix"], cue, words, number, group, (family,)))
    return PairSet("gulordava", NUMBER, tuple(pairs))


def vig(folder: Path) -> PairSet:
    """Every one-word profession in every template."""
    templates = json.loads((folder / "templates.json").read_text())
    path = next(folder / name for name in PROFESSIONS if (folder / name).exists())
    return PairSet("vig", PRONOUNS, tuple(_vig_pairs(templates, json.loads(path.read_text()))))


def _vig_pairs(templates: list[str], professions: list[list[object]]) -> Iterator[MinimalPair]:
    for number, template in enumerate(templates, start=1):
        for name, rating, *_ in professions:
            assert isinstance(name, str) and isinstance(rating, int | float)
            if len(name.replace("_", " ").split()) > 1:
                continue
            label = "he" if rating >= DEFINITIONAL else "she" if rating <= -DEFINITIONAL else ""
            # A profession has no other gender, so "man" and "woman" take its place in the counterfactual prefixes.
            prefix, man, woman = (template.replace("{}", noun) for noun in (name.strip(), "man", "woman"))
            lexemes, cue = (("profession", name.strip()),), template.split().index("{}")
            yield MinimalPair(prefix, cue, PRONOUNS, label, f"t{number:02}", lexemes, (man, woman))


READERS = {"lakretz": lakretz, "gulordava": gulordava, "vig": vig}

if __name__ == "__main__":
    paper, source, out = sys.argv[1:]
    READERS[paper](Path(source)).save(out)
