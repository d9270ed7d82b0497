"""What the tests see of a page that is open in a browser."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

DESK, PHONE = (1200, 900), (390, 844)
LOOKS = pytest.mark.parametrize(
    ("size", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk in daylight", "phone in the dark"]
)
LIST = "#sentence-list > li"
"""The sentences on the page of a run."""


@dataclass
class Opened:
    """A page in the browser, what it complained of, and what it asked for beyond its own file."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """What axe calls serious or critical."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    def is_wider_than_the_screen(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


Open = Callable[..., Opened]


@contextmanager
def windows(browser: Browser) -> Iterator[Open]:
    """Opens pages by their addresses, on a desk and in daylight if not told otherwise."""
    contexts = []

    def make(
        address: str, size: tuple[int, int] = DESK, scheme: str = "light", *, script: bool = True
    ) -> Opened:
        screen = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=screen, color_scheme=scheme, java_script_enabled=script)
        contexts.append(context)
        made = Opened(context.new_page())
        made.page.on("console", lambda said: made.complaints.append(said.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.on("request", lambda asked: made.requests.append(asked.url))
        made.page.goto(address)
        return made

    yield make
    for context in contexts:
        context.close()
