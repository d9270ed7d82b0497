"""An executor that runs batches one after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pivotal.jobs.study.batches import Batch
from pivotal.jobs.study.watch import StudyWatch
from pivotal.jobs.study.work import StudyPlace, carry_out
from pivotal.models import device_named
from pivotal.records.study_rows import StudyRow
from pivotal.searches.base import Progress


class Local:
    """Runs batches in this process."""

    def width(self, device: str | None = None) -> int:
        device_named(device)  # otherwise a device that does not exist would make every run fail
        return 1

    def run(
        self, batches: Sequence[Batch], place: StudyPlace, watch: StudyWatch
    ) -> Iterator[tuple[Batch, list[StudyRow]]]:
        for batch in batches:
            watch.began(batch.cell)
            yield batch, carry_out(batch, place, _Inside(batch, watch))


class _Inside:
    """Reports the progress of one batch."""

    def __init__(self, batch: Batch, watch: StudyWatch) -> None:
        self._batch, self._watch = batch, watch

    def say(self, text: str) -> None:
        self._watch.say(f"{self._batch.cell.name}: {text}")

    def progress(self, progress: Progress) -> None:
        self._watch.progress(self._batch.cell, progress)
