"""Writes the site of an atlas: one static folder, which opens from disk."""

from __future__ import annotations

from pathlib import Path

from pivotal.files import inside, read_bytes, write_bytes, write_text
from pivotal.folders import check_no_other_files, locked
from pivotal.jobs.run_folder import INTERVENTIONS
from pivotal.records.intervention import BASES, CARD, VALUES
from pivotal.records.study import StudyRow
from pivotal.report.atlas.entries import Atlas, atlas_of
from pivotal.report.atlas.pages import (
    index_page,
    model_address,
    model_page,
    phenomenon_address,
    phenomenon_page,
    unit_address,
    unit_page,
)
from pivotal.report.study import StudyFolder

SITE = "site"
INDEX, UNITS = "index.html", "units"
_OURS = ("phenomena", "models", UNITS, INTERVENTIONS)
_MARK = b"<body class=atlas>"
"""What the pages of an atlas have and others have not."""


def write_site(study: Path, out: Path | None = None) -> Path:
    """Write the site of a study and return its first page. By default it is the folder `site` of the study."""
    site = study / SITE if out is None else out
    with locked(study, "study"), locked(site, "site"):
        _check_ours(site)
        folder = StudyFolder.open(study)
        atlas = atlas_of(folder.recipe, folder.rows)
        downloads = _copy_interventions(study, atlas, site)
        pages = {
            phenomenon_address(name): phenomenon_page(atlas, name, downloads) for name in atlas.phenomena
        }
        pages |= {model_address(model): model_page(atlas, model) for model in atlas.models}
        pages |= {
            unit_address(model, unit): unit_page(atlas, model, unit)
            for model in atlas.models
            for unit in atlas.shared[model]
        }
        pages[INDEX] = index_page(atlas, folder.recipe.name, folder.recipe.about, downloads)
        for address, page in pages.items():
            write_text(inside(site, *address.split("/")), page)
        for path in (site / UNITS).glob("*.html"):
            if f"{UNITS}/{path.name}" not in pages:
                path.unlink()  # a unit that is no longer shared
    return site / INDEX


def _check_ours(site: Path) -> None:
    """Raise PivotalError if the folder holds something else than the site of an atlas: its pages would be replaced."""
    if not (site / INDEX).is_file() or _MARK not in read_bytes(site / INDEX):
        check_no_other_files(site, "site of an atlas", _OURS, "--site")


def _copy_interventions(study: Path, atlas: Atlas, site: Path) -> dict[str, list[str]]:
    """Copy the interventions that the study still has; return the names of the files of each entry."""
    copied = {}
    for entry in atlas.searched:
        source = intervention_of(study, entry.row) if entry.row else None
        if source is None:
            continue
        copied[entry.name] = [name for name in (CARD, VALUES, BASES) if (source / name).is_file()]
        for name in copied[entry.name]:
            write_bytes(inside(site, INTERVENTIONS, entry.name, name), read_bytes(source / name))
    return copied


def intervention_of(study: Path, row: StudyRow) -> Path | None:
    """The folder of the intervention of a row, if the study still has it."""
    if row.folder is None or row.seed not in row.batch:
        return None
    path = inside(study, row.folder, INTERVENTIONS, str(row.batch.index(row.seed)))
    return path if (path / CARD).is_file() and (path / VALUES).is_file() else None
