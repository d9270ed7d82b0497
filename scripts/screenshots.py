"""Takes the pictures of docs/images from the page of a run: on a desk, on a phone, a unit, and a sentence with its
trace; and the live page of the run.

    python scripts/screenshots.py runs/demo

The run should be that of `make demo`. Needs playwright, which the extra `dev` brings, and Chromium.
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from pivotal.serve.server import LiveServer

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DESK, PHONE = (1180, 900), (390, 844)


def main(folder: Path) -> None:
    page = folder / "report.html"
    if not page.is_file():
        sys.exit(f"{folder} has no report.html; give the folder of a finished run.")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium to take pictures with; install it.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        _take(_open(browser, page, DESK), "report.png")
        _take(_open(browser, page, PHONE, scheme="dark", scale=2), "report-phone.png")
        at = _open(browser, page, DESK)
        # The first that is flipped and long enough to have a course.
        at.locator("select[name=flipped]").select_option("yes")
        at.locator("select[name=group]").select_option("nounpp")
        at.locator("#sentence-list > li:visible summary").first.click()
        at.evaluate("document.getElementById('sentence-by-sentence').scrollIntoView()")
        _take(at, "report-sentence.png")
        at = _open(browser, page, DESK)
        at.locator("a[href^='#unit-']").nth(1).click()
        _take(at, "report-unit.png")
        _live(browser, folder)
        browser.close()


def _live(browser: Browser, folder: Path) -> None:
    """The live page, with a sentence that a reader can follow."""
    server = LiveServer([str(folder)])
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        at = _open(browser, server.address, DESK)
        at.locator("body[data-updates]").wait_for(timeout=60_000)
        at.locator("#sentence").fill("The keys to the cabinet")
        at.locator("#word-0").fill("is")
        at.locator("#word-1").fill("are")
        at.locator("#verdict:has-text('“are”')").wait_for(timeout=60_000)
        at.wait_for_timeout(500)  # the last word that was filled in may still be on its way
        _take(at, "live.png")
    finally:
        server.stop()
        thread.join()


def _open(
    browser: Browser, page: Path | str, size: tuple[int, int], *, scheme: str = "light", scale: int = 1
) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    opened = context.new_page()
    opened.goto(page if isinstance(page, str) else page.resolve().as_uri())
    return opened


def _take(page: Page, name: str) -> None:
    page.screenshot(path=IMAGES / name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
