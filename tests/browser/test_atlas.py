"""The site of an atlas in a real browser: every page, its links, its search, and what it says."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.looking import PHONE
from tests.paths import ROOT
from typer.testing import CliRunner

from pivotal import Intervention, Question
from pivotal.cli.main import app
from pivotal.questions.relabel import relabelled
from pivotal.report.atlas import write_site

pytestmark = pytest.mark.slow

RECIPE = """\
name: toy-atlas
about: Two planted models and four questions.
defaults: {{search: attribution, max_units: 2, controls: 3, known: true, cross: true}}
grid:
  model: [planted, "planted:1"]
  phenomenon: [planted, {renamed}, continent]
  steps: [every]
also:
  - {{label: {{model: planted, phenomenon: never, steps: later}}, model: planted, phenomenon: planted, steps: single}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site. One cell of the recipe is not run."""
    place = tmp_path_factory.mktemp("atlas")
    pairs = Question(phenomenon="planted").load_pairs()
    names = ("one", "<many>")
    renamed = relabelled(pairs, names, dict(zip(pairs.labels, names, strict=True)))
    path = place / "renamed.jsonl"
    renamed.save(path)
    (place / "recipe.yaml").write_text(RECIPE.format(renamed=path))
    given = ("--only", "planted*, every", "--out", str(place / "study"), "--json", "-q")
    done = CliRunner().invoke(app, ["atlas", str(place / "recipe.yaml"), *given])
    assert done.exit_code == 0, done.output
    return Path(json.loads(done.stdout)["site"]).parent


def test_every_page_is_sound(site, opened):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 1 + 4 + 2 + len(list((site / "units").iterdir()))
    for page in pages:
        for size, scheme in (((1200, 900), "light"), (PHONE, "dark")):
            seen = opened(page, size, scheme)
            assert not seen.complaints and not seen.requests, page
            assert seen.violations() == [], page
            assert not seen.is_wider_than_the_screen(), page


def test_every_link_leads_somewhere(site, opened):
    for page in site.rglob("*.html"):
        seen = opened(page)
        for link in seen.page.eval_on_selector_all(
            "a[href]", "all => all.map((one) => one.getAttribute('href'))"
        ):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.name}: {link}"
            pattern = rf'id="?{re.escape(anchor)}[" >]'
            assert not anchor or re.search(pattern, target.read_text()), f"{page.name}: {link}"


def test_the_matrix_says_what_was_found_and_what_was_not_run(site, opened):
    page = opened(site / "index.html").page

    def cells(phenomenon: str) -> list[str]:
        row = page.locator(".matrix tbody tr").filter(
            has=page.get_by_role("rowheader", name=phenomenon, exact=True)
        )
        return [" ".join(text.split()) for text in row.locator("td").all_inner_texts()]

    assert cells("continent") == ["unknown", "unknown", ""]
    assert cells("never") == ["", "", "not run"]
    assert cells("planted")[0].endswith("units")


def test_the_search_keeps_matching_rows(site, opened):
    page = opened(site / "index.html").page
    page.fill("#find", "conti")
    assert page.locator(".matrix tbody tr:visible").count() == 1
    assert page.inner_text("#found") == "1 of 4 rows"
    page.fill("#find", "")
    assert page.locator(".matrix tbody tr:visible").count() == 4


def test_a_model_lists_its_units_and_the_cross_table(site, opened):
    page = opened(site / "models" / "planted.html").page
    heat = page.locator(".heat tbody tr").all_inner_texts()
    assert len(heat) == 2 and "·" in heat[0]
    shared = page.locator("[data-find]").first.inner_text()
    assert "planted" in shared


def test_the_cross_table_of_a_large_atlas_can_be_read(tmp_path, opened):
    """The stored atlas: its names stay in view while it is scrolled, and the pointer gets a sentence."""
    first = write_site(ROOT / "docs" / "results" / "atlas", tmp_path / "site")
    path = first.parent / "models" / "wiki-lstm.html"
    assert path.stat().st_size < 500_000 and first.stat().st_size < 300_000
    seen = opened(path)
    page = seen.page
    assert not seen.complaints and seen.violations() == [] and not seen.is_wider_than_the_screen()
    frame = page.locator(".tall:has(.heat)").first
    frame.scroll_into_view_if_needed()
    head, name = frame.locator("thead th").last, frame.locator("tbody th").last
    frame.evaluate("it => { it.scrollTop = it.scrollHeight; it.scrollLeft = 300; }")
    box, top, left = frame.bounding_box(), head.bounding_box(), name.bounding_box()
    assert box["y"] <= top["y"] < box["y"] + box["height"] and left["x"] == pytest.approx(box["x"], abs=2)
    families = frame.locator(".families th").all_inner_texts()
    assert families[0] == "singular / plural" and families[-1] == "other labels"
    frame.evaluate("it => it.scrollTo(0, 0)")
    frame.locator("tr", has=page.get_by_role("rowheader", name="agreement-have", exact=True)).locator(
        "td"
    ).first.hover()
    said = re.compile(r"^The intervention of agreement-have flips .* of agreement-be\.$")
    expect(page.locator(".reading").first).to_have_text(said)


def test_a_unit_that_several_phenomena_share_has_a_page(site, opened):
    page = opened(site / "models" / "planted.html").page
    page.locator("[data-find] th a").first.click()
    page.wait_for_url("**/units/*")
    unit = page.inner_text("h1").removesuffix(" in planted")
    cards = {
        name: Intervention.load(site / "interventions" / name)
        for name in ("planted--planted--every", "planted--renamed--every")
    }
    assert all(unit in map(str, found.units) for found in cards.values())
    head, *rows = (row.split("\t") for row in page.locator("table").first.locator("tr").all_inner_texts())
    assert head[:5] == ["phenomenon", "verdict", "flips to", "set to", "flipped"]
    told = {(row[0].partition(",")[0], row[2]): row[3].replace("−", "-") for row in rows}
    assert {phenomenon for phenomenon, _ in told} == {"planted", "renamed"} and len(told) == 4
    found = cards["planted--planted--every"]
    place = [str(one) for one in found.units].index(unit)
    for label, values in zip(found.directions, found.values, strict=True):
        assert float(told["planted", label]) == pytest.approx(float(values[place]), abs=1e-3)
    assert page.locator(".heat tbody tr").count() == 2
    page.get_by_role("link", name="planted, every").first.click()
    expect(page.locator("h1")).to_have_text("planted")
    page.get_by_role("link", name=unit).first.click()
    expect(page.locator("h1")).to_have_text(f"{unit} in planted")
