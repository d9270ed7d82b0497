"""From the run folder of a batch to its rows; needs no model, so that lost rows can be had again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.files import read_json
from pivotal.jobs.run_folder import ABLATION, INTERVENTIONS, RunFolder
from pivotal.jobs.study.batches import Batch
from pivotal.records.study_rows import DONE, FAILED, FoundUnit, StudyRow


def is_whole(batch: Batch, study: Path) -> bool:
    """Whether all that its rows need is there."""
    folder = RunFolder.open(study / batch.folder)
    return folder.finished and (not batch.cell.ablation or (folder.path / ABLATION).is_file())


def rows_of(batch: Batch, name: str, study: Path) -> list[StudyRow]:
    """The rows of a finished batch, by its run folder."""
    folder = RunFolder.open(study / batch.folder)
    summary, info = folder.summary(), folder.info
    ablated = read_json(folder.path / ABLATION, missing="")["units"] if batch.cell.ablation else {}
    common: dict[str, Any] = {
        **_asked(batch, name),
        "status": DONE,
        "all_units": summary["all_units"],
        "clean_accuracy": summary["clean_accuracy"],
        "pairs": {part: int(n) for part, n in summary["pairs"].items()},
        "search_seconds": summary["seconds"]["search"],
        "total_seconds": summary["seconds"]["total"],
        "forward_nodes": summary["forward_nodes"],
        "backward_nodes": summary["backward_nodes"],
        "model_fingerprint": folder.settings["model_fingerprint"],
        "data_fingerprint": folder.settings["data_fingerprint"],
        **{key: info[key] for key in ("device", "machine", "versions") if key in info},
    }
    return [
        StudyRow(
            **common,
            seed=int(run["seed"]),
            accuracy=run["flip_accuracy"],
            interval=run["interval"],
            by_group={group: share["value"] for group, share in run["by_group"].items()},
            by_direction={label: share["value"] for label, share in run["by_direction"].items()},
            kl=run["kl"],
            kl_after_edit=run["kl_after_edit"],
            units=run["units"],
            found=_found(run, folder.path / INTERVENTIONS / str(r), ablated),
        )
        for r, run in enumerate(summary["runs"])
    ]


def failed_rows(batch: Batch, name: str, error: str) -> list[StudyRow]:
    return [StudyRow(**_asked(batch, name), seed=seed, status=FAILED, error=error) for seed in batch.seeds]


def recovered(batches: Iterable[Batch], have: set[tuple[str, int]], name: str, study: Path) -> list[StudyRow]:
    """Rows of finished run folders that are not in the file of results."""
    rows = []
    for batch in batches:
        if all((batch.cell.key, seed) in have for seed in batch.seeds) or not is_whole(batch, study):
            continue
        try:
            rows += [row for row in rows_of(batch, name, study) if row.run not in have]
        except (KeyError, TypeError, ValueError) as error:
            raise PivotalError(
                f"The run in {study / batch.folder} says that it is finished, but its files are not whole ({error!r}). "
                "Remove that folder: its runs are then run again."
            ) from None
    return rows


def _asked(batch: Batch, name: str) -> dict[str, Any]:
    """What every row says, however its run ended."""
    cell, question = batch.cell, dataclasses.asdict(batch.cell.question)
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


def _found(run: Mapping[str, Any], intervention: Path, ablated: Mapping[str, Any]) -> list[FoundUnit]:
    card = read_json(intervention / "card.json", missing=f"{intervention} has no card.json.")
    return [
        FoundUnit(
            site=unit["site"],
            index=unit["index"],
            number=unit["number"],
            values={direction: values[i] for direction, values in run["values"].items()},
            by_ablation=ablated[label]["found"] if (label := run["unit_labels"][i]) in ablated else None,
        )
        for i, unit in enumerate(card["units"])
    ]
