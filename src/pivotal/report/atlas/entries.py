"""What an atlas shows: for each phenomenon, model and kind of step, one row of the study and how it stands."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from pivotal.jobs.study.recipe import Recipe
from pivotal.questions.question import JOINT, Question, names_of
from pivotal.records.serial import replace
from pivotal.records.study import KNOWN, UNKNOWN, CrossScore, FoundUnit, StudyRow
from pivotal.report.study_tables import cells
from pivotal.report.tables import percent

Standing = Literal["decide", "switch", "nudge", "no evidence", "not searched", "unknown", "failed", "not run"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)

OTHER = "other labels"
"""The family of the phenomena that share their labels with no other."""

_AXES = ("model", "phenomenon", "steps")

MEANING: dict[Standing, str] = {
    "decide": "every check was made and passed",
    "switch": "the units flip the preference reliably and more often than random units; another check failed or was "
    "not made",
    "nudge": "the units change the preference, but not reliably, or not clearly more often than random units",
    "no evidence": "the evidence is insufficient",
    "not searched": "the model knows the phenomenon; a search has not been run yet",
    "unknown": "the model does not know the phenomenon, so nothing was searched",
    "failed": "the run ended with an error",
    "not run": "there is no result yet",
}


@dataclass(frozen=True)
class Entry:
    """One cell of the atlas."""

    model: str
    phenomenon: str
    steps: str
    variant: str
    """Further labels of the cell, if the recipe has other axes, such as the sites; otherwise empty."""
    row: StudyRow | None
    cross: tuple[CrossScore, ...] = ()
    """The other phenomena with the intervention applied, by their names in the atlas."""

    @property
    def standing(self) -> Standing:
        if self.row is None:
            return "not run"
        if self.row.status == UNKNOWN:
            return "unknown"
        if self.row.status == KNOWN:
            return "not searched"
        if self.row.failed:
            return "failed"
        return self.row.judged.verdict if self.row.judged else "no evidence"

    @property
    def name(self) -> str:
        """A name for files and anchors."""
        return slug(self.model, self.phenomenon, self.steps, self.variant)

    @property
    def kind(self) -> str:
        """Its steps and further labels."""
        return ", ".join(filter(None, (self.steps, self.variant)))

    @property
    def column(self) -> str:
        """Its column of the matrix."""
        return f"{self.model}, {self.kind}"

    @property
    def within(self) -> str:
        """Its name on a page of its model."""
        return f"{self.phenomenon}, {self.kind}"

    @property
    def units(self) -> Sequence[FoundUnit]:
        return self.row.found if self.row is not None and self.row.done else ()

    @property
    def comparable(self) -> Sequence[FoundUnit]:
        """The units whose names mean the same in other entries of the model."""
        sites = "" if self.row is None else self.row.sites
        return [unit for unit in self.units if not _is_fitted(unit.site, sites)]

    @property
    def said(self) -> str:
        """The result in a few words."""
        row = self.row
        if row is not None and row.status == KNOWN:
            return f"{percent(row.clean_accuracy)} right"
        if row is None or row.accuracy is None or row.units is None:
            return ""
        return f"{percent(row.accuracy)}, {row.units} unit{'s' * (row.units != 1)}"


@dataclass(frozen=True)
class Atlas:
    """All entries, in the order of the recipe."""

    entries: tuple[Entry, ...]

    @cached_property
    def phenomena(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.phenomenon for entry in self.entries))

    @cached_property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.model for entry in self.entries))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.column for entry in self.entries))

    @property
    def searched(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.row is not None and entry.row.done)

    def of(self, *, phenomenon: str | None = None, model: str | None = None) -> tuple[Entry, ...]:
        return tuple(
            entry
            for entry in self.entries
            if phenomenon in (None, entry.phenomenon) and model in (None, entry.model)
        )

    @cached_property
    def unknown(self) -> frozenset[tuple[str, str]]:
        """The models with the phenomena that they do not know."""
        return frozenset(
            (entry.model, entry.phenomenon) for entry in self.entries if entry.standing == "unknown"
        )

    def unrelated(self, entry: Entry) -> list[CrossScore]:
        """What the intervention of an entry does to the unrelated phenomena that its model knows."""
        return [
            score
            for score in entry.cross
            if not score.related
            and score.flipped is None
            and (entry.model, score.phenomenon) not in self.unknown
        ]

    def count(self, standing: Standing) -> int:
        return sum(entry.standing == standing for entry in self.entries)

    @cached_property
    def units(self) -> dict[str, dict[str, list[Entry]]]:
        """By model, the units that its interventions set, each with its entries; the most shared unit first.

        Coordinates of a basis that was fitted to the pairs of one phenomenon are left out: in another phenomenon the
        same name means another direction.
        """
        found: dict[str, dict[str, list[Entry]]] = {model: {} for model in self.models}
        for entry in self.entries:
            for unit in entry.comparable:
                found[entry.model].setdefault(str(unit), []).append(entry)
        return {
            model: dict(sorted(units.items(), key=lambda item: -len({entry.phenomenon for entry in item[1]})))
            for model, units in found.items()
        }

    @cached_property
    def shared(self) -> dict[str, dict[str, list[Entry]]]:
        """By model, the units that several phenomena share, each with its entries."""
        return {
            model: {unit: found for unit, found in units.items() if len({e.phenomenon for e in found}) > 1}
            for model, units in self.units.items()
        }

    @cached_property
    def families(self) -> dict[str, str]:
        """The phenomena, those with the same two labels together and the largest family first. Labels are known from
        the interventions; a phenomenon without a known label, or alone with its labels, has none."""
        labels: dict[str, str] = {}
        for entry in self.searched:
            mine = " / ".join(entry.row.by_direction) if entry.row is not None else ""
            labels[entry.phenomenon] = mine
            for score in entry.cross:
                if score.flipped is not None:
                    labels.setdefault(score.phenomenon, mine)
        shared = [name for name, size in Counter(labels.values()).most_common() if size > 1]
        found = {name: family for family in shared for name in self.phenomena if labels.get(name) == family}
        return found | {name: OTHER for name in self.phenomena if name not in found}


def atlas_of(recipe: Recipe, rows: Iterable[StudyRow]) -> Atlas:
    """The atlas of a study: an entry for every cell of its recipe. A phenomenon has the name of its label, or else
    that of its file if no other has the same."""
    default = Question()
    settings = [{**draft.defaults, **draft.settings} for draft in recipe.drafts]
    asked = [str(given.get("phenomenon", default.phenomenon)) for given in settings]
    often = Counter(map(_short, dict.fromkeys(asked)))
    names: list[str] = []
    by_file: dict[str, str] = {}  # rows name phenomena as their files do
    for draft, phenomenon in zip(recipe.drafts, asked, strict=True):
        label, short = draft.label.get("phenomenon", phenomenon), _short(phenomenon)
        names.append(short if label == phenomenon and often[short] == 1 else label)
        if often[short] == 1:
            by_file.setdefault(short, names[-1])
    of_cell = {tuple(cell.label.items()): cell.rows for cell in cells(recipe, rows)}
    entries = []
    for draft, given, name in zip(recipe.drafts, settings, names, strict=True):
        row = _told(of_cell[tuple(draft.label.items())])
        cross = row.judged.cross if row is not None and row.judged is not None else ()
        entries.append(
            Entry(
                model=draft.label.get("model", str(given.get("model", default.model))),
                phenomenon=name,
                steps=str(given.get("steps", default.steps)),
                variant=", ".join(text for axis, text in draft.label.items() if axis not in _AXES),
                row=row,
                cross=tuple(replace(s, phenomenon=by_file.get(s.phenomenon, s.phenomenon)) for s in cross),
            )
        )
    return Atlas(tuple(entries))


def _told(rows: Sequence[StudyRow]) -> StudyRow | None:
    """The row that stands for a cell: the best run of its first batch, or else any."""
    judged = [row for row in rows if row.judged is not None]
    done = [row for row in rows if row.done]
    return next(iter(judged or done or rows), None)


def _short(phenomenon: str) -> str:
    """The name of a phenomenon without the folder of its file: blimp:data/npi.jsonl is npi. Rows name it so."""
    files = (name.rpartition("/")[2].rpartition(":")[2] for name in names_of(phenomenon))
    return JOINT.join(re.sub(r"(\.\w{1,6}){1,2}$", "", file) for file in files)


def _is_fitted(site: str, pattern: str) -> bool:
    """Whether a site is in a basis that was fitted to the pairs, and not read from a file that `pattern` names."""
    basis = site.partition("@")[2]
    return bool(basis) and not re.search(rf"@{re.escape(basis)}:(?!\d+(,|$))", pattern)


def slug(*names: str) -> str:
    """A name for files and addresses. Several names are joined by two hyphens; empty ones are left out."""
    return "--".join(_address(name) for name in names if name)


def _address(name: str) -> str:
    """A name without capitals and signs. A digest distinguishes names that differ only in these."""
    plain = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-.")
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest
