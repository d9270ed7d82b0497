"""Writes the site of an atlas: one static folder, which opens from disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pivotal.files import disk, inside, read_bytes, write_atomically, write_text
from pivotal.jobs.run_files import INTERVENTIONS
from pivotal.records.intervention import CARD, VALUES
from pivotal.report.atlas.entries import Atlas, Entry, atlas_of, slug
from pivotal.report.atlas.findings import findings_of
from pivotal.report.atlas.pages import index_page, model_page, phenomenon_page
from pivotal.report.study import StudyFolder

SITE = "site"


def write_site(folder: StudyFolder, out: Path | None = None) -> Path:
    """Write the site of a study and return its first page. By default it is the folder `site` of the study."""
    site = folder.path / SITE if out is None else out
    atlas = atlas_of(folder.recipe, folder.results.rows)
    downloads = _copy_interventions(folder.path, atlas, site)
    for phenomenon in atlas.phenomena:
        write_text(
            inside(site, "phenomena", f"{slug(phenomenon)}.html"),
            phenomenon_page(atlas, phenomenon, downloads),
        )
    for model in atlas.models:
        write_text(inside(site, "models", f"{slug(model)}.html"), model_page(atlas, model))
    first = site / "index.html"
    page = index_page(atlas, folder.recipe.name, folder.recipe.about, downloads, findings_of(atlas))
    write_text(first, page)
    return first


def _copy_interventions(study: Path, atlas: Atlas, site: Path) -> set[str]:
    """Copy the interventions that the study still has; return the names of their entries."""
    copied = set()
    for entry in atlas.searched:
        source = _intervention(study, entry)
        if source is None:
            continue
        for name in (CARD, VALUES):
            target = inside(site, INTERVENTIONS, entry.name, name)
            with disk(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, partial(_write, read_bytes(source / name)))
        copied.add(entry.name)
    return copied


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


def _intervention(study: Path, entry: Entry) -> Path | None:
    row = entry.row
    if row is None or row.folder is None or row.seed not in row.batch:
        return None
    path = inside(study, row.folder, INTERVENTIONS, str(row.batch.index(row.seed)))
    return path if (path / CARD).is_file() and (path / VALUES).is_file() else None
