"""The rows of a study, made from the run folders of its batches, without a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.evidence.check import Untouched
from pivotal.jobs.run_folder import RUN, RunFolder
from pivotal.jobs.study.cells import Cell, PairsCache
from pivotal.jobs.study.folder import RunBatch, begun_folders
from pivotal.options import stored_settings
from pivotal.records import serial
from pivotal.records.certificate import Ablated
from pivotal.records.evidence import Effect
from pivotal.records.study import (
    DONE,
    FAILED,
    KNOWN,
    RESULTS,
    UNKNOWN,
    CrossScore,
    FoundUnit,
    JudgedRow,
    StudyRow,
    read_results,
)
from pivotal.records.summary import Fidelity, RunScores, Summary

Run = tuple[str, int]
"""The key of a cell, and a seed."""


@dataclass
class StoredRows:
    """What the folder of a study has for the cells of a recipe."""

    rows: dict[Run, StudyRow] = field(default_factory=dict)
    """With the name and the labels of the recipe; failed runs included."""
    summaries: list[tuple[RunBatch, Summary]] = field(default_factory=list)
    """Of the finished batches that the rows come from."""
    foreign: list[StudyRow] = field(default_factory=list)
    """Rows of cells that the recipe does not have."""

    def whole(self, cells: Iterable[Cell]) -> set[Run]:
        """The runs that need not be repeated."""
        by_key = {cell.key: cell for cell in cells}
        return {run for run, row in self.rows.items() if _is_whole(row, by_key[row.key])}

    def checked(self) -> set[Run]:
        """The runs of which it is settled that the model knows the phenomenon, and no more."""
        return {run for run, row in self.rows.items() if row.status == KNOWN}


def stored_rows(name: str, cells: Sequence[Cell], folder: Path) -> StoredRows:
    """The rows of finished run folders. The file of results has the other rows: of runs that failed, of models that do
    not know a phenomenon, and of runs whose folder is not there. `name` is that of the recipe."""
    by_key, stored = {cell.key: cell for cell in cells}, StoredRows()
    for row in read_results(folder / RESULTS):
        if row.key in by_key:
            stored.rows[row.run] = serial.replace(row, study=name, cell=dict(by_key[row.key].label))
        else:
            stored.foreign.append(row)
    for batch in (batch for cell in cells for batch in begun_folders(cell, folder)):
        run_folder = RunFolder(folder / batch.folder)
        before = [stored.rows[run] for run in batch.runs if run in stored.rows]
        elsewhere = {row.run for row in before if row.done and row.folder != batch.folder}
        if not run_folder.finished or elsewhere.issuperset(batch.runs):
            continue
        with suppress(PivotalError):  # a damaged summary: the row of the results has what the tables need
            summary = run_folder.summary()
            new = rows_of(batch, name, run_folder, summary)
            stored.rows |= {row.run: row for row in new if row.run not in elsewhere}
            stored.summaries.append((batch, summary))
    return stored


def check_nothing_is_lost(stored: StoredRows, folder: Path) -> None:
    """PivotalError if there are results of cells that the recipe does not have, and no run folder to make them from."""
    lost = [row for row in stored.foreign if row.done and not (folder / str(row.folder) / RUN).is_file()]
    if lost:
        raise PivotalError(
            f"The run folders of {len(lost)} finished runs are not in {folder}, and the recipe does not have their "
            f"cells ('{lost[0].name}'), so that their rows would be lost. Use another folder."
        )


def in_order(rows: Iterable[StudyRow], cells: Sequence[Cell]) -> list[StudyRow]:
    """The rows in the order of the recipe, so that two files of results can be compared."""
    order = {cell.key: i for i, cell in enumerate(cells)}
    return sorted(rows, key=lambda row: (order[row.key], row.seed))


def what_changed(
    rows: Iterable[StudyRow], cells: Sequence[Cell] = (), pairs: PairsCache | None = None
) -> str:
    """The warning if the weights or the pairs were not the same for all runs, or are not those that `cells` read now;
    else empty."""
    now = {cell.key: cell.question for cell in cells}
    prints: dict[tuple[str | None, ...], set[str | None]] = defaultdict(set)
    for row in filter(lambda row: row.done, rows):
        # The fingerprint of a model depends on its weights, its dtype and its priming.
        prints[f"weights of {row.model}", row.dtype, row.priming].add(row.model_fingerprint)
        data = prints[(f"pairs of {row.phenomenon}",)]
        data.add(row.data_fingerprint)
        if pairs is not None and row.key in now:
            data.add(pairs.fingerprint(now[row.key]))
    changed = dict.fromkeys(str(what[0]) for what, different in prints.items() if len(different) > 1)
    if not changed:
        return ""
    return (
        f"The {' and the '.join(changed)} have changed since the first run of this study. Finished rows stay, but "
        "cannot be compared with new ones. Start a new study in another folder."
    )


def _is_whole(row: StudyRow, cell: Cell) -> bool:
    if row.status == UNKNOWN:
        return cell.settings.known
    return row.done and not (cell.settings.ablation and any(unit.by_ablation is None for unit in row.found))


# -- the rows of a batch -----------------------------------------------------------------------------------


def rows_of(batch: RunBatch, name: str, folder: RunFolder, summary: Summary) -> list[StudyRow]:
    """The rows of a finished batch. `name` is that of the study."""
    ablation = folder.ablation() if batch.cell.settings.ablation else None
    shared = {
        **_same(summary, "all_units", "clean_accuracy", "forward_nodes", "backward_nodes"),
        **_same(folder.info, "device", "machine", "versions"),
        **{name: folder.stated(name, str) for name in ("model_fingerprint", "data_fingerprint")},
        "pairs": serial.plain(summary.pairs),
        "search_seconds": summary.seconds.search,
        "total_seconds": summary.seconds.total,
    }
    return [
        StudyRow(
            **_asked(batch, name),
            **shared,
            **_same(run, "seed", "interval", "kl", "kl_after_edit", "units"),
            **_fidelity(run.fidelity),
            status=DONE,
            accuracy=run.flip_accuracy,
            by_group={group: share.value for group, share in run.by_group.items()},
            by_direction={label: share.value for label, share in run.by_direction.items()},
            found=_found(run, ablation.units if ablation else {}),
            judged=_judged(summary) if run is summary.best_run else None,
        )
        for run in summary.runs
    ]


def _fidelity(found: Fidelity | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "fidelity": found.asked.value,
        "fidelity_from_cue": found.from_cue.value,
        "kl_before": found.kl_before,
    }


def _same(record: object, *names: str) -> dict[str, Any]:
    """The fields that a row takes over as they are."""
    return {name: getattr(record, name) for name in names}


def failed_rows(batch: RunBatch, name: str, error: str) -> list[StudyRow]:
    return [StudyRow(**_asked(batch, name), seed=seed, status=FAILED, error=error) for seed in batch.seeds]


def checked_rows(batch: RunBatch, name: str, untouched: Untouched) -> list[StudyRow]:
    """Rows that say whether the model knows the phenomenon. Nothing was searched."""
    return [
        StudyRow(
            **_asked(batch, name) | {"folder": None},
            seed=seed,
            status=KNOWN if untouched.lacking is None else UNKNOWN,
            error=untouched.lacking,
            clean_accuracy=untouched.accuracy,
        )
        for seed in batch.seeds
    ]


def _judged(summary: Summary) -> JudgedRow | None:
    verdict, evidence = summary.verdict, summary.evidence
    if verdict is None or evidence is None:
        return None
    natural, interchange, held = evidence.natural, evidence.interchange, evidence.necessity
    return JudgedRow(
        verdict=verdict.word,
        failed=[check.name for check in verdict.checks if check.passed is False],
        missing=[check.name for check in verdict.checks if check.passed is None],
        level=evidence.level,
        p_value=summary.controls.p_value,
        natural=None if natural is None else natural.flipped.value,
        interchange=None if interchange is None else interchange.flipped.value,
        whole_site=None if interchange is None else interchange.whole_site.value,
        direct=None if evidence.paths is None else evidence.paths.direct,
        text=None if evidence.text is None else evidence.text.ratio,
        cue_kl=None if evidence.swap is None else evidence.swap.kl,
        held=None if held is None else (held.untouched.value, held.held.value, min(held.random)),
        cross=cross_scores(evidence.effects),
    )


def cross_scores(effects: Iterable[Effect]) -> list[CrossScore]:
    """What an intervention does to other phenomena, in short."""
    return [
        CrossScore(
            phenomenon=effect.phenomenon,
            pairs=effect.pairs,
            related=effect.related,
            flipped=None if effect.flipped is None else effect.flipped.value,
            untouched=effect.untouched.value,
            edited={direction: share.value for direction, share in effect.edited.items()},
        )
        for effect in effects
    ]


def _asked(batch: RunBatch, name: str) -> dict[str, Any]:
    """The fields that every row has, whether its run succeeded or failed."""
    cell, question = batch.cell, stored_settings(batch.cell.question)
    del question["seed"]
    return {
        **question,
        "study": name,
        "cell": dict(cell.label),
        "key": cell.key,
        "search": cell.search.name,
        "preset": cell.settings.preset,
        "options": cell.options,
        "folder": batch.folder,
        "batch": list(batch.seeds),
    }


def _found(run: RunScores, ablated: Mapping[str, Ablated]) -> list[FoundUnit]:
    return [
        FoundUnit(
            site=label.rpartition(":")[0],
            index=int(label.rpartition(":")[2]),
            values={direction: values[i] for direction, values in run.values.items()},
            by_ablation=ablated[label].found if label in ablated else None,
        )
        for i, label in enumerate(run.unit_labels)
    ]
