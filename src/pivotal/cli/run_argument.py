"""Reads the argument RUN: a run folder, or one intervention, inside a run folder or on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotal.cli import terminal
from pivotal.errors import PivotalError
from pivotal.files import locked
from pivotal.jobs.run_folder import INTERVENTIONS, RUN, RunFolder, holds_run, reread
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
    model: str | None = None
    """Where the model is now. The question of the run has what is None here and below."""
    priming: str | None = None
    dtype: Dtype | None = None
    device: str | None = None
    any_model: bool = False
    """Whether the intervention may be applied to a model other than the one it was found in."""

    @staticmethod
    @reread
    def read(path: str, run: int | None = None, **options: Any) -> Saved:
        """The run or intervention at a path, with the options of `takes_run`."""
        given = Path(path)
        if holds_run(given):
            folder = RunFolder.open(given)
            if run is None:
                run = folder.summary().best if folder.finished else 0
            return Saved(folder.intervention(run), folder, path, run, **options)
        if (given / "card.json").is_file():
            if run is not None:
                raise PivotalError(
                    f"{path} is a single intervention, but --run is for a run folder. Leave --run out."
                )
            of, name = _folder_of(given.resolve()), given.resolve().name
            number = int(name) if of and name.isdigit() else None
            found = Intervention.load(given) if of is None or number is None else of.intervention(number)
            return Saved(found, of, path, number, **options)
        if not given.exists():
            raise PivotalError(f"There is no folder {path}. Give a run folder, such as those under runs/.")
        raise PivotalError(
            f"{path} is neither a run folder (with {RUN}) nor an intervention (with card.json). "
            "Give the --out folder of `pivotal find`."
        )

    @staticmethod
    @contextmanager
    def locked(path: str, run: int | None = None, **options: Any) -> Iterator[Saved]:
        """The same, with the lock of the run folder within the block."""
        folder = Saved.read(path, run).folder
        with nullcontext() if folder is None else locked(folder.path):
            yield Saved.read(path, run, **options)

    @cached_property
    def question(self) -> Question:
        """The question of the run, with the model, priming and dtype of the options. Without a run, the question is
        made from the card of the intervention."""
        i = self.intervention
        if self.folder is not None:
            asked = Question.of(self.folder.settings)
        else:
            sites = i.sites if i.bases else "all"
            asked = Question(
                model=i.model, phenomenon=i.phenomenon, steps=i.steps, values=i.found_with, sites=sites
            )
        chosen: dict[str, Any] = {"model": self.model, "priming": self.priming, "dtype": self.dtype}
        return replace(asked, **{name: value for name, value in chosen.items() if value is not None})

    def divided(
        self, pairs: PairSet, cure: str, model: LanguageModel | None = None
    ) -> tuple[PairSet, PairSet]:
        """The training pairs and the held-out pairs of the run, as the model reads them if it is given."""
        from pivotal.problem.prepare import as_read

        if self.folder is None:
            raise PivotalError(
                f"{self.path} is an intervention without its run, so its held-out pairs are not known. {cure}"
            )
        self.folder.check_pairs(self.question, pairs, cure)
        return self.question.divide(pairs if model is None else as_read(self.question, model, pairs))

    def load_pairs(self, cure: str) -> PairSet:
        """The pairs of the run's question. PivotalError if an intervention without its run was found on others."""
        self.note_pairs()
        pairs = self.question.load_pairs()
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

    def load_model(self, question: Question | None = None) -> LanguageModel:
        """The model of the run's question, or of another. It is downloaded only if the user named it: a folder from
        somebody else may name any model, and that must not download anything."""
        from pivotal.problem.prepare import model_of

        model = model_of(question or self.question, self.device, download=self.model is not None)
        self.intervention.check_model(model.name, model.fingerprint(), any_model=self.any_model)
        whole = {} if self.folder is None else self.folder.bases()
        return model.in_bases(whole).in_bases(self.intervention.bases)


def _folder_of(intervention: Path) -> RunFolder | None:
    """The run that an intervention belongs to (RUN/interventions/0)."""
    inside = intervention.parent
    if inside.name == INTERVENTIONS and holds_run(inside.parent):
        return RunFolder.open(inside.parent)
    return None
