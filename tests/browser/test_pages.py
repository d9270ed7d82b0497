"""Pages as people meet them, in a real browser: whole, quiet, readable by all, and good to look through."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.looking import LIST, LOOKS

from pivotal import RunFolder

pytestmark = pytest.mark.slow

SHOWN = f"{LIST}:visible"


@pytest.fixture(params=["run_page", "transformer_page", "study_page"])
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@LOOKS
def test_nothing_to_complain_of(page, opened, size, scheme):
    seen = opened(page, size, scheme)
    for details in seen.page.locator("details:visible").all()[:12]:
        details.evaluate("part => { part.open = true; }")
    assert seen.violations() == []
    assert not seen.is_wider_than_the_screen()
    assert seen.complaints == [] and seen.requests == []


def test_every_figure_has_its_numbers_and_every_part_is_listed(page, opened):
    at = opened(page).page
    for figure in at.locator("figure:visible").all():
        assert len(figure.get_by_role("img").get_attribute("aria-label") or "") > 20
        figure.locator("summary").press("Enter")
        assert figure.locator("tbody tr").first.is_visible()
    links = at.get_by_role("navigation").get_by_role("link").all()
    assert len(links) == at.locator("main h2:visible").count() >= 4
    for link in links:
        assert at.locator(link.get_attribute("href") or "").inner_text() == link.inner_text()


def test_the_list_is_filtered_by_outcome_construction_direction_and_words(run_page, opened):
    at = opened(run_page).page
    filters, total = at.locator("#filters"), at.locator(LIST).count()
    assert total == 80 and at.locator(SHOWN).count() == 20
    at.get_by_role("button", name="Show more").click()
    assert at.locator(SHOWN).count() == 40
    for label, choice, kind in (("Outcome", "yes", "flipped"), ("Construction", "nounpp", "group"),
                                ("Direction", "plural", "direction")):  # fmt: skip
        filters.get_by_label(label).select_option(choice)
        fitting = at.locator(f"{LIST}[data-{kind}='{choice}']").count()
        assert 0 < fitting < total
        assert at.locator("#count").inner_text().startswith(f"{fitting} of {total} sentences")
        assert all(item.get_attribute(f"data-{kind}") == choice for item in at.locator(SHOWN).all())
        at.get_by_role("button", name="Clear").click()
        expect(at.locator("#count")).to_have_text(f"{total} of {total} sentences, the first 20 shown.")
    word = at.locator(f"{LIST} mark").first.inner_text()
    filters.get_by_label("Words").fill(word.upper())
    assert all(word.lower() in item.inner_text().lower() for item in at.locator(SHOWN).all())
    filters.get_by_label("Words").fill("no sentence has these words")
    assert at.locator(SHOWN).count() == 0 and at.locator("#count").inner_text() == f"0 of {total} sentences."


@pytest.mark.parametrize("way", ["mouse", "keyboard"])
def test_a_trace_opens_and_shows_what_is_stored(run_page, opened, way):
    at = opened(run_page).page
    item = at.locator(SHOWN).first
    assert item.locator("table").is_hidden()
    if way == "mouse":
        item.locator("summary").click()
    else:
        item.locator("summary").press("Enter")
    item.locator("table.heat").wait_for()
    traces = RunFolder(run_page.parent).traces()
    trace = next((one for one in traces.traces if str(one.pair) == item.get_attribute("data-pair")), None)
    heads = [cell.inner_text().split("\n") for cell in item.locator("thead th").all()]
    assert [head[0] for head in heads] == list(trace.tokens)
    assert [i for i, head in enumerate(heads) if head[1:] == ["cue"]] == [trace.cue]
    sides = {"untouched": trace.activation.untouched, "with the edit": trace.activation.edited}
    for side, values in sides.items():
        block = item.locator("tbody").filter(has=at.get_by_text(f"Units, {side}", exact=True))
        for unit, numbers in enumerate(values):
            cells = block.locator("tr").nth(unit + 1).locator("td").all_inner_texts()
            assert [float(cell.replace("−", "-")) for cell in cells] == pytest.approx(numbers, abs=0.0051)
    assert item.locator("td.set").count() == sum(trace.edited) * len(trace.frame.units)
    assert f"{trace.log_odds[1]:+.2f}".replace("-", "−") in item.locator(".outcome").inner_text()


def test_a_trace_of_a_transformer_shows_every_layer_at_every_position(transformer_page, opened):
    seen = opened(transformer_page)
    traces = RunFolder(transformer_page.parent).traces()
    assert traces is not None and len(traces.frame.layers) == 30
    first = min(int(unit.partition(":")[0].removeprefix("mlp.")) for unit in traces.frame.units)
    for item in seen.page.locator(SHOWN).all():
        item.locator("summary").click()
        item.locator("table.heat").wait_for()
        trace = next((one for one in traces.traces if str(one.pair) == item.get_attribute("data-pair")), None)
        assert item.locator("thead th").count() == len(trace.tokens)
        block = item.locator("tbody").filter(has=seen.page.get_by_text("Change of each layer"))
        rows = [row.locator("td").all_inner_texts() for row in block.locator("tr").all()[1:]]
        assert [list(map(float, row)) for row in rows] == [
            pytest.approx(moved, abs=0.0051) for moved in trace.change
        ]
        assert max(map(max, trace.change[:first])) == 0
        assert min(moved[trace.cue] for moved in trace.change[first:]) > 0
    assert seen.violations() == []
    assert seen.complaints == [] and seen.requests == []


def test_an_address_can_name_a_sentence(run_page, opened):
    at = opened(run_page).page
    far = at.locator(LIST).nth(70).get_attribute("id")
    there = opened(run_page, at=f"#{far}").page.locator(f"#{far}")
    expect(there.locator(".outcome")).to_be_visible()
    expect(there.locator("table.heat")).to_be_visible()


def test_without_scripts_it_is_a_plain_list(run_page, opened):
    at = opened(run_page, script=False).page
    assert at.locator("#filters").is_hidden()
    assert at.locator("noscript").first.inner_text().startswith("Without JavaScript")
    assert at.locator(SHOWN).count() == at.locator(LIST).count() == 80
    at.locator(f"{LIST} summary").first.click()
    assert at.locator(".outcome").first.is_visible()
    link = at.locator("a[href^='#unit-']").first
    unit = at.locator(link.get_attribute("href") or "")
    link.click()
    assert unit.is_visible() and at.locator("main > section:visible").count() == 1
