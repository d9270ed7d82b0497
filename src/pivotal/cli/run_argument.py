"""Reads the argument RUN: a run folder, or one intervention, inside a run folder or on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pivotal.cli import terminal
from pivotal.cli.shared_options import RunOptions
from pivotal.errors import PivotalError
from pivotal.folders import locked
from pivotal.jobs.run_folder import INTERVENTIONS, RunFolder, holds_run, no_run
from pivotal.jobs.runs import read_run
from pivotal.questions.question import Question
from pivotal.records.intervention import CARD, Intervention

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
    options: RunOptions

    @staticmethod
    def read(path: str, options: RunOptions) -> Saved:
        """The run or intervention at a path. RUN/interventions/0 is run 0 of RUN."""
        given, run = Path(path), options.run
        if (given / CARD).is_file():
            if run is not None:
                raise PivotalError(f"{path} is one intervention; --run is for a run folder. Leave it out.")
            inner = given.resolve()
            home, number = inner.parent.parent, inner.name
            if inner.parent.name != INTERVENTIONS or not number.isdecimal() or not holds_run(home):
                return Saved(Intervention.load(given), None, path, None, options)
            given, run = home, int(number)
        elif not holds_run(given):
            raise PivotalError(no_run(given))

        def of(folder: RunFolder) -> Saved:
            number = run if run is not None else folder.summary().best if folder.finished else 0
            return Saved(folder.intervention(number), folder, path, number, options)

        return read_run(given, of)

    @staticmethod
    @contextmanager
    def locked(path: str, options: RunOptions) -> Iterator[Saved]:
        """The same, with the lock of the run folder within the block."""
        folder = Saved.read(path, options).folder
        with nullcontext() if folder is None else locked(folder.path):
            yield Saved.read(path, options)

    @cached_property
    def question(self) -> Question:
        """The question of the run, with the model, priming and dtype of the options. Without a run, the question is
        made from the card of the intervention."""
        i = self.intervention
        if self.folder is not None:
            asked = Question.of(self.folder.settings)
        else:
            sites = i.sites if i.bases else "all"
            asked = Question(i.model, i.phenomenon, i.steps, sites, i.found_with)
        chosen = {name: getattr(self.options, name) for name in ("model", "priming", "dtype")}
        return replace(asked, **{name: value for name, value in chosen.items() if value is not None})

    def divided(self, cure: str = "") -> tuple[PairSet, PairSet]:
        """The training pairs and the held-out pairs of the run, as the model reads them. The pairs are checked before
        the model is loaded, which may take long."""
        from pivotal.problem.prepare import as_read

        if self.folder is None:
            raise PivotalError(
                f"{self.path} is an intervention without its run, so its held-out pairs are not known. {cure}".strip()
            )
        pairs = self.question.load_pairs()
        self.folder.check_pairs(self.question, pairs, cure)
        return self.question.divide(as_read(self.question, self.lm, pairs))

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
                "This intervention has no run folder, and its card does not identify its pairs. pivotal reads those of "
                f"'{self.intervention.phenomenon}', which may differ from the pairs that the units were found on."
            )

    def note_means(self, where: str) -> None:
        """Say so if there is no counterfactual prefix to take the values of an interchange from."""
        if self.intervention.found_with == "interchange":
            terminal.note(
                "This intervention is an interchange: each pair gives its units the states of its own counterfactual "
                f"prefix. {where} has none, so the units are set to the means of those states."
            )

    @cached_property
    def lm(self) -> LanguageModel:
        """The model of the run's question. It is downloaded only if the user named it: a folder from somebody else may
        name any model, and that must not download anything."""
        from pivotal.problem.prepare import model_of

        named = self.options.model is not None
        try:
            model = model_of(self.question, self.options.device, download=named)
        except PivotalError as error:
            if named or "--model" in str(error):
                raise
            raise PivotalError(
                f"{error} If the model of the run was in memory, write it with pivotal.load_model(module, words)"
                ".save(PATH), or save_pretrained(PATH) of the model and its tokenizer, and add --model PATH."
            ) from None
        model.recognise(self.intervention.model_fingerprint)
        self.intervention.check_model(model.name, model.fingerprint(), any_model=self.options.any_model)
        whole = {} if self.folder is None else read_run(self.folder.path, RunFolder.bases)
        return model.in_bases(whole).in_bases(self.intervention.bases)
