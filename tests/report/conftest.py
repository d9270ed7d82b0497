"""A finished run, and pages that are opened as a browser would open them."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from pivotal import Question, RunFolder
from pivotal.jobs.find import find
from pivotal.report.page import write_report
from pivotal.searches import LearnedMask


class Checker(HTMLParser):
    """Every tag that is opened is closed, in order; gathers what the page would fetch."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.fetched += [
            v or "" for k, v in attrs if k in ("src", "href", "xlink:href") and not (v or "").startswith("#")
        ]
        assert tag not in ("link", "iframe")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with its report. Tests that change a file change a copy."""
    search = LearnedMask(max_units=3.0, updates=40, refit=10)
    question = Question(model="planted", phenomenon="planted", test=303)
    out = str(tmp_path_factory.mktemp("report") / "run")
    folder = find(question, search, runs=2, out=out, command="pivotal find planted 'a <b>'").folder
    write_report(folder)
    return folder


@pytest.fixture
def check_page() -> Callable[[str], None]:
    """Fails unless a page is well-formed and fetches nothing."""

    def check(text: str) -> None:
        checker = Checker()
        checker.feed(text)
        assert checker.open == [] and checker.fetched == []

    return check
