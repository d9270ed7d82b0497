"""Pages of hostile text in a browser: nothing runs, nothing is fetched, nothing is said on the console."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.attack.command import ended, fork
from tests.attack.materials import Materials
from tests.attack.place import Place

EVIL = (
    "<script>owned=1</script>",
    "</script><script>owned=1</script>",
    "<img src=x onerror=owned=1>",
    '"><svg onload=owned=1>',
    "' onmouseover='owned=1",
    "javascript:owned=1",
    "<!--<script>",
    "]]><script>owned=1</script>",
    "{{constructor.constructor('owned=1')()}}",
    "\\u003cscript>owned=1</script>",
    "<iframe srcdoc='<script>parent.owned=1</script>'>",
    "<style>*{background:url(http://127.0.0.1:1/x)}</style>",
    "<base href=http://127.0.0.1:1/><link rel=stylesheet href=x>",
    "&lt;script&gt;owned=1&lt;/script&gt;",
    "<a href=javascript:owned=1>x</a>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:1/'>",
    "<math><mtext></p><img src=x onerror=owned=1>",
    "\u2028owned=1//",
)
FREE = (
    *("model", "phenomenon", "command", "prefix", "words", "tokens", "group", "about", "name", "label"),
    *("unit", "machine"),
)
"""Keys whose text is shown and decides nothing."""


def spoilt(content: Any, evil: str, key: str = "") -> Any:
    """JSON content with hostile text in every place where text is free, keys of dictionaries too."""
    if isinstance(content, dict):
        renamed = key in ("by_group", "reasons", "prevalence", "versions")
        return {(evil if renamed else name): spoilt(value, evil, name) for name, value in content.items()}
    if isinstance(content, list):
        return [spoilt(value, evil, key) for value in content]
    return evil if isinstance(content, str) and key in FREE else content


def written(m: Materials, place: Place, evil: str) -> list[Path]:
    """The pages of a run, with its traces, and of a study with the hostile text in their folders."""
    pages = []
    for source in (m.certified, m.study):
        folder = place.copy(source)
        for path in [*folder.glob("*.json"), *folder.glob("*.jsonl")]:
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            path.write_text("".join(json.dumps(spoilt(json.loads(line), evil)) + "\n" for line in lines))
        if (folder / "recipe.yaml").is_file():
            recipe = (folder / "recipe.yaml").read_text()
            (folder / "recipe.yaml").write_text(recipe.replace("Two cells.", json.dumps(evil)))
        done = ended(fork(("show", str(folder), "--page")))
        assert done.code in (0, 2) and not done.failure, (source.name, done.failure, done.err[-500:])
        pages += [folder / "report.html"] if done.code == 0 else []
    return pages


def attack(
    m: Materials, scratch: Path, evils: tuple[str, ...] = EVIL
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Open all pages with all hostile texts. Returns the failures and the number of pages."""
    failures: dict[str, list[str]] = {}
    opened = 0
    # All pages are written before the browser starts: a process with a browser is not forked.
    pages = {evil: written(m, Place.made(scratch / f"pages-{i}"), evil) for i, evil in enumerate(evils)}
    with chromium() as browser:
        if browser is None:
            return {}, {"not tried, because there is no Chromium": 0}
        for evil, written_for_it in pages.items():
            for page in written_for_it:
                opened += 1
                for wrong in _looked_at(browser, page):
                    failures.setdefault(wrong, []).append(f"{page.parent.name}/{page.name} with {evil!r}")
    return failures, {"pages": opened}


def _looked_at(browser: Any, path: Path) -> list[str]:
    context = browser.new_context()
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(f"console: {said.text[:80]}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {str(error)[:80]}"))
    page.on("dialog", lambda _: wrong.append("a dialog"))
    page.on("request", lambda asked: wrong.append("a request") if not asked.url.startswith("file:") else None)
    page.goto(path.resolve().as_uri())
    for summary in page.query_selector_all("summary")[:3]:
        summary.click()
    if page.evaluate("typeof owned !== 'undefined'"):
        wrong.append("a script ran")
    if page.evaluate("document.querySelectorAll('iframe, base, object, embed').length"):
        wrong.append("an element of the text is in the page")
    context.close()
    return wrong


@contextmanager
def chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
