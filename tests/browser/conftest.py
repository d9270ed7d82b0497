"""A real browser, and pages of real runs to open in it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from tests.browser.looking import Open, Opened, windows
from tests.models.tiny import doctors, random_model, tokenizer

from pivotal import Question, load_phenomenon, study
from pivotal.jobs.find import find
from pivotal.jobs.study.recipe import parse_recipe
from pivotal.report.page import write_report
from pivotal.report.study import write_study
from pivotal.searches import LearnedMask

NEEDED = "PIVOTAL_NEEDS_BROWSER"
"""Set where a browser is there by arrangement: the tests then fail, and do not skip, without one."""

# The default, five seconds, is too short when other processes use the cores.
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
    """Opens a file. What it asks for beyond itself are its requests."""
    with windows(browser) as window:

        def make(path: Path, *how: Any, at: str = "", **more: Any) -> Opened:
            made = window(path.resolve().as_uri() + at, *how, **more)
            made.requests.remove(path.resolve().as_uri())
            return made

        yield make


# -- pages, which are not made if nobody can look at them --------------------------------------------------


@pytest.fixture(scope="session")
def run_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo in small: the bundled model and its own sentences, but fewer of them and a short search."""
    place = tmp_path_factory.mktemp("browser")
    load_phenomenon("number-agreement")[::80].save(place / "number.jsonl")
    question = Question(phenomenon=str(place / "number.jsonl"), steps="single", test=80)
    search = LearnedMask(max_units=3.0, updates=12, refit=3, batch=32, kl_weight=0.0)
    done = find(question, search, runs=2, controls=9, out=str(place / "run"), command="pivotal find")
    return write_report(done.folder)


@pytest.fixture(scope="session")
def transformer_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small transformer with random weights in thirty layers, asked a few sentences, without random controls and
    evidence: it is the page that is looked at."""
    pytest.importorskip("transformers")
    place = tmp_path_factory.mktemp("browser")
    random_model("llama", num_hidden_layers=30).save_pretrained(place / "deep")
    tokenizer(bos=True).save_pretrained(place / "deep")
    doctors("near", "behind", "quickly", "near The").save(place / "pairs.jsonl")
    asked = {"model": str(place / "deep"), "phenomenon": str(place / "pairs.jsonl"), "sites": "mlp.25-28"}
    search = LearnedMask(max_units=2.0, updates=4, refit=2, batch=8, kl_weight=0.0)
    question = Question(**asked, steps="single", test=8)
    out = str(place / "run")
    done = find(question, search, controls=0, evidence="none", out=out, device="cpu", command="pivotal find")
    return write_report(done.folder)


@pytest.fixture(scope="session")
def study_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return write_study(out)
