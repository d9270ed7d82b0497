"""The documentation is right: its Python runs and prints what the page says; commands, paths and links exist; the
reference generated from the code is complete."""

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.paths import FENCE, ROOT, code_of
from tests.processes import python
from typer.main import get_command

import pivotal
from pivotal.cli.main import app

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
README = ROOT / "README.md"
sys.path.append(str(ROOT / "scripts"))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# -- Python -----------------------------------------------------------------------------------------------------------


SLOW = pytest.param("choose-a-search", marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "page", ["add-a-model", "ask-your-own-question", "bring-your-own-pairs", "concepts", SLOW]
)
def test_python_of_a_page_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    """Blocks run in order. A block with a title is a file; a `text` block is the output of the block before it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    ran, said = 0, ""
    for kind, title, content in FENCE.findall(text_of(DOCS / f"{page}.md")):
        if title:
            Path(title).write_text(content, encoding="utf-8")
        elif kind == "python":
            exec(compile(content, page, "exec"), names)
            ran, said = ran + 1, capsys.readouterr().out
        elif kind == "text":
            assert said == content
    assert ran


def test_every_template_file_of_the_page_makes_pairs(tmp_path):
    files = [
        (title, text) for _, title, text in FENCE.findall(text_of(DOCS / "ask-your-own-question.md")) if title
    ]
    assert len(files) >= 4
    for title, text in files:
        (tmp_path / title).write_text(text, encoding="utf-8")
        assert len(pivotal.load_phenomenon(str(tmp_path / title))) > 1, title


SHORTER = {"runs=2": "runs=1", "problem.on(test)": "problem.on(test[::5])"}


@pytest.fixture(scope="module")
def tutorial() -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """With one run instead of two and a fifth of the held-out pairs. Cells that are marked as varying may then differ,
    but their claims must hold."""
    import tutorial

    names: dict[str, Any] = {"__name__": "tutorial"}
    real, source = tutorial._run, text_of(tutorial.SOURCE)
    assert all(source.count(full) == 1 for full in SHORTER)

    def shorter(cell: Any, names: dict[str, Any]) -> Any:
        text = cell.text
        for full, less in SHORTER.items():
            text = text.replace(full, less)
        return replace(real(replace(cell, text=text), names), cell=cell)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tutorial, "_run", shorter)
        yield list(tutorial.run(names)), names


@pytest.mark.slow
def test_the_tutorial_shows_what_its_page_says(tutorial):
    page = text_of(DOCS / "tutorial.md")
    at = 0
    for one in tutorial[0]:
        shown = [one.cell.text] if one.cell.varies else [one.cell.text, one.printed.rstrip(), one.html]
        for part in shown:
            assert part in page[at:], part
            at = page.index(part, at) + len(part)
        assert bool(one.figure) == bool(re.match(r"\n```\n\n!\[", page[at:])), one.cell.text


@pytest.mark.slow
def test_the_tutorial_holds_wherever_it_is_run(tutorial):
    """Some numbers depend on the processor; what the text claims about them must hold on any."""
    names = tutorial[1]
    assert len(names["found"].best) <= 4 and names["scores"].flip_accuracy.value > 0.9
    assert names["trace"].flipped


def test_the_page_of_the_tutorial_has_its_cells_and_figures():
    import tutorial

    page = text_of(tutorial.PAGE)
    assert code_of("tutorial") == [cell.text + "\n" for cell in tutorial.cells() if not cell.markdown]
    assert all(cell.text in page for cell in tutorial.cells()), "make it again: python scripts/tutorial.py"


def test_the_notebook_of_the_tutorial_has_its_cells():
    """The sources, not the outputs, which vary; every code cell has run, and charts and tables are there."""
    import tutorial

    book = json.loads(text_of(tutorial.NOTEBOOK))
    cells = [("".join(cell["source"]), cell["cell_type"] == "markdown") for cell in book["cells"]]
    assert cells == [(cell.text, cell.markdown) for cell in tutorial.cells()], (
        "make it again: python scripts/tutorial.py"
    )
    counts = [cell["execution_count"] for cell in book["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    kinds = {
        kind for cell in book["cells"] for out in cell.get("outputs", []) for kind in out.get("data", {})
    }
    assert kinds == {"text/html", "image/svg+xml"}


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_every_command_of_a_page_exists_with_its_options(page):
    verbs = dict(get_command(app).commands)
    verbs["demo"] = verbs["find"]
    blocks = [content.replace("\\\n", " ") for kind, _, content in FENCE.findall(text_of(page)) if not kind]
    for verb, rest in re.findall(r"^pivotal ([\w-]+)(.*?)(?: #.*)?$", "\n".join(blocks), re.M):
        known = {
            flag for parameter in verbs[verb].params for flag in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set(re.findall(r"(?<!\S)\[?(--[\w-]+)", rest)) <= known, (verb, rest)


def test_the_reference_has_every_verb_and_option():
    import site_pages

    reference = site_pages.on_page_markdown(text_of(DOCS / "commands.md"))
    sections = dict(re.findall(r"^## pivotal ([\w-]+)\n(.*?)(?=^## )", reference, re.S | re.M))
    verbs = get_command(app).commands
    assert set(sections) == set(verbs)
    for name, verb in verbs.items():
        shown = set(re.findall(r"`(-[\w-]+)`", sections[name]))
        flags = {flag for p in verb.params for flag in (*p.opts, *p.secondary_opts) if flag.startswith("-")}
        assert flags - {"--help", "-h"} <= shown, name
        for parameter in verb.params:
            assert " ".join(parameter.help.split())[:30].split("`")[0] in sections[name].replace("\\", "")


def test_the_reference_has_every_search_and_its_options():
    import site_pages
    from pivotal.options import options_of
    from pivotal.searches import SEARCHES

    reference = site_pages.searches()
    for name, cls in SEARCHES.items():
        section = reference.split(f"### {name}\n")[1].split("\n### ")[0]
        assert all(f"`{option.name}`" in section for option in options_of(cls)), name


# -- the tree ---------------------------------------------------------------------------------------------------------

PACKAGE = ROOT / "src" / "pivotal"
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("results/parts/*.md"))]


def layers() -> set[str]:
    """The folders of the package as `name/`, and its root modules as `name`."""
    folders = {f"{path.name}/" for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    return folders | {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}


def test_the_table_of_layers_and_the_tree_agree():
    section = text_of(DOCS / "architecture.md").split("## The layers\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `([\w/]+)` \|", section, re.M)
    assert len(named) == len(set(named)) and set(named) == layers()
    for layer, inner in re.findall(r"^\| `(\w+/)` \|(.*)", section, re.M):  # folders named within a row
        for path in re.findall(r"`(\w+/)`", inner.split(" | ")[0]):
            assert (PACKAGE / layer / path).is_dir(), (layer, path)


def test_the_drawing_has_every_layer_and_no_other():
    drawing = (DOCS / "images" / "layers.svg").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", drawing, flags=re.S))
    assert all(re.search(rf"(?<!\w){layer}", shown) for layer in layers())
    assert set(re.findall(r"(?<!\w)([a-z]+/)", shown)) <= layers()


def test_where_to_add_something_exists():
    section = text_of(DOCS / "architecture.md").split("## Where do I add …?\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| an? [^|]+\|([^|]+)\|", section, re.M)
    assert len(rows) >= 10
    for path in re.findall(r"`([\w/]+/[\w.]+)`", " ".join(rows)):
        place = (ROOT if path.startswith("scripts/") else PACKAGE) / path
        assert place.parent.is_dir() if place.stem == "yours" else place.exists(), path


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_paths_and_modules_that_a_page_names_exist(page):
    text = text_of(page)
    folders = r"src/pivotal|pivotal|tests|scripts|benchmarks|recipes|docs"
    for path in re.findall(rf"(?<![\w/.-])((?:{folders})/[\w/.-]*\w)", text):
        place = ROOT / path if not path.startswith("pivotal/") else ROOT / "src" / path
        assert place.exists() or place.stem == "yours", path
    for name in re.findall(r"(?<![\w/.-])(pivotal(?:\.[a-z_]\w*)+)", text):
        assert is_a_name(name) or name in ENTRY_POINTS, name


ENTRY_POINTS = {
    f"pivotal.{kind}"
    for kind in ("models", "searches", "masks", "bases", "phenomena", "readers", "exports", "verbs")
}


def is_a_name(dotted: str) -> bool:
    """Whether it is a module, or an attribute of one."""
    parent, _, last = dotted.rpartition(".")
    try:
        if importlib.util.find_spec(dotted):
            return True
    except ModuleNotFoundError:
        pass
    return bool(parent) and hasattr(importlib.import_module(parent), last)


# -- links and the site -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_links_between_pages_exist(page):
    """Links work between the plain files, as in a repository. `make docs` checks them as a site."""
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[\w-]+)?\)", text_of(page)):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing_from_the_network(tmp_path):
    pytest.importorskip("mkdocs")
    done = python("-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    listed = re.findall(
        r"^- \[.+\]\((.+)\): to ", (tmp_path / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(listed) >= 20 and all((tmp_path / page).is_file() for page in listed)
    loads = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?https?://"
    )
    for made in tmp_path.rglob("*.html"):
        assert not loads.search(made.read_text(encoding="utf-8")), made.name
    assert "@import url(http" not in "".join(
        css.read_text(encoding="utf-8") for css in tmp_path.rglob("*.css")
    )


def test_pictures_are_drawn_from_the_stored_results():
    import pictures

    for path, text in pictures.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/pictures.py"
        assert f"images/{path.name}" in "".join(map(text_of, PAGES)), f"{path.name} is on no page"
