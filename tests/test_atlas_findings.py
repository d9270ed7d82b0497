"""docs/atlas-findings.md and the matrix of the README are made from the stored rows of the atlas."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from types import ModuleType

import pytest
from tests.paths import ROOT

from pivotal.errors import PivotalError
from pivotal.records import serial
from pivotal.records.study_rows import CrossScore, read_results
from pivotal.report.atlas.cross import QUIET
from pivotal.report.atlas.entries import Atlas, Entry

LSTMS = ("wiki-lstm", "wiki-lstm-tied")
TRANSFORMERS = ("smollm2-135m", "gemma3-270m", "tinyllama-1.1b")
MODELS = (*LSTMS, *TRANSFORMERS)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import atlas_findings
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return atlas_findings


@pytest.fixture(scope="module")
def tables(script: ModuleType) -> ModuleType:
    return sys.modules[script.TABLES["units"].__module__]


@pytest.fixture(scope="module")
def atlas(script: ModuleType) -> Atlas:
    stored: Atlas = script.stored()
    return stored


def test_the_page_and_the_matrix_are_what_the_rows_make(script: ModuleType, atlas: Atlas) -> None:
    cure = "run: python scripts/atlas_findings.py"
    assert script.PAGE.read_text(encoding="utf-8") == script.page(atlas), cure
    assert script.MATRIX.read_text(encoding="utf-8") == script.matrix_svg(atlas), cure
    for name in script.CHARTS:
        assert (script.IMAGES / f"{name}.svg").is_file(), cure


def test_every_phenomenon_has_one_family(tables: ModuleType, atlas: Atlas) -> None:
    listed = [name for names in tables.FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(atlas.phenomena)


def words_of(page: Path) -> str:
    """The text of a page in one line."""
    return " ".join(page.read_text(encoding="utf-8").split())


def found_in(atlas: Atlas, model: str, steps: str = "every") -> dict[str, Entry]:
    """The searched entries of a model, by phenomenon."""
    return {one.phenomenon: one for one in atlas.searched if (one.model, one.steps) == (model, steps)}


def test_figures_of_the_page_are_those_of_the_rows(
    script: ModuleType, tables: ModuleType, atlas: Atlas
) -> None:
    """The sentences state figures by hand; these are the ones that they rest on."""
    text = words_of(script.PAGE)
    reliable, few = {}, {}
    for model in LSTMS:
        entries = found_in(atlas, model).values()
        assert len(entries) == 70
        flips = [entry for entry in entries if tables.accuracy(entry) >= 0.9]
        reliable[model], few[model] = len(flips), sum(len(entry.units) < 3 for entry in flips)
    one, tied = LSTMS
    assert f"in {reliable[one]} and {reliable[tied]} of the 70 phenomena" in text
    assert f"in {reliable[one]} of 70 phenomena in `{one}`, and {few[one]} of these need one or two" in text
    assert f"In `{tied}` it is {reliable[tied]} of 70, and {few[tied]} of these need one or two" in text
    once = [tables.accuracy(entry) for model in LSTMS for entry in found_in(atlas, model, "single").values()]
    assert sum(share >= 0.9 for share in once) == 1 and "90% in one phenomenon of 140" in text
    every = found_in(atlas, one)
    matched = [name for name, entry in every.items() if entry.row.judged.p_value > 0.01]
    assert f"in {len(matched)} of 70: `{'` and `'.join(matched)}`" in text
    assert all(len(every[name].units) == 1 for name in matched)
    shares = {
        (model, steps): [tables.accuracy(entry) for entry in found_in(atlas, model, steps).values()]
        for model in TRANSFORMERS
        for steps in ("every", "single")
    }
    counts = {kind: f"{sum(one >= 0.9 for one in flips)} of {len(flips)}" for kind, flips in shares.items()}
    smollm2, gemma, tinyllama = (counts[model, "every"] for model in TRANSFORMERS)
    assert f"in {smollm2} in SmolLM2, in {gemma} in Gemma and in {tinyllama} in TinyLlama" in text
    assert f"reach 90% in {smollm2}, {gemma} and {tinyllama} phenomena" in text
    smollm2, gemma = (counts[model, "single"] for model in TRANSFORMERS[:2])
    assert f"In SmolLM2 they reach it in {smollm2} and in Gemma in {gemma}" in text
    smollm2, gemma = (f"{100 * median(shares[model, 'single']):.0f}%" for model in TRANSFORMERS[:2])
    assert f"{smollm2} in SmolLM2 and {gemma} in Gemma" in text
    for entry in atlas.searched:
        failed = entry.row.judged.failed
        assert "natural values" not in failed or "flips" in failed


def test_units_that_the_page_names_are_in_the_phenomena_that_it_names(
    tables: ModuleType, atlas: Atlas
) -> None:
    def users(model: str, unit: str) -> Counter[str]:
        entries = found_in(atlas, model).values()
        return Counter(tables.family_of(e.phenomenon) for e in entries if unit in map(str, e.units))

    assert users("wiki-lstm", "hidden.1:433") == users("wiki-lstm", "hidden.1:463") == {"gender": 7}
    assert users("wiki-lstm-tied", "hidden.1:423") == {"number of verbs": 13}
    assert users("smollm2-135m", "mlp.25:161")["number of verbs"] == 10
    assert users("smollm2-135m", "mlp.24:115")["gender"] == 7
    assert {"gender", "number of pronouns"} <= users("smollm2-135m", "mlp.24:343").keys()
    assert users("gemma3-270m", "mlp.12:252")["number of verbs"] == 10
    assert users("gemma3-270m", "mlp.12:551") == {"number of pronouns": 6}
    assert users("tinyllama-1.1b", "mlp.19:571") == {"number of verbs": 9}


def test_at_every_step_each_family_of_number_flips_itself_most(script: ModuleType, atlas: Atlas) -> None:
    cells = [line.strip("| ").split(" | ") for line in script.TABLES["number"](atlas).splitlines()[2:]]
    every = [(row[2], row[3:]) for row in cells if row[1] == "every"]
    assert len(every) == 15, "five models, as the page says"
    kinds = ["number of verbs", "number of nouns", "number of pronouns"]
    for family, shown in every:
        flips = [float(share.rstrip("%")) for share in shown]
        assert kinds[flips.index(max(flips))] == family
    once = {row[2]: row[3:] for row in cells if row[:2] == ["wiki-lstm", "single"]}
    assert once["number of pronouns"][0] == "59.0%" and once["number of pronouns"][2] == "41.8%"


def test_phenomena_that_are_easy_or_hard_in_all_models(tables: ModuleType, atlas: Atlas) -> None:
    flips = {
        model: {name: tables.accuracy(entry) for name, entry in found_in(atlas, model).items()}
        for model in MODELS
    }
    for name in ("article-sound", "comparative", "degree-grade"):
        assert all(flips[model][name] >= 0.96 for model in TRANSFORMERS)
        assert all(flips[model][name] < 0.4 for model in LSTMS)
    for name in ("transitivity", "word-class"):
        assert all(shares[name] < 0.4 for shares in flips.values())
    for family in ("gender", "number of verbs", "number of pronouns"):
        for shares in flips.values():
            assert fmean(share for name, share in shares.items() if tables.family_of(name) == family) > 0.85
    common = set.intersection(*map(set, flips.values()))
    easy = [name for name in common if all(shares[name] >= 0.9 for shares in flips.values())]
    assert len(common) == 58
    counts = {"number of verbs": 8, "gender": 4, "number of pronouns": 1, "tense and verb form": 2}
    assert Counter(map(tables.family_of, easy)) == counts


def test_what_held_in_the_models_that_came_later(
    script: ModuleType, tables: ModuleType, atlas: Atlas
) -> None:
    text = words_of(script.PAGE)
    for model, said in (("gemma3-270m", "69 of 72"), ("tinyllama-1.1b", "70 of 77")):
        entries = found_in(atlas, model).values()
        away = [any(tables.moved_elsewhere(atlas, entry)) for entry in entries]
        assert f"{sum(away)} of {len(away)}" == said and f"holds: {said}" in text
        assert all(entry.row.judged.p_value <= 0.01 for entry in entries)
        assert f"holds: 0 of {len(away)}" in text
    for model, share in (("gemma3-270m", "1%"), ("tinyllama-1.1b", "7%")):
        layers = [
            tables.layer_of(u.site)[1] for e in found_in(atlas, model, "single").values() for u in e.units
        ]
        assert f"{layers.count(0) / len(layers):.0%}" == share and f"**does not hold**: {share}" in text


def test_interventions_that_double_the_perplexity_are_counted(script: ModuleType, atlas: Atlas) -> None:
    text = words_of(script.PAGE)
    found = {
        models: [entry.row.judged.text for model in models for entry in found_in(atlas, model).values()]
        for models in (TRANSFORMERS, LSTMS)
    }
    many, few = ((sum(factor >= 2 for factor in factors), len(factors)) for factors in found.values())
    assert f"{many[0]} of the {many[1]} interventions in transformers" in text
    assert few == (1, 140) and "one of 140 in LSTMs" in text
    assert f"grows by a factor of {max(found[TRANSFORMERS]):.0f}" in text


def test_the_kinds_of_values_are_compared_on_the_same_pairs(script: ModuleType, atlas: Atlas) -> None:
    former = {
        (row.phenomenon, row.steps): row
        for row in read_results(ROOT / "docs/results/atlas_unbounded.jsonl").rows
    }
    now = {(e.row.phenomenon, e.steps): e.row for e in atlas.searched if e.row and e.model == "wiki-lstm"}
    assert former.keys() == now.keys() and len(now) == 140
    for cell, row in now.items():
        assert row.data_fingerprint == former[cell].data_fingerprint
        assert (row.values, former[cell].values) == ("natural", "unbounded")
    assert script.TABLES["values"](atlas).count("| 70 |") == 4


def test_random_divisions_of_number_are_as_good_where_families_do_not_matter(
    script: ModuleType, atlas: Atlas
) -> None:
    """If every intervention flips everything equally, the division into families is no better than a random one."""
    even = [
        replace(
            entry,
            cross=tuple(
                serial.replace(score, flipped=0.5) for score in entry.cross if score.flipped is not None
            ),
        )
        for entry in atlas.searched
        if (entry.model, entry.steps) == ("wiki-lstm", "every")
    ]
    line = script.TABLES["number-test"](Atlas(tuple(even))).splitlines()[-1]
    assert line.endswith("| 50.0% | 50.0% | 1.0000 |")


def test_tables_say_what_was_not_measured(script: ModuleType, tables: ModuleType, atlas: Atlas) -> None:
    """Some models have no direct path that can be measured, and a model may have few rows."""
    none = dict.fromkeys(("interchange", "direct", "text"))
    flips = [one for one in atlas.searched if one.steps == "every" and tables.accuracy(one) >= 0.9]
    bare = [
        replace(entry, row=serial.replace(entry.row, judged=serial.replace(entry.row.judged, **none)))
        for entry in flips[:4]
        if entry.row and entry.row.judged
    ]
    made = {name: table(Atlas(tuple(bare))) for name, table in script.TABLES.items()}
    assert made["cost"].splitlines()[-1].count(" – ") == 3
    listed = [line for line in made["quiet"].splitlines() if "`" in line]
    assert len(listed) == len(set(listed)) == 3
    assert made["specific"].count("\n") == 2, "a line for the one model and kind of step"
    without = Atlas(tuple(replace(entry, cross=()) for entry in bare))
    assert script.TABLES["specific"](without).count("\n") == 1, "the head alone"


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_model_with_few_rows_breaks_no_table(script: ModuleType, atlas: Atlas, rows: int) -> None:
    """Rows are added piece by piece, so a model may have a single one."""
    some = [entry for entry in atlas.searched if entry.steps == "single"][:rows]
    few = Atlas(tuple(replace(entry, model="another") for entry in some))
    for table in script.TABLES.values():
        assert "nan" not in table(few)
    for chart in script.CHARTS.values():
        assert script.draw(chart(few)).startswith("<svg")
    reliable = sum(one.row.accuracy >= 0.9 for one in some)
    assert script.TABLES["quiet"](few).count("another") == min(3, reliable)


def test_the_page_says_what_the_models_know(script: ModuleType, atlas: Atlas) -> None:
    text = words_of(script.PAGE)
    known: dict[str, set[str]] = {}
    for model in LSTMS:
        entries = [entry for entry in atlas.of(model=model) if entry.standing != "not run"]
        assert len(entries) == 182
        known[model] = {entry.phenomenon for entry in entries if entry.standing != "unknown"}
    one, other = known.values()
    assert len(one) == len(other)
    assert f"{len(one)} of 91 each, {len(one & other)} of them in common" in text
    for only, said in (
        (one - other, "`wiki-lstm` alone knows"),
        (other - one, "`wiki-lstm-tied` alone knows"),
    ):
        names = " and ".join(f"`{name.removeprefix('BLiMP ')}`" for name in sorted(only))
        assert f"{said} {names}" in text
    for model in TRANSFORMERS:
        known[model] = set(found_in(atlas, model))
    counts = [len(known[model]) for model in TRANSFORMERS]
    assert "SmolLM2 knows {}, Gemma {} and TinyLlama {}.".format(*counts) in text
    assert f"All five know {len(set.intersection(*known.values()))}." in text
    transformers = [known[model] for model in TRANSFORMERS]
    later = set.intersection(*transformers) - one - other
    assert later == {
        *("do-support", "gender-bias", "indirect-object", "language", "sentiment", "relation-capital"),
        "BLiMP principle_A_domain_2",
    }
    alone = transformers[0] - set.union(one, other, *transformers[1:])
    assert alone == {"relation-antonym", "tense-adverb"}
    assert (one & other) - set.union(*transformers) == {"preposition-time", "since-for"}


def test_a_change_of_five_points_is_not_more_than_five_points() -> None:
    score = CrossScore(phenomenon="passive", pairs=200, flipped=None, untouched=1.0, edited={"active": 0.95})
    assert QUIET < 1.0 - 0.95 and score.moved == QUIET  # the plain difference is a little more


def test_the_stored_atlas_is_small() -> None:
    files = [path for path in (ROOT / "docs" / "results" / "atlas").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6


def test_a_table_that_there_is_not_is_named(
    script: ModuleType, atlas: Atlas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "findings.md"
    text.write_text("<!-- table: unitss -->\n")
    monkeypatch.setattr(script, "TEXT", text)
    with pytest.raises(PivotalError, match="names the table 'unitss'"):
        script.page(atlas)


def test_the_script_says_that_nothing_is_out_of_date() -> None:
    command = [sys.executable, ROOT / "scripts" / "atlas_findings.py", "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_random_sets_flip_little_and_move_a_quarter_as_many_phenomena(
    script: ModuleType, atlas: Atlas
) -> None:
    """What the page says about them."""
    lines = [line.split(" | ") for line in script.TABLES["random"](atlas).splitlines()]
    found, drawn = (
        [float(cell.rstrip("%")) for cell in line[4:6]]
        for line in lines
        if line[0].removeprefix("| ") == "wiki-lstm" and line[2] in ("found", "random")
    )
    assert drawn[0] < 2 < 80 < found[0]
    assert 0.2 < drawn[1] / found[1] < 0.3
