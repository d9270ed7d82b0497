"""What the page of a run does in a browser: pages of units, the menu, sorting, copying, hovering."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.looking import LIST, LOOKS, PHONE

from pivotal import RunFolder
from pivotal.report.page import unit_anchor as anchor

pytestmark = pytest.mark.slow


def units_of(page: Path) -> list[str]:
    return list(RunFolder(page.parent).summary().best_run.unit_labels)


@LOOKS
def test_a_link_opens_the_page_of_a_unit_and_another_leads_back(run_page, opened, size, scheme):
    first, second, *_ = units_of(run_page)
    seen = opened(run_page, size, scheme)
    at, unit = seen.page, seen.page.locator(f"#{anchor(first)}")
    expect(unit).to_be_hidden()
    at.get_by_role("link", name=first, exact=True).press("Enter")
    expect(unit.get_by_role("heading", level=2)).to_be_visible()
    expect(at.locator("main > section:visible")).to_have_count(1)
    expect(unit.locator(".contexts li")).to_have_count(20)
    expect(at.locator("nav a[aria-current]")).to_have_text(["The units"])
    assert seen.violations() == []
    assert not seen.is_wider_than_the_screen()
    unit.get_by_role("link", name="Next").click()
    expect(at.locator(f"#{anchor(second)}")).to_be_visible()
    expect(unit).to_be_hidden()
    at.get_by_role("link", name="All units").locator("visible=true").click()
    expect(at.locator("#the-units")).to_be_in_viewport()
    assert seen.complaints == [] and seen.requests == []


def test_the_menu_marks_the_section_at_hand(run_page, opened):
    at = opened(run_page).page
    for name in ("Where it works", "Reproduce"):
        at.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(at.locator("nav a[aria-current]")).to_have_text(name)


def test_sentences_are_sorted_by_margin_and_by_what_the_model_knows(run_page, opened):
    at = opened(run_page).page
    filters = at.locator("#filters")

    def margins() -> list[float]:
        return [
            float(text)
            for text in at.locator(LIST).evaluate_all("all => all.map((one) => one.dataset.margin)")
        ]

    stored = margins()
    for choice, reverse in (("least", False), ("most", True)):
        filters.get_by_label("Order").select_option(choice)
        assert margins() == sorted(stored, reverse=reverse)
    at.get_by_role("button", name="Clear").click()
    assert margins() == stored
    expect(at.locator("#count")).to_contain_text("the first 20 shown")
    traces = RunFolder(run_page.parent).traces()
    wrong = {pair.pair for pair in traces.pairs if pair.label == pair.direction}
    filters.get_by_label("Untouched model").select_option("wrong")
    assert at.locator("#count").inner_text().startswith(f"{len(wrong)} of ")
    shown = at.locator(f"{LIST}:visible").all()
    assert {int(item.get_attribute("data-pair") or -1) for item in shown} <= wrong
    assert all("the model is wrong" in item.inner_text() for item in shown)


def test_code_is_copied(run_page, opened):
    at = opened(run_page).page
    at.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box = at.locator(".code").filter(has_text="pivotal generate")
    box.get_by_role("button", name="Copy").click()
    expect(box.get_by_role("button")).to_have_text("Copied")
    assert at.evaluate("navigator.clipboard.readText()") == box.locator("code").inner_text().strip()


def test_code_is_wrapped_between_its_words(run_page, opened):
    """An option such as --max-units that is broken at a hyphen is read as something else."""
    at = opened(run_page, PHONE).page
    options = at.locator(".code span", has_text="--").all()
    assert options and all(option.bounding_box()["height"] < 30 for option in options)


def test_marks_have_texts_for_the_pointer(run_page, opened):
    at = opened(run_page).page
    for name in ("by-construction", "drop-one", "dose", "values", "control"):
        titles = at.locator(f"#{name} svg title").all_text_contents()
        assert titles and all(any(digit in title for digit in "0123456789") for title in titles), name


def test_on_a_phone_charts_keep_their_size_and_scroll(run_page, opened):
    at = opened(run_page, PHONE).page
    for svg in at.locator("main figure:visible svg").all():
        box = svg.bounding_box()
        assert box["width"] >= 27 * 16 - 1
    wide = at.locator("figure:visible .scroll").first
    assert wide.evaluate("box => box.scrollWidth > box.clientWidth && box.tabIndex === 0")
    assert "gradient" in wide.evaluate("box => getComputedStyle(box).backgroundImage")
