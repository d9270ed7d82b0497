"""The same recipe gives the same rows on Ray, and a worker that dies is not the end."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
from small_study import Said, lasting, rows_in, tiny
from typer.testing import CliRunner

from pivotal import PivotalError, Problem, study
from pivotal.cli.main import app
from pivotal.jobs.study.cells import cells_of
from pivotal.jobs.study.folder import RunBatch, batches_of, opened
from pivotal.jobs.study.recipe import Resources
from pivotal.jobs.study.work import StudyPlace
from pivotal.records.study import StudyRow
from pivotal.searches import Attribution, Discovery, Search
from pivotal.searches.base import Attempt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="the package ray is not installed"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers on this machine, which do not see the folder of the tests."""
    # Read when ray is imported. Its server may be slow to start, and a full memory is no matter of these tests.
    os.environ |= {"RAY_NUM_REDIS_GET_RETRIES": "120", "RAY_memory_monitor_refresh_ms": "0"}
    import ray  # not above: every worker of the tests would import it

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    quiet = {"include_dashboard": False, "log_to_driver": False}
    ray.init(address="local", num_cpus=2, object_store_memory=100_000_000, **quiet)
    yield
    ray.shutdown()


@dataclass(frozen=True)
class Deadly(Search):
    """Kills its process as often as it may, and then finds random units."""

    name: ClassVar[str] = "deadly"
    summary: ClassVar[str] = "kills its process"
    marks: str = ""
    """A folder in which every death leaves a mark."""
    deaths: int = 1

    def _solve(self, problem: Problem, attempt: Attempt) -> Discovery:
        dead = len(list(Path(self.marks).iterdir()))
        if dead < self.deaths:
            (Path(self.marks) / str(dead)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Attribution(max_units=3).solve(problem, runs=attempt.runs, seed=attempt.seed)


def on_ray(search: Search, folder: Path, resources: Resources) -> list[tuple[RunBatch, list[StudyRow]]]:
    from pivotal.jobs.study.ray import OnRay

    cell = replace(cells_of(tiny())[0], search=search)
    batches = batches_of(cell, folder, cell.seeds)
    with opened(folder, tiny(), ""):
        return list(OnRay(resources).run(batches, StudyPlace("tiny", folder), Said()))


def test_an_address_where_nobody_listens_is_a_sentence_at_once():
    """Comes first: a Ray that runs in this process is used whatever the address."""
    from pivotal.jobs.study.ray import OnRay

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(PivotalError, match=f"No Ray cluster answers at '{nobody}'"):
            OnRay(Resources(), nobody).check()


def test_two_workers_give_the_rows_that_one_process_gives(cluster, finished, tmp_path):
    from pivotal.jobs.study.ray import OnRay

    executor, said = OnRay(tiny().resources), Said()
    studied = study(tiny(), out=tmp_path / "ray", executor=executor, watch=said)
    assert not studied.failed
    assert lasting(studied.rows) == lasting(rows_in(finished))
    assert said.standings and not any("failed" in line for line in said.standings)


def test_an_atlas_on_two_workers_has_the_rows_of_one_process(cluster, atlas_recipe, atlas, tmp_path):
    recipe, out = tmp_path / "cross.yaml", tmp_path / "ray"
    recipe.write_text(atlas_recipe.text)
    done = CliRunner().invoke(app, ["atlas", str(recipe), "--ray", "local", "--out", str(out), "--quiet"])
    assert done.exit_code == 0, done.output
    assert lasting(rows_in(out)) == lasting(atlas.rows)
    assert (out / "site" / "index.html").is_file()


@pytest.mark.parametrize(("deaths", "retries", "status"), [(2, 2, "done"), (9, 1, "failed")])
def test_a_worker_that_dies_is_replaced_but_not_forever(cluster, tmp_path, deaths, retries, status):
    (tmp_path / "marks").mkdir()
    search = Deadly(str(tmp_path / "marks"), deaths)
    ((_, rows),) = on_ray(search, tmp_path / "study", Resources(cpus=1, retries=retries))
    assert [(row.seed, row.status) for row in rows] == [(3, status), (4, status)], rows[0].error
    assert status == "done" or "WorkerCrashedError" in (rows[0].error or "")
    assert len(list((tmp_path / "marks").iterdir())) == 2


def test_what_no_machine_has_is_refused_rather_than_waited_for(cluster, tmp_path):
    from pivotal.jobs.study.ray import OnRay

    with pytest.raises(PivotalError, match="asks for 1 CPU, 3 GPU, but no machine of the Ray cluster has"):
        study(tiny(), out=tmp_path / "study", executor=OnRay(Resources(cpus=1, gpus=3.0)))
    said = r"1 CPU, 0 GPU, 100,000.0 GB, but no machine .*at most 2 CPU, 0 GPU,"
    with pytest.raises(PivotalError, match=said):
        study(tiny(), out=tmp_path / "study", executor=OnRay(Resources(cpus=1, memory=1e5)))
    with pytest.raises(PivotalError, match=r"Without --gpus 1, .* cannot use the device 'cuda:1'"):
        study(tiny(), out=tmp_path / "study", device="cuda:1", executor=OnRay(Resources(cpus=1)))
    assert not (tmp_path / "study").exists()


def test_a_folder_that_a_worker_does_not_see(tmp_path):
    from pivotal.jobs.study.ray import _work

    cell = cells_of(tiny())[0]
    (batch,) = batches_of(cell, tmp_path, cell.seeds)
    rows = _work(batch, StudyPlace("tiny", tmp_path / "elsewhere"), str(Path.cwd()))
    assert "must be one that all machines share" in (rows[0].error or "")
