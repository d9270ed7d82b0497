"""A run is another one if a file that decides its result has changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from pivotal import Finding, PivotalError, Question, RunFolder, load_phenomenon
from pivotal.jobs.changes import changes
from pivotal.jobs.find import find
from pivotal.jobs.fit_basis import fit_basis
from pivotal.models.planted import plant
from pivotal.searches import Exchange, Greedy, LearnedMask, Search

QUESTION = Question(model="planted", phenomenon="planted", test=81)
SHORT = LearnedMask(max_units=3.0, updates=5, refit=2)
TEXT = "The noun0a near noun1a\nThe noun1as often noun2a\nThe noun2a quite\n"


def again(question: Question, search: Search, out: Path, **options: object) -> Finding:
    return find(question, search, controls=0, evidence="none", out=str(out), **options)


def refuses(question: Question, search: Search, out: Path, words: str) -> None:
    """The job is refused with these words."""
    said = rf"holds another run: {words} \(fingerprint is \w+ there and \w+ here\)\."
    with pytest.raises(PivotalError, match=said):
        again(question, search, out)


@pytest.mark.parametrize("kind", ["text", "question"])
def test_what_must_stay(kind, tmp_path):
    file = tmp_path / ("keep.txt" if kind == "text" else "keep.jsonl")
    pairs = load_phenomenon("planted")

    def write(part: int) -> None:
        if kind == "text":
            file.write_text(TEXT * 4 if part == 0 else "The noun2a near noun0a\n" * 3)
        else:
            pairs[part * 90 : part * 90 + 90].save(file)

    write(0)
    asked, out = replace(QUESTION, keep=str(file)), tmp_path / "run"
    again(asked, SHORT, out)
    write(0)
    assert again(asked, SHORT, out).already
    write(1)
    refuses(asked, SHORT, out, "the questions or texts of --keep have changed")


def test_a_basis_in_a_folder(tmp_path):
    model, folder, out = plant().model, tmp_path / "basis", tmp_path / "run"
    corpus = tmp_path / "text.txt"
    corpus.write_text(TEXT * 40)
    fit_basis(model, "hidden.0", out=folder, corpus=corpus)
    asked = replace(QUESTION, sites=f"hidden.0@pca:{folder}", values="unbounded")
    again(asked, SHORT, out)
    assert again(asked, SHORT, out).already
    kept = folder.rename(tmp_path / "elsewhere")
    assert again(asked, SHORT, out).already, "the run holds its basis"
    kept.rename(folder)
    corpus.write_text("The noun0as quite near noun2a\nThe noun2as near\n" * 60)
    fit_basis(model, "hidden.0", out=folder, corpus=corpus, overwrite=True)
    refuses(asked, SHORT, out, "the bases of --sites have changed")


def test_the_intervention_to_start_from(tmp_path):
    start, out = tmp_path / "start", tmp_path / "run"
    greedy = Greedy(max_units=3, candidates=8, sample=24, polish=2, refit=2)
    found = again(QUESTION, greedy, tmp_path / "greedy").folder.intervention()
    found.save(start)
    search = Exchange(start=str(start), max_units=3, candidates=1, sample=24, rounds=1, polish=1, refit=1)
    again(QUESTION, search, out)
    replace(found, scores={}).save(start)
    assert again(QUESTION, search, out).already, "scores are for the reader"
    replace(found, values=found.values + 1).save(start)
    words = "the intervention that the search starts from has changed"
    refuses(QUESTION, search, out, words)


def test_counterfactual_prefixes_decide_evidence_too(tmp_path):
    file, out = tmp_path / "pairs.jsonl", tmp_path / "run"
    pairs = load_phenomenon("planted")
    pairs.save(file)
    asked = replace(QUESTION, phenomenon=str(file))
    assert asked.values == "natural"
    again(asked, SHORT, out)
    assert again(asked, SHORT, out).already
    replace(pairs, pairs=tuple(replace(pair, counterfactuals=("", "")) for pair in pairs)).save(file)
    words = "the counterfactual prefixes of the pairs have changed"
    refuses(asked, SHORT, out, words)


TEMPLATE = """\
name: mine
labels: [singular, plural]
summary: Verbs after a noun.
test: 0.5
cue: noun
words: verb
lexicon:
  noun: {singular: [noun0a, noun0b, noun1a, noun1b], plural: [noun0as, noun0bs, noun1as, noun1bs]}
  verb: [{singular: verb0as, plural: verb0a}, {singular: verb1as, plural: verb1a}, {singular: verb0bs, plural: verb0b}]
templates:
  - {prefix: "The {noun}"}
"""


def test_the_share_of_held_out_pairs_that_a_file_states(tmp_path):
    file, out = tmp_path / "mine.yaml", tmp_path / "run"
    file.write_text(TEMPLATE)
    asked = Question(model="planted", phenomenon=str(file))
    summary = again(asked, SHORT, out).summary
    assert summary.pairs.test == summary.pairs.train
    file.write_text(TEMPLATE.replace("0.5", "0.25"))
    words = "the number or the share of held-out pairs that the phenomenon states has changed"
    with pytest.raises(PivotalError, match=rf"are not known: {words} .*0\.5 there and .* Cure\."):
        RunFolder(out).check_pairs(asked, asked.load_pairs(), "Cure.")
    with pytest.raises(PivotalError, match=f"holds another run: {words}"):
        again(asked, SHORT, out)
    assert again(replace(asked, test=6), SHORT, tmp_path / "stated").folder.settings.get("held_out") is None


def test_a_change_of_settings_is_said_before_that_of_files():
    there = {"seed": 0, "data_fingerprint": "a", "keep_fingerprint": "b"}
    assert changes(there, {**there, "seed": 1, "data_fingerprint": "c"}) == ["seed is 0 there and 1 here"]
    assert changes(there, {"seed": 0, "data_fingerprint": "a"}) == []
    assert changes({"seed": 0}, there)[0].endswith("changed (fingerprint is not set there and a here)")
