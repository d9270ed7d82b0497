"""An executor that runs batches one after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pivotal.jobs.study.batches import Batch
from pivotal.jobs.study.work import StudyPlace, carry_out
from pivotal.models import device_named
from pivotal.records.study_rows import StudyRow
from pivotal.watch import Named, Watch


class Local:
    """Runs batches in this process."""

    def width(self, device: str | None = None) -> int:
        device_named(device)  # otherwise a device that does not exist would make every run fail
        return 1

    def run(
        self, batches: Sequence[Batch], place: StudyPlace, watch: Watch
    ) -> Iterator[tuple[Batch, list[StudyRow]]]:
        for batch in batches:
            watch.say(f"{batch.cell.name} …")
            yield batch, carry_out(batch, place, Named(batch.cell.name, watch))
