"""Reads the argument RUN: a run folder, or one intervention, inside a run folder or on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pivotal.cli import terminal
from pivotal.errors import PivotalError
from pivotal.files import locked
from pivotal.jobs.run_folder import INTERVENTIONS, RUN, RunFolder
from pivotal.questions.question import Dtype, Question
from pivotal.records.intervention import Intervention

if TYPE_CHECKING:
    from pivotal.models import LanguageModel
    from pivotal.questions.pairs import PairSet


@dataclass(frozen=True)
class Saved:
    """An intervention, and the run that it comes from, if there is one."""

    intervention: Intervention
    folder: RunFolder | None
    path: str
    run: int | None
    """Its number in the run."""

    @staticmethod
    def read(path: str, run: int | None = None) -> Saved:
        given = Path(path)
        if (given / RUN).is_file():
            folder = RunFolder.open(given)
            if run is None:
                run = folder.summary().best if folder.finished else 0
            return Saved(folder.intervention(run), folder, path, run)
        if (given / "card.json").is_file():
            if run is not None:
                raise PivotalError(
                    f"{path} is a single intervention, but --run is for a run folder. Leave --run out."
                )
            of, name = _folder_of(given.resolve()), given.resolve().name
            return Saved(Intervention.load(given), of, path, int(name) if of and name.isdigit() else None)
        if not given.exists():
            raise PivotalError(f"There is no folder {path}. Give a run folder, such as those under runs/.")
        raise PivotalError(
            f"{path} is neither a run folder (with {RUN}) nor an intervention (with card.json). "
            "Give the --out folder of `pivotal find`."
        )

    @staticmethod
    @contextmanager
    def locked(path: str, run: int | None = None) -> Iterator[Saved]:
        """The same, with the lock of the run folder within the block."""
        folder = Saved.read(path, run).folder
        with nullcontext() if folder is None else locked(folder.path):
            yield Saved.read(path, run)

    def question(
        self, model: str | None = None, priming: str | None = None, dtype: Dtype | None = None
    ) -> Question:
        """The question of the run, with another model, priming or dtype if given. Without a run, the question is made
        from the card of the intervention."""
        from dataclasses import replace

        i = self.intervention
        if self.folder is not None:
            asked = Question.of(self.folder.settings)
        else:
            sites = i.sites if i.bases else "all"
            asked = Question(
                model=i.model, phenomenon=i.phenomenon, steps=i.steps, values=i.found_with, sites=sites
            )
        return replace(
            asked,
            model=asked.model if model is None else model,
            priming=asked.priming if priming is None else priming,
            dtype=asked.dtype if dtype is None else dtype,
        )

    def divided(
        self, question: Question, pairs: PairSet, cure: str, read: PairSet | None = None
    ) -> tuple[PairSet, PairSet]:
        """The training pairs and the held-out pairs of the run. `read` are the pairs as the model reads them."""
        if self.folder is None:
            raise PivotalError(
                f"{self.path} is an intervention without its run, so its held-out pairs are not known. {cure}"
            )
        self.folder.check_pairs(question, pairs, cure)
        return question.divide(pairs if read is None else read)

    def load_pairs(self, question: Question, cure: str) -> PairSet:
        """The pairs of the question. PivotalError if an intervention without its run was found on others."""
        self.note_pairs()
        pairs = question.load_pairs()
        if self.folder is None:
            self.intervention.check_pairs(pairs.fingerprint(), cure)
        return pairs

    def note_pairs(self) -> None:
        """Say so if nothing tells whether the question of the card has the pairs that the units were found on."""
        if self.folder is None and not self.intervention.question_fingerprint:
            terminal.note(
                "This intervention is without its run folder, and its card does not identify its pairs. pivotal reads "
                f"those of '{self.intervention.phenomenon}'. They may differ from those that the units were found on."
            )

    def note_means(self, where: str) -> None:
        """Say so if there is no counterfactual prefix to take the values of an interchange from."""
        if self.intervention.found_with == "interchange":
            terminal.note(
                "This intervention is an interchange: each pair gives its units the states of its own counterfactual "
                f"prefix. {where} has none, so the units are set to the means of those states."
            )

    def load_model(
        self, question: Question, device: str | None, any_model: bool, *, download: bool
    ) -> LanguageModel:
        """The model of the question. `download` says whether the user named it. A folder from somebody else may name
        any model, and that must not download anything."""
        from pivotal.problem.prepare import model_of

        model = model_of(question, device, download=download)
        self.intervention.check_model(model.name, model.fingerprint(), any_model=any_model)
        whole = {} if self.folder is None else self.folder.bases()
        return model.in_bases(whole).in_bases(self.intervention.bases)


def _folder_of(intervention: Path) -> RunFolder | None:
    """The run that an intervention belongs to (RUN/interventions/0)."""
    inside = intervention.parent
    if inside.name == INTERVENTIONS and (inside.parent / RUN).is_file():
        return RunFolder.open(inside.parent)
    return None
