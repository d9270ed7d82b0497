"""The runs of the live page: folders that the user gave, or those under runs/, and the models that they need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.run_folder import INTERVENTIONS, REPORT, RunFolder, holds_run
from pivotal.jobs.runs import listed_run, read_run, run_paths
from pivotal.models.base import LanguageModel
from pivotal.problem.prepare import model_of
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Dtype, Question
from pivotal.records.intervention import CARD
from pivotal.records.study import STUDY
from pivotal.serve.live_intervention import LiveIntervention, UnitAnswer

_MODELS, _INTERVENTIONS, _PAIRS = 2, 6, 300
"""The most models and interventions in memory, and stored pairs that a page offers."""

_MEANS = (
    "The run is about interchange: each pair gives its units the states of its own counterfactual prefix. Here the "
    "units are set to the means of those states."
)


class LiveRuns:
    """Numbers the run folders, and opens their interventions. The page names a run by its number, never by a path."""

    def __init__(self, given: Sequence[str], root: str, device: str | None = None) -> None:
        """What is given are runs and folders of runs. `root` is the folder of runs if nothing is given."""
        self._device = device
        self._roots = [] if given else [Path(root)]
        self._paths: list[Path] = []
        # Of this object: those used last are kept, and go with it.
        self._model = lru_cache(_MODELS)(self._load_model)
        self._intervention = lru_cache(_INTERVENTIONS)(self._open)
        for path in map(Path, given):
            if not holds_run(path) and run_paths(path):
                self._roots.append(path)
            else:
                self.add(_run_folder(path))
        self.compared = bool(given) and bool(self._roots)
        """Whether the user asked for a folder of runs, to compare them."""

    def add(self, path: Path) -> int:
        """The number of a run folder."""
        path = path.resolve()
        if path not in self._paths:
            self._paths.append(path)
        return self._paths.index(path)

    def listed(self) -> list[dict[str, Any]]:
        """The runs: finished ones first, the newest first. A folder that cannot be read is listed with the reason."""
        for root in self._roots:
            for path in run_paths(root):
                self.add(path)
        entries = [
            {**listed_run(path), "run": number, "name": _name(path), "path": _shown(path)}
            | {"report": self.report(number) is not None}
            for number, path in enumerate(self._paths)
            if any((path / INTERVENTIONS).glob(f"*/{CARD}"))
        ]
        return sorted(entries, key=lambda entry: (entry["finished"], entry["started"]), reverse=True)

    def path(self, run: int) -> Path:
        if not 0 <= run < len(self._paths):
            raise PivotalError(f"There is no run {run} in the list. Reload the page.")
        return self._paths[run]

    def report(self, run: int) -> Path | None:
        """The report of a run, if it is a plain file in the run's folder."""
        path = self.path(run) / REPORT
        return path if path.is_file() and not path.is_symlink() else None

    def live(self, run: int, which: int | None = None) -> LiveIntervention:
        """An intervention with its model. Those used last are kept."""
        return read_run(self.path(run), lambda folder: self._live(folder, which))

    def _live(self, folder: RunFolder, which: int | None) -> LiveIntervention:
        chosen = _best(folder) if which is None else which
        card = folder.path / INTERVENTIONS / str(chosen) / CARD
        changed = card.stat().st_mtime_ns if card.is_file() else 0
        return self._intervention(folder.path, chosen, changed)

    def opened(self, run: int, which: int | None = None) -> dict[str, Any]:
        """What the page shows of a run: labels, units with their ranges, sites and stored pairs."""
        return read_run(self.path(run), lambda folder: self._opened(folder, run, which))

    def _opened(self, folder: RunFolder, run: int, which: int | None) -> dict[str, Any]:
        live = self._live(folder, which)
        return {
            "run": run,
            "which": _best(folder) if which is None else which,
            "runs": folder.runs_saved(),
            "path": _shown(folder.path),
            "model": live.model.describe(),
            "phenomenon": live.intervention.phenomenon,
            "steps": live.intervention.steps,
            "note": _MEANS if live.intervention.found_with == "interchange" else "",
            "labels": live.labels,
            "units": [live.about(unit) for unit in live.intervention.units],
            "sites": [{"name": site.name, "units": site.width} for site in live.model.sites],
            "pairs": [
                {"prefix": pair.prefix, "words": pair.words, "cue": pair.cue, "group": pair.group}
                for pair in live.pairs.at_most(_PAIRS)
            ],
            "report": self.report(run) is not None,
        }

    def unit(self, run: int, which: int | None, name: str) -> UnitAnswer:
        live = self.live(run, which)
        return live.about(live.model.unit(name))

    def _open(self, path: Path, which: int, _changed: int) -> LiveIntervention:
        folder = RunFolder(path)
        question, intervention = Question.of(folder.settings), folder.intervention(which)
        model = self._model(question.model, question.priming, question.dtype)
        intervention.check_model(model.name, model.fingerprint())
        model = model.in_bases(folder.bases()).in_bases(intervention.bases)
        return LiveIntervention(
            model, question, intervention, _pairs(folder, question, intervention.directions)
        )

    def _load_model(self, name: str, priming: str | None, dtype: Dtype | None) -> LanguageModel:
        # A folder from somebody else may name any model, and that must not download anything.
        return model_of(Question(name, priming=priming, dtype=dtype), self._device, download=False)


def _run_folder(path: Path) -> Path:
    """The folder of a run, checked. `RUN/interventions/0` stands for its run."""
    if path.resolve().parent.name == INTERVENTIONS and (path / CARD).is_file():
        path = path.resolve().parents[1]
    folder = RunFolder(path)
    if not folder.runs_saved():
        raise PivotalError(
            f"The live page needs units, but the run in {path} has saved none yet. Resume it first: repeat its command."
        )
    return path


def _name(path: Path) -> str:
    """A short name of a run: that of its folder, in a study with that of its cell."""
    return "/".join(path.parts[-2:]) if (path.parent.parent.parent / STUDY).is_file() else path.name


def _shown(path: Path) -> str:
    """A path as a user would write it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _best(folder: RunFolder) -> int:
    return folder.summary().best if folder.finished else 0


def _pairs(folder: RunFolder, question: Question, labels: tuple[str, str]) -> PairSet:
    """The held-out pairs that the run has stored. A run without them, or without words, has those of its phenomenon."""
    traces = folder.traces()
    if traces is None or not any(any(pair.words) for pair in traces.pairs):
        return question.load_pairs().at_most(_PAIRS)
    stored = (
        MinimalPair(one.prefix, one.cue, one.words, one.label, one.group)
        for one in sorted(traces.pairs, key=lambda one: one.pair)
    )
    return PairSet(question.phenomenon, labels, tuple(stored))
