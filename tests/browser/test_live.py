"""The live page in a real browser: quiet, readable by all, usable by keyboard, on a phone and in the dark."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from tests.browser.looking import DESK, PHONE, Opened, windows
from tests.serve.asking import served

pytest.importorskip("uvicorn")

from pivotal import Question, RunFolder
from pivotal.jobs.find import find
from pivotal.report.page import write_report
from pivotal.searches import LearnedMask
from pivotal.serve.server import LiveServer

pytestmark = pytest.mark.slow

Live = Callable[..., Opened]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server runs: with two runs under runs/, one at every step and one at the cue."""
    place = tmp_path_factory.mktemp("live")
    for steps in ("every", "single"):
        search = LearnedMask(max_units=3.0, updates=40, refit=8)
        question = Question("planted", "planted", steps=steps, test=81)
        out = str(place / "runs" / steps)
        made = find(question, search, runs=2, controls=0, evidence="none", out=out, command="pivotal find")
        write_report(made.folder)
    return place


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with served(LiveServer()) as client:
            yield client.address


@pytest.fixture
def live(browser: Browser, address: str) -> Iterator[Live]:
    """Opens the page and waits until it shows a sentence."""
    with windows(browser) as window:

        def make(*how: Any) -> Opened:
            made = window(address, *how)
            made.page.locator("body[data-updates]").wait_for()
            return made

        yield make


def changed(at: Page, act: Callable[[], object]) -> None:
    """Do something, and wait until the figures are new."""
    before = int(at.locator("body").get_attribute("data-updates") or 0)
    act()
    expect(at.locator("body")).not_to_have_attribute("data-updates", str(before))


def edited(at: Page) -> list[str]:
    """What the page says of the two words, with the units."""
    return at.locator(".word .value").filter(has_text="with units").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_to_complain_of(live, address, size, scheme):
    seen = live(size, scheme)
    seen.page.get_by_label("One pair per line").fill("The noun0a verb0as/verb0a\nThe noun1a verb1as/verb1a")
    seen.page.get_by_role("button", name="Try them").click()
    expect(seen.page.locator("#pairs-result")).to_contain_text(
        "2 of 2 preferences flipped: 100.0% (95% interval"
    )
    assert seen.violations() == []
    assert not seen.is_wider_than_the_screen()
    assert seen.complaints == [] and all(url.startswith(address) for url in seen.requests)
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 28)"}[scheme]


def test_a_slider_moves_the_figures_by_mouse_and_by_keyboard(live):
    seen = live()
    at = seen.page
    expect(at.locator("#verdict")).to_contain_text("The preference flips")
    for slider in at.locator("#units input[type=range]").all():
        assert slider.get_attribute("min") == "-1" and slider.get_attribute("max") == "1"
    assert at.locator("#units .natural span").count() == 3
    before = edited(at)
    slider = at.locator("#units input[type=range]")
    for i in range(3):  # to the other end, where the units say the opposite
        there = slider.nth(i).input_value()
        changed(at, lambda i=i, there=there: slider.nth(i).press("Home" if float(there) > 0 else "End"))
    expect(at.locator("#verdict")).to_contain_text("The preference stays")
    assert edited(at) != before
    changed(at, lambda: at.get_by_role("button", name="As in the run").press("Enter"))
    assert edited(at) == before
    changed(at, lambda: at.get_by_role("button", name="Set no unit").click())
    expect(at.locator("#facts")).to_contain_text("0.000 KL, mean over the sentence")
    assert at.locator("#trace td.set").count() == 0
    assert seen.complaints == []


def test_units_are_added_and_removed(live):
    seen = live()
    at = seen.page
    at.get_by_label("Add a unit").fill("hidden.0:99")
    at.get_by_label("Add a unit").press("Enter")
    expect(at.locator("#add-problem")).to_contain_text("hidden.0 has units 0 to 63")
    at.get_by_label("Add a unit").fill("hidden.0:3")
    changed(at, lambda: at.get_by_label("Add a unit").press("Enter"))
    expect(at.locator("#add-problem")).to_be_hidden()
    assert at.locator("#units .knob").count() == 4
    expect(at.locator("#trace")).to_contain_text("hidden.0:3")
    changed(at, lambda: at.get_by_role("button", name="Remove hidden.0:3").click())
    assert at.locator("#units .knob").count() == 3
    # The refused unit is an answer of status 422, which the browser itself reports.
    assert all("422" in said for said in seen.complaints)


def test_an_answer_about_a_run_that_is_no_longer_open_is_dropped(live):
    at, held = live().page, []

    def hold(route: Route) -> None:
        held.append(route)

    at.route("**/unit", hold)
    at.get_by_label("Add a unit").fill("hidden.0:3")
    with at.expect_request("**/unit"):
        at.get_by_label("Add a unit").press("Enter")
    other = at.locator("#run option:not(:checked)").first.inner_text()
    changed(at, lambda: at.locator("#run").select_option(label=other))
    with at.expect_response("**/unit"):
        held[0].continue_()
    changed(at, lambda: at.get_by_label("Flip to").select_option("plural"))
    assert at.locator("#units").get_by_text("hidden.0:3", exact=True).count() == 0


def test_a_sentence_is_typed_and_the_cue_and_the_direction_are_chosen(live):
    at = live().page
    single = next(text for text in at.locator("#run option").all_inner_texts() if "single" in text)
    # The page may show this run already. Opening it again resets the sentence, so wait for that.
    changed(at, lambda: at.locator("#run").select_option(label=single))
    expect(at.locator("#lead")).to_contain_text("at the cue")
    sentence = at.get_by_label("Sentence, without")
    changed(at, lambda: sentence.fill("The noun1as near"))
    expect(at.locator("#trace thead")).to_contain_text(re.compile("The.*noun1as.*cue.*near", re.S))
    at.get_by_label("Word for “singular”").fill("verb1as")
    changed(at, lambda: at.get_by_label("Word for “plural”").fill("verb1a"))
    expect(at.locator("#verdict")).to_contain_text("from “verb1a” to “verb1as”")
    changed(at, lambda: at.locator("#cue").select_option(label="near"))
    expect(at.locator("#trace thead small")).to_have_text(["cue"])
    changed(at, lambda: at.get_by_label("Flip to").select_option("plural"))
    expect(at.locator("#units-note")).to_contain_text("when flipping to “plural”")
    sentence.fill("The noun1as zebra")
    expect(at.locator("#problem")).to_contain_text("outside the vocabulary: zebra")
    changed(at, lambda: sentence.fill("The noun1as"))
    expect(at.locator("#problem")).to_be_hidden()


def test_the_report_of_the_run_opens(live):
    seen = live()
    said: list[str] = []
    # Listening to the whole context hears the new page from its first line on.
    seen.page.context.on("console", lambda message: said.append(message.text))
    with seen.page.context.expect_page() as opening:
        seen.page.get_by_role("link", name="Report").click()
    report = opening.value
    report.wait_for_load_state()
    expect(report.locator("h1")).to_have_text("planted in planted")
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_runs_side_by_side(live, folder, size, scheme):
    seen = live(size, scheme)
    at = seen.page
    at.get_by_text("2 runs side by side").press("Enter")
    rows = at.locator("#compare tbody tr")
    assert rows.count() == 2 and at.locator("#compare [aria-current]").count() == 1
    names = rows.locator("th")
    scores = {run: RunFolder(folder / "runs" / run).summary().kl for run in ("every", "single")}
    best = sorted(scores, key=lambda run: scores[run])
    at.get_by_role("button", name="KL", exact=True).press("Enter")  # numbers from the top down
    expect(at.locator("#compare [aria-sort]")).to_have_attribute("aria-sort", "descending")
    expect(names).to_have_text(best[::-1])
    at.get_by_role("button", name="KL", exact=True).press("Enter")
    expect(names).to_have_text(best)
    assert at.evaluate("document.activeElement.textContent") == "KL", "the focus stays"
    assert not seen.is_wider_than_the_screen() and seen.violations() == []
    for run, steps in (("single", "at the cue"), ("every", "at every step")):
        changed(at, lambda run=run: at.locator("#compare").get_by_role("link", name=run).click())
        expect(at.locator("#lead")).to_contain_text(steps)
        expect(at.locator("#compare [aria-current]")).to_have_text(run)
    with at.context.expect_page() as opening:
        rows.first.get_by_role("link", name="report").click()
    expect(opening.value.locator("h1")).to_have_text("planted in planted")
    assert seen.complaints == []


def test_a_search_is_started_watched_and_opened(live):
    seen = live()
    at = seen.page
    at.locator("input[name=model]").fill("planted")
    at.locator("input[name=phenomenon]").fill("planted")
    at.get_by_label("Maximum units").fill("2")
    at.get_by_label("Updates").fill("60")
    at.get_by_role("button", name="Start").press("Enter")
    expect(at.locator("#find-command")).to_have_text(
        "pivotal find planted planted --steps every --max-units 2 --updates 60"
    )
    expect(at.get_by_role("button", name="Cancel")).to_be_visible()
    expect(at.locator("#curves figure").first).to_be_visible(timeout=90_000)
    expect(at.locator("#find-end")).to_have_text("The run is finished.", timeout=180_000)
    assert seen.violations() == []
    at.get_by_role("button", name="Open this run").click()
    expect(at.locator("#lead")).to_contain_text("planted-every-planted")
    assert at.locator("#units .knob").count() <= 2
    assert seen.complaints == []
