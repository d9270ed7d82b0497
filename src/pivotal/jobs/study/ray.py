"""An executor that runs batches as tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError, in_short
from pivotal.jobs.study.folder import RunBatch
from pivotal.jobs.study.recipe import Resources
from pivotal.jobs.study.rows import failed_rows
from pivotal.jobs.study.work import StudyPlace, Worker
from pivotal.records.study import STUDY, StudyRow
from pivotal.watch import Watch

_PATIENCE = 10.0
"""Seconds in which a cluster must answer."""


class OnRay:
    """Runs batches on the cluster at `address`; "local" starts Ray on this machine.

    If Ray already runs in this process, it is used.
    """

    def __init__(self, resources: Resources, address: str = "local") -> None:
        self._resources, self._address = resources, address
        _package()  # raises first if Ray is not installed

    @cached_property
    def _ray(self) -> Any:
        """Ray, started or joined on first use, so that mistakes in a recipe are reported before."""
        ray = _package()
        if ray.is_initialized():
            return ray
        try:
            _knock(self._address)
            ray.init(
                address=self._address,
                include_dashboard=False,
                log_to_driver=False,  # failed rows state the error; the display should stay readable
                logging_level=logging.ERROR,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise PivotalError(
                f"No Ray cluster answers at {self._address!r} ({in_short(error)}). Start one, or use --ray local."
            ) from None
        return ray

    def check(self, device: str | None = None) -> None:
        """PivotalError if no machine of the cluster has enough resources; Ray would wait forever."""
        if device is not None and device != "cpu" and not self._resources.gpus:
            raise PivotalError(f"Without --gpus 1, a batch on Ray cannot use the device '{device}'.")
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(
            all(node.get(kind, 0) >= number for kind, number in self._needs.items()) for node in nodes
        ):
            most = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in self._needs}
            raise PivotalError(
                f"A batch asks for {_listed(self._needs)}, but no machine of the Ray cluster has all of it (at most "
                f"{_listed(most)}). Ask for less with --cpus and --gpus, or in 'resources' of the recipe."
            )

    @property
    def _needs(self) -> dict[str, float]:
        """What a batch reserves, by Ray's names."""
        memory = {} if self._resources.memory is None else {"memory": int(self._resources.memory * 1e9)}
        return {"CPU": self._resources.cpus or 1, "GPU": self._resources.gpus, **memory}

    def run(
        self, batches: Sequence[RunBatch], place: StudyPlace, watch: Watch
    ) -> Iterator[tuple[RunBatch, list[StudyRow]]]:
        asked, needs = self._resources, self._needs
        device = place.device or ("cuda" if asked.gpus else "cpu")
        place = replace(place, device=device, threads=asked.cpus or 1)
        # max_calls=0: by default Ray ends a worker with a GPU after each task, and its loaded model is lost.
        task = self._ray.remote(
            num_cpus=needs["CPU"],
            num_gpus=needs["GPU"],
            memory=needs.get("memory"),
            max_retries=asked.retries,
            max_calls=0,
        )(_work)
        waiting = {task.remote(batch, place, os.getcwd()): batch for batch in batches}
        for batch in batches:
            watch.say(f"{batch.cell.name} …")
        try:
            while waiting:
                (ready,), _ = self._ray.wait(list(waiting), num_returns=1)
                batch = waiting.pop(ready)
                yield batch, self._rows(ready, batch, place)
        finally:
            for reference in waiting:
                self._ray.cancel(reference, force=True)

    def _rows(self, ready: Any, batch: RunBatch, place: StudyPlace) -> list[StudyRow]:
        try:
            rows: list[StudyRow] = self._ray.get(ready)
            return rows
        except self._ray.exceptions.RayError as error:  # the worker died, and all retries failed
            cause = getattr(error, "cause", None) or error
            return failed_rows(batch, place.study, f"{type(cause).__name__}: {in_short(cause)}")


_worker = lru_cache(maxsize=1)(Worker)
"""The worker of this process, which keeps the model from batch to batch of a study."""


def _work(batch: RunBatch, place: StudyPlace, here: str) -> list[StudyRow]:
    """Run a batch in a Ray worker. Models and pairs may be paths relative to the folder `here`."""
    if Path(here).is_dir():
        os.chdir(here)
    if not (place.folder / STUDY).is_file():
        return failed_rows(
            batch,
            place.study,
            "The folder of a study on Ray must be one that all machines share, but a worker does not see "
            f"{place.folder}. Name another with --out.",
        )
    return _worker(place).rows(batch)


def _listed(resources: Mapping[str, float]) -> str:
    """Resources in words: `1 CPU, 0 GPU, 16.0 GB`."""
    return ", ".join(
        f"{n / 1e9:,.1f} GB" if kind == "memory" else f"{n:g} {kind}" for kind, n in resources.items()
    )


def _knock(address: str) -> None:
    """OSError if nothing listens at the address. Ray itself would retry for minutes."""
    if named := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
        socket.create_connection((named[1], int(named[2])), timeout=_PATIENCE).close()


def _package() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise PivotalError("To run a study on Ray, install it: pip install 'pivotal[ray]'.") from None
    return ray
