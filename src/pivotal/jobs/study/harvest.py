"""Makes rows from the run folder of a batch. Needs no model, so that lost rows can be restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pivotal.evidence.check import Untouched
from pivotal.jobs.run_folder import ABLATION, INTERVENTIONS, RunFolder
from pivotal.jobs.study.batches import Batch
from pivotal.options import stored_settings
from pivotal.records import serial
from pivotal.records.certificate import Ablated
from pivotal.records.evidence import Effect, Evidence, Verdict
from pivotal.records.intervention import CARD, Card
from pivotal.records.study_rows import (
    DONE,
    FAILED,
    KNOWN,
    UNKNOWN,
    CrossScore,
    FoundUnit,
    JudgedRow,
    StudyRow,
)
from pivotal.records.summary import RunScores, Summary


def is_whole(batch: Batch, study: Path) -> bool:
    """Whether the run folder has everything that the rows need."""
    folder = RunFolder.open(study / batch.folder)
    return folder.finished and (not batch.cell.ablation or (folder.path / ABLATION).is_file())


def rows_of(batch: Batch, name: str, study: Path) -> list[StudyRow]:
    """The rows of a finished batch, from its run folder."""
    folder = RunFolder.open(study / batch.folder)
    summary, info = folder.summary(), folder.info
    ablation = folder.ablation() if batch.cell.ablation else None
    return [
        StudyRow(
            **_asked(batch, name),
            status=DONE,
            seed=run.seed,
            accuracy=run.flip_accuracy,
            interval=run.interval,
            by_group={group: share.value for group, share in run.by_group.items()},
            by_direction={label: share.value for label, share in run.by_direction.items()},
            kl=run.kl,
            kl_after_edit=run.kl_after_edit,
            units=run.units,
            found=_found(run, folder.path / INTERVENTIONS / str(r), ablation.units if ablation else {}),
            all_units=summary.all_units,
            clean_accuracy=summary.clean_accuracy,
            judged=_judged(summary) if run is summary.best_run else None,
            pairs=serial.plain(summary.pairs),
            search_seconds=summary.seconds.search,
            total_seconds=summary.seconds.total,
            forward_nodes=summary.forward_nodes,
            backward_nodes=summary.backward_nodes,
            model_fingerprint=folder.stated("model_fingerprint", str),
            data_fingerprint=folder.stated("data_fingerprint", str),
            device=info.device,
            machine=info.machine,
            versions=info.versions,
        )
        for r, run in enumerate(summary.runs)
    ]


def failed_rows(batch: Batch, name: str, error: str) -> list[StudyRow]:
    return [StudyRow(**_asked(batch, name), seed=seed, status=FAILED, error=error) for seed in batch.seeds]


def checked_rows(batch: Batch, name: str, untouched: Untouched) -> list[StudyRow]:
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
    return _judgement(verdict, evidence, summary.controls.p_value)


def _judgement(verdict: Verdict, evidence: Evidence, p_value: float | None) -> JudgedRow:
    natural, interchange = evidence.natural, evidence.interchange
    return JudgedRow(
        verdict=verdict.word,
        failed=[check.name for check in verdict.checks if check.passed is False],
        missing=[check.name for check in verdict.checks if check.passed is None],
        level=evidence.level,
        p_value=p_value,
        natural=None if natural is None else natural.flipped.value,
        interchange=None if interchange is None else interchange.flipped.value,
        whole_site=None if interchange is None else interchange.whole_site.value,
        direct=None if evidence.paths is None else evidence.paths.direct,
        text=None if evidence.text is None else evidence.text.ratio,
        cue_kl=None if evidence.swap is None else evidence.swap.kl,
        cross=cross_scores(evidence.effects),
    )


def cross_scores(effects: Iterable[Effect]) -> list[CrossScore]:
    """What an intervention does to other phenomena, in short."""
    return [
        CrossScore(
            phenomenon=effect.phenomenon,
            pairs=effect.pairs,
            flipped=None if effect.flipped is None else effect.flipped.value,
            untouched=effect.untouched.value,
            edited={direction: share.value for direction, share in effect.edited.items()},
        )
        for effect in effects
    ]


def recovered(batches: Iterable[Batch], have: set[tuple[str, int]], name: str, study: Path) -> list[StudyRow]:
    """Rows of finished run folders that are not in the file of results."""
    rows = []
    for batch in batches:
        if all((batch.cell.key, seed) in have for seed in batch.seeds) or not is_whole(batch, study):
            continue
        rows += [row for row in rows_of(batch, name, study) if row.run not in have]
    return rows


def _asked(batch: Batch, name: str) -> dict[str, Any]:
    """The fields that every row has, whether its run succeeded or failed."""
    cell, question = batch.cell, stored_settings(batch.cell.question)
    del question["seed"]
    return {
        **question,
        "study": name,
        "cell": dict(cell.label),
        "key": cell.key,
        "search": cell.search.name,
        "preset": cell.preset,
        "options": cell.options,
        "folder": batch.folder,
        "batch": list(batch.seeds),
    }


def _found(run: RunScores, intervention: Path, ablated: Mapping[str, Ablated]) -> list[FoundUnit]:
    card = serial.read(intervention / CARD, Card)
    return [
        FoundUnit(
            site=unit.site,
            index=unit.index,
            number=unit.number,
            values={direction: values[i] for direction, values in run.values.items()},
            by_ablation=ablated[str(unit)].found if str(unit) in ablated else None,
        )
        for i, unit in enumerate(card.units)
    ]
