"""What the live page shows is what the library computes."""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.asking import Client

from pivotal import Intervention, Problem, RunFolder, evaluate, load_model, trace
from pivotal.questions import MinimalPair, PairSet


@pytest.fixture(scope="module")
def found(planted_run: Path) -> Intervention:
    return RunFolder(planted_run).intervention()


@pytest.fixture(scope="module")
def opened(client: Client) -> dict[str, Any]:
    content: dict[str, Any] = client.ask("open", {"run": 0})
    return content


def asked_of(opened: dict[str, Any], pair: int = 0) -> dict[str, Any]:
    chosen = opened["pairs"][pair]
    return {"run": 0, "sentence": chosen["prefix"], "words": chosen["words"], "units": units_of(opened)}


def look(client: Client, opened: dict[str, Any], pair: int = 0, **more: Any) -> Any:
    return client.ask("look", {**asked_of(opened, pair), **more})


def units_of(opened: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"unit": about["unit"], "values": about["values"]} for about in opened["units"]]


def test_the_list_has_the_run_and_the_names_for_a_search(client, planted_run):
    state = client.ask("state")
    (run,) = state["runs"]
    assert run["path"] == str(planted_run) and run["finished"] and run["units"] == 3
    assert "wiki-lstm" in state["models"] and "number-agreement" in state["phenomena"]
    assert state["search"] is None


def test_a_run_opens_with_its_units_their_ranges_and_its_stored_pairs(opened, found):
    assert [about["unit"] for about in opened["units"]] == [str(unit) for unit in found.units]
    for about, values in zip(opened["units"], found.values.T, strict=True):
        (low, high), limits = about["natural"], about["limits"]
        assert about["values"] == pytest.approx(values.tolist())
        assert limits == [-1, 1] and -1 <= low < high <= 1
    assert len(opened["pairs"]) == 300 and opened["labels"] == ["singular", "plural"] and opened["runs"] == 2


def test_a_sentence_shows_what_trace_and_next_words_compute(client, opened, found):
    model, pair = load_model("planted"), opened["pairs"][5]
    seen = look(client, opened, 5)
    known = trace(found, model, MinimalPair(pair["prefix"], pair["cue"], tuple(pair["words"])))
    assert seen["direction"] == known.direction and seen["flipped"] is known.flipped is True
    assert seen["log_odds"] == pytest.approx(known.log_odds, abs=1e-4)
    assert [seen["untouched"][0], seen["edited"][0]] == pytest.approx(known.probability(0), rel=1e-4)
    assert seen["kl"] == pytest.approx(sum(known.kl) / (len(known.tokens) + 1), rel=1e-4)
    assert all(f"<th scope=col>{token}" in seen["trace"] for token in known.tokens)
    listed = {row["word"]: row for row in seen["next"]}
    after = model.intervened(found, known.direction).next_words(pair["prefix"], 6)
    for side, words in (("edited", after), ("untouched", model.next_words(pair["prefix"], 6))):
        for word, p in words:
            assert listed[word][side] == pytest.approx(p, rel=1e-4)


def test_values_units_and_direction_of_the_page_count_and_not_those_of_the_run(client, opened, found):
    pair = opened["pairs"][0]
    asked = MinimalPair(pair["prefix"], pair["cue"], tuple(pair["words"]))
    fewer = replace(found, units=found.units[:1], values=np.array([[0.3], [-0.2]]), active=np.ones((2, 1)))
    seen = look(
        client, opened, units=[{"unit": str(found.units[0]), "values": [0.3, -0.2]}], direction="plural"
    )
    assert seen["log_odds"] == pytest.approx(trace(fewer, load_model("planted"), asked, direction="plural").log_odds,
                                             abs=1e-4)  # fmt: skip


@pytest.mark.parametrize(
    "units", [[], [{"unit": "hidden.0:3", "values": [None, None]}]], ids=["none", "unset"]
)
def test_without_a_unit_that_is_set_nothing_changes(client, opened, units):
    seen = look(client, opened, units=units)
    assert seen["untouched"] == seen["edited"] and seen["kl"] == 0 and not seen["flipped"]
    assert all(row["untouched"] == pytest.approx(row["edited"], rel=1e-5) for row in seen["next"])


def test_a_sentence_may_end_in_one_of_the_words_of_the_phenomenon(client, opened):
    pair = opened["pairs"][0]
    seen = look(client, opened, sentence=f"{pair['prefix']} {pair['words'][1]}", words=None)
    assert (seen["prefix"], seen["words"], seen["cue"]) == (pair["prefix"], pair["words"], pair["cue"])


def test_a_unit_is_added_by_its_name(client, opened, found):
    about = client.ask("unit", {"run": 0, "unit": "hidden.0:3"})
    low, high = about["natural"]
    assert low <= about["values"][0] <= high
    added = [*units_of(opened), {"unit": "hidden.0:3", "values": about["values"]}]
    assert "hidden.0:3" in look(client, opened, units=added)["trace"]
    for name, said in (
        ("hidden.0:64", "0 to 63"),
        ("hiden.0:1", "Did you mean 'hidden.0'"),
        ("3", "hidden.0"),
    ):
        assert said in client.refusal("unit", {"run": 0, "unit": name})


def test_own_pairs_get_flips_with_an_interval(client, opened, found):
    pairs = opened["pairs"][:9]
    lines = [f"{pair['prefix']} {'/'.join(pair['words'])}" for pair in pairs]
    lines[1] = re.sub(r"^The (\S+)", r"The *\1*", lines[1])
    units = [{**one, "values": [value / 4 for value in one["values"]]} for one in units_of(opened)]
    scored = client.ask("pairs", {"run": 0, "units": units, "text": "\n\n".join(lines)})
    asked = PairSet("planted", found.directions,
                    tuple(MinimalPair(p["prefix"], p["cue"], tuple(p["words"])) for p in pairs))  # fmt: skip
    known = evaluate(replace(found, values=found.values / 4), Problem(load_model("planted"), asked))
    share = known.flip_accuracy
    assert scored["share"] == pytest.approx(
        {"value": share.value, "low": share.low, "high": share.high, "n": 9}
    )
    assert scored["kl"] == pytest.approx(known.kl, rel=1e-3)
    assert [row["flipped"] for row in scored["rows"]] == [outcome.flipped for outcome in known.outcomes]


def test_pairs_that_cannot_be_asked_are_counted_or_refused(client, opened):
    asked: dict[str, Any] = {"run": 0, "units": units_of(opened)}
    good = "The noun0a verb0as/verb0a"
    scored = client.ask("pairs", {**asked, "text": f"{good}\nThe zebra verb0as/verb0a"})
    assert scored["share"]["n"] == 1 and "zebra" in scored["rejected"]
    for text, said in (
        ("", "there is no line"),
        (f"{good}\nThe noun0a", "Line 2: A pair is a sentence that ends in two words"),
        ("\n".join([good] * 301), "At most 300 pairs"),
        ("The *noun0a* *near* verb0as/verb0a", "2 are marked"),
    ):
        assert said in client.refusal("pairs", {**asked, "text": text})
    nothing = [{"unit": "hidden.0:3", "values": [None, None]}]
    assert "At least one unit" in client.refusal("pairs", {**asked, "units": nothing, "text": good})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run": 9}, "no run 9"),
        ({"which": 7}, "runs 0 to 1"),
        ({"sentence": "The zebra"}, "zebra"),
        ({"sentence": " "}, "ends in the word asked about"),
        ({"words": ["same", "same"]}, "the fields for the two words"),
        ({"direction": "dual"}, "singular or plural"),
        ({"units": [{"unit": "hidden.0:3", "values": [1e39, 0]}]}, "finite"),
        ({"units": [{"unit": "hidden.0:3", "values": [1, 0]}] * 2}, "occurs more often"),
        ({"units": [{"unit": "hidden.0:3", "values": [1, 0]}] * 65}, "units"),
        ({"sentence": "near " * 300}, "256 at most"),
        ({"sentence": "x" * 2001}, "sentence"),
        ({"surprise": 1}, "there is no key surprise"),
        ({"units": "all"}, "units must be a list"),
    ],
)
def test_mistakes_get_a_sentence(client, opened, change, said):
    assert said in client.refusal("look", {**asked_of(opened), **change})


def test_clients_at_the_same_time_get_their_own_answers(client, opened):
    """Ten clients with requests of their own, some to each run of the folder, get what one alone gets."""
    unit = units_of(opened)[0]["unit"]
    asked = [
        {"pair": pair, "which": which, "units": [{"unit": unit, "values": [value, -value]}]}
        for pair, which, value in itertools.product(range(0, 80, 8), (0, 1), (0.2, 0.9))
    ]
    alone = [look(client, opened, **one) for one in asked]
    with ThreadPoolExecutor(10) as clients:
        together = list(clients.map(lambda one: look(client, opened, **one), asked))
    assert together == alone
    assert len({answer["prefix"] for answer in alone}) == 10
    assert len({str(answer["kl"]) for answer in alone}) > 10
