"""Batches as tasks of Ray, on this machine or on a cluster. Ray decides what runs where; rows come as they are done."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.study.batches import Batch
from pivotal.jobs.study.folder import STUDY
from pivotal.jobs.study.harvest import failed_rows
from pivotal.jobs.study.recipe import Resources
from pivotal.jobs.study.watch import StudyWatch
from pivotal.jobs.study.work import StudyPlace, carry_out
from pivotal.records.study_rows import StudyRow

_PATIENCE = 10.0
"""Seconds in which a cluster must answer."""


class OnRay:
    """An executor on the cluster at `address`, or, without one, on a Ray of its own on this machine.

    A Ray that is running in this process already is used as it is.
    """

    def __init__(self, resources: Resources, address: str | None = None) -> None:
        self._resources, self._address = resources, address
        _package()  # if it is not installed, that is said before anything else is done

    @cached_property
    def _ray(self) -> Any:
        """Ray, started or joined when it is first needed: a slip in a recipe should not wait for that."""
        ray = _package()
        if ray.is_initialized():
            return ray
        try:
            _knock(self._address or "")
            ray.init(
                address=self._address or "local",
                include_dashboard=False,
                log_to_driver=False,  # rows say what went wrong; a board should stay readable
                logging_level=logging.ERROR,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise PivotalError(
                f"A Ray cluster should answer at {self._address!r}, but it does not ({str(error).splitlines()[0]}). "
                "Start one with `ray start --head`, or leave it to --ray."
            ) from None
        return ray

    def width(self, device: str | None = None) -> int:
        """As many batches as the cluster has room for now."""
        if device is not None and device != "cpu" and not self._resources.gpus:
            raise PivotalError(
                f"On Ray a batch sees the GPUs it asks for, but it asks for none and the device is to be '{device}'. "
                "Add --gpus 1, or leave --device out."
            )
        self._check_room()
        there, asked = self._ray.cluster_resources(), self._resources
        rooms = [there.get("CPU", 0) / (asked.cpus or 1)]
        if asked.gpus:
            rooms.append(there.get("GPU", 0) / asked.gpus)
        if asked.memory:
            rooms.append(there.get("memory", 0) / _bytes(asked.memory))
        return max(1, int(min(rooms)))

    def run(
        self, batches: Sequence[Batch], place: StudyPlace, watch: StudyWatch
    ) -> Iterator[tuple[Batch, list[StudyRow]]]:
        asked = self._resources
        place = replace(
            place, device=place.device or ("cuda" if asked.gpus else "cpu"), threads=asked.cpus or 1
        )
        # max_calls: Ray would end a worker with a GPU after each task, and its model with it.
        task = self._ray.remote(
            num_cpus=asked.cpus or 1,
            num_gpus=asked.gpus,
            memory=None if asked.memory is None else _bytes(asked.memory),
            max_retries=asked.retries,
            max_calls=0,
        )(_work)
        waiting = {task.remote(batch, place, os.getcwd()): batch for batch in batches}
        for batch in batches:
            watch.began(batch.cell)
        try:
            while waiting:
                (ready,), _ = self._ray.wait(list(waiting), num_returns=1)
                batch = waiting.pop(ready)
                yield batch, self._rows(ready, batch, place)
        finally:
            for reference in waiting:
                self._ray.cancel(reference, force=True)

    def _rows(self, ready: Any, batch: Batch, place: StudyPlace) -> list[StudyRow]:
        try:
            rows: list[StudyRow] = self._ray.get(ready)
            return rows
        except self._ray.exceptions.RayError as error:  # the worker died, and so did those that tried again
            cause = getattr(error, "cause", None) or error
            reason = (str(cause).strip().splitlines() or [""])[0]
            return failed_rows(batch, place.study, f"{type(cause).__name__}: {reason}")

    def _check_room(self) -> None:
        """Ray would wait for ever for what no machine of the cluster has."""
        asked: dict[str, int | float] = {"CPU": self._resources.cpus or 1, "GPU": self._resources.gpus}
        if self._resources.memory is not None:
            asked["memory"] = _bytes(self._resources.memory)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(node.get(kind, 0) >= number for kind, number in asked.items()) for node in nodes):
            most = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in asked}
            raise PivotalError(
                f"A batch asks for {_listed(asked)}, but no machine of the Ray cluster has all of it (at most "
                f"{_listed(most)}). Ask for less with --cpus and --gpus, or in 'resources' of the recipe."
            )


def _work(batch: Batch, place: StudyPlace, here: str) -> list[StudyRow]:
    """What a worker of Ray does. Names of models and pairs may be paths from where the study was started."""
    if Path(here).is_dir():
        os.chdir(here)
    if not (place.folder / STUDY).is_file():
        return failed_rows(
            batch,
            place.study,
            "The folder of a study on Ray must be one that all machines share, but a worker does not see "
            f"{place.folder}. Name another with --out.",
        )
    return carry_out(batch, place)


def _bytes(gigabytes: float) -> int:
    return int(gigabytes * 1e9)


def _listed(resources: Mapping[str, int | float]) -> str:
    """As people say it: `1 CPU, 0 GPU and 16.0 GB`."""
    texts = [
        f"{number / 1e9:,.1f} GB" if kind == "memory" else f"{number:g} {kind}"
        for kind, number in resources.items()
    ]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _knock(address: str) -> None:
    """ConnectionError or OSError if nobody listens: Ray itself would go on asking for minutes."""
    if named := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address):
        socket.create_connection((named[1], int(named[2])), timeout=_PATIENCE).close()


def _package() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise PivotalError("To run a study on Ray, install it: pip install 'pivotal[ray]'.") from None
    return ray
