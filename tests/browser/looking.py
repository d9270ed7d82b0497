"""What the tests see of a page that is open in a browser."""

from collections.abc import Callable
from dataclasses import dataclass, field

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

DESK, PHONE = (1200, 900), (390, 844)


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
