"""What goes wrong with a batch is written into its rows."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_study import tiny

from pivotal import Problem, RunFolder
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.folder import RunBatch, batches_of
from pivotal.jobs.study.work import StudyPlace, Worker
from pivotal.searches import Discovery, Search
from pivotal.searches.base import Attempt

FAULTS: dict[str, Exception] = {
    "bug": ZeroDivisionError("division by zero"),
    "memory": MemoryError("no room"),
    "gpu": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand more lines"),
}


@dataclass(frozen=True)
class Faulty(Search):
    """Fails in the middle of its work."""

    name: ClassVar[str] = "faulty"
    summary: ClassVar[str] = "fails"
    fault: str = "bug"

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        raise FAULTS[self.fault]


def batch(fault: str, study: Path) -> RunBatch:
    cell = replace(cells_of(tiny())[0], search=Faulty(fault))
    return batches_of(cell, study, cell.seeds)[0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("bug", r"^ZeroDivisionError: division by zero \(test_work.py, line \d+\)$"),
        ("memory", r"^Out of memory: no room\. Set 'at_once'"),
        ("gpu", r"^Out of memory: CUDA out of memory\. Tried to allocate 2 GiB\. Set 'at_once'"),
    ],
)
def test_every_run_of_the_batch_has_a_row_with_the_error(fault, said, tmp_path):
    threads = torch.get_num_threads()
    rows = Worker(StudyPlace("tiny", tmp_path, threads=1)).rows(batch(fault, tmp_path))
    assert [(row.seed, row.status, row.options) for row in rows] == [
        (3, "failed", {"fault": fault}),
        (4, "failed", {"fault": fault}),
    ]
    assert all(re.search(said, row.error or "") for row in rows), rows[0].error
    assert torch.get_num_threads() == threads


def test_a_batch_starts_again_if_a_file_that_it_reads_has_changed(tmp_path):
    file = tmp_path / "rotation.npy"
    whole = batch("bug", tmp_path)
    question = replace(whole.cell.question, sites=f"hidden.0@rotation:{file}")
    whole = replace(whole, cell=replace(whole.cell, question=question))
    prints = []
    for sign in (1, 1, -1):
        np.save(file, sign * np.eye(64, dtype=np.float32))
        (row, _) = Worker(StudyPlace("tiny", tmp_path)).rows(whole)
        assert (row.error or "").startswith("ZeroDivisionError")
        prints.append(RunFolder(tmp_path / whole.folder).settings["sites_fingerprint"])
    assert prints[0] == prints[1] != prints[2]


def test_the_cure_for_a_lack_of_memory_is_one(tmp_path):
    """A batch that was begun keeps its seeds, but not if batches are to be smaller."""
    whole = batch("memory", tmp_path)
    (row, _) = Worker(StudyPlace("tiny", tmp_path)).rows(whole)
    assert "Set 'at_once'" in row.error and (tmp_path / whole.folder / "run.json").is_file()
    assert batches_of(whole.cell, tmp_path, whole.seeds) == [whole]
    smaller = batches_of(replace(whole.cell, at_once=1), tmp_path, whole.seeds)
    assert [one.seeds for one in smaller] == [range(3, 4), range(4, 5)]


def test_ctrl_c_is_not_a_failure(tmp_path, monkeypatch):
    monkeypatch.setitem(FAULTS, "bug", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        Worker(StudyPlace("tiny", tmp_path)).rows(batch("bug", tmp_path))
