"""Writes the site of an atlas: one static folder, which opens from disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import disk, inside, is_partial, read_bytes, write_atomically, write_text
from pivotal.jobs.run_folder import INTERVENTIONS
from pivotal.records.intervention import BASES, CARD, VALUES
from pivotal.records.study import StudyRow
from pivotal.report.atlas.entries import Atlas, atlas_of, slug
from pivotal.report.atlas.findings import findings_of
from pivotal.report.atlas.frame import BODY
from pivotal.report.atlas.pages import index_page, model_page, phenomenon_page
from pivotal.report.atlas.unit_pages import unit_address, unit_page
from pivotal.report.study import StudyFolder

SITE = "site"
INDEX, PHENOMENA, MODELS, UNITS = "index.html", "phenomena", "models", "units"


def write_site(folder: StudyFolder, out: Path | None = None) -> Path:
    """Write the site of a study and return its first page. By default it is the folder `site` of the study."""
    site = folder.path / SITE if out is None else out
    _check_ours(site)
    atlas = atlas_of(folder.recipe, folder.results.rows)
    downloads = _copy_interventions(folder.path, atlas, site)
    for phenomenon in atlas.phenomena:
        write_text(
            inside(site, PHENOMENA, f"{slug(phenomenon)}.html"),
            phenomenon_page(atlas, phenomenon, downloads),
        )
    for model in atlas.models:
        write_text(inside(site, MODELS, f"{slug(model)}.html"), model_page(atlas, model))
    _write_units(atlas, site)
    first = site / INDEX
    page = index_page(atlas, folder.recipe.name, folder.recipe.about, downloads, findings_of(atlas))
    write_text(first, page)
    return first


def _check_ours(site: Path) -> None:
    """Raise PivotalError if the folder holds something else than the site of an atlas: its pages would be replaced."""
    if not site.is_dir():
        return
    ours = (PHENOMENA, MODELS, UNITS, INTERVENTIONS)
    others = sorted(path.name for path in site.iterdir() if path.name not in ours and not is_partial(path))
    if INDEX in others:
        others = [] if BODY.encode() in read_bytes(site / INDEX) else [INDEX]
    if others:
        raise PivotalError(
            f"The site of an atlas needs a folder of its own, but {site} holds {others[0]}. Nothing was changed; name "
            "another folder with --site."
        )


def _write_units(atlas: Atlas, site: Path) -> None:
    """Write a page for each unit that several phenomena share, and remove pages of units that are no longer shared."""
    pages = {
        inside(site, *unit_address(model, unit).split("/")): unit_page(atlas, model, unit)
        for model in atlas.models
        for unit in atlas.shared(model)
    }
    for path, page in pages.items():
        write_text(path, page)
    for path in (site / UNITS).glob("*.html"):
        if path not in pages:
            path.unlink()


def _copy_interventions(study: Path, atlas: Atlas, site: Path) -> dict[str, list[str]]:
    """Copy the interventions that the study still has; return the names of the files of each entry."""
    copied = {}
    for entry in atlas.searched:
        source = intervention_of(study, entry.row) if entry.row else None
        if source is None:
            continue
        files = [name for name in (CARD, VALUES, BASES) if (source / name).is_file()]
        for name in files:
            target = inside(site, INTERVENTIONS, entry.name, name)
            with disk(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, partial(_write, read_bytes(source / name)))
        copied[entry.name] = files
    return copied


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def intervention_of(study: Path, row: StudyRow) -> Path | None:
    """The folder of the intervention of a row, if the study still has it."""
    if row.folder is None or row.seed not in row.batch:
        return None
    path = inside(study, row.folder, INTERVENTIONS, str(row.batch.index(row.seed)))
    return path if (path / CARD).is_file() and (path / VALUES).is_file() else None
