"""`pivotal evaluate`: score an intervention on held-out pairs or on other pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import RunOptions, argument
from pivotal.errors import PivotalError
from pivotal.questions.question import Question

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.evidence.evaluation import Evaluation
    from pivotal.questions.pairs import PairSet
    from pivotal.records.evidence import Transfer

_READING = ("lower", "unknown", "columns", "skip_bad")


@dataclass(frozen=True)
class EvaluateOptions:
    labels: str = ""
    """How labels of the other question map to those of the intervention, e.g. he=male,she=female."""
    part: Literal["test", "train", "all"] | None = None
    """Which pairs: held-out pairs, training pairs, or all. Default: test; all for another phenomenon."""
    panel: bool = False
    """Score every other bundled phenomenon, and ordinary text, with the intervention applied."""
    sentences: str | None = None
    """With --panel: a text file instead of the bundled one, a sentence per line."""


@shared_options.takes_options
@shared_options.takes_fields(Question, *_READING)
def evaluate(
    ctx: typer.Context,
    path: shared_options.Run,
    run: RunOptions,
    options: EvaluateOptions,
    other: Annotated[
        str | None,
        argument(
            "Another phenomenon, pairs file or name:PATH to score on; a folder such as blimp:FOLDER gives a "
            "table. Default: the run's held-out pairs.",
            metavar="QUESTION",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    json: shared_options.Json = False,
    **read: Any,
) -> None:
    """Score an intervention: flipped preferences by direction and construction, KL, and what each unit adds.

    For a question with other labels, show the model's accuracy before and after the edit.
    """
    from pivotal.cli.run_argument import Saved

    reading = {name: value for name, value in read.items() if not shared_options.is_default(ctx, name)}
    check_options(other, options, reading)
    saved = Saved.read(path, run)
    if options.panel:
        _score_panel(saved, options.sentences, json)
    elif other is not None:
        _score_other(saved, other, options.labels, reading, json)
    else:
        _score_own(saved, options.part, json)


def check_options(other: str | None, options: EvaluateOptions, reading: Mapping[str, Any]) -> None:
    """Raise PivotalError if options contradict each other. `reading` holds those that say how pairs are read."""
    part = options.part
    if options.sentences is not None and not options.panel:
        raise PivotalError(
            f"--sentences is the text of --panel, but --panel was not given. Add --panel to read {options.sentences}."
        )
    about_other = [f"--{name.replace('_', '-')}" for name in reading] + ["--labels"] * bool(options.labels)
    given = ["QUESTION"] * (other is not None) + ["--part"] * (part is not None) + about_other
    if options.panel and given:
        raise PivotalError(f"--panel scores every bundled phenomenon. Leave {' and '.join(given)} out.")
    if other is None and about_other:
        raise PivotalError(f"{about_other[0]} is for another QUESTION. Name one, or leave it out.")
    if other is not None and part in ("test", "train"):
        raise PivotalError(f"Only the run's own question has a {part} part. Leave '{other}' or --part out.")


# -- the run's own question -----------------------------------------------------------------------------------------


def _score_own(saved: Saved, part: str | None, json: bool) -> None:
    """All scores on the held-out pairs, the training pairs or all pairs of the run's question."""
    from pivotal.problem.prepare import as_read

    if part == "all" or (part is None and saved.folder is None):
        # Possible even if the pairs have changed since the run.
        pairs = saved.load_pairs(f"Name them: `pivotal evaluate {saved.path} QUESTION`.")
        which, pairs = "all", as_read(saved.question, saved.lm, pairs)
    else:
        train, test = saved.divided("Score all pairs with --part all, or run again.")
        which, pairs = ("train", train) if part == "train" else ("test", test)
    _score(saved, saved.question, pairs, which, json)


# -- another question -----------------------------------------------------------------------------------------------


def _score_other(saved: Saved, phenomenon: str, labels: str, reading: Mapping[str, Any], json: bool) -> None:
    """All scores if one question has the labels of the intervention, or else the accuracy before and after.

    The question is read in the case and with the unknown words of the run, unless the user says otherwise.
    """
    from pivotal.evidence.side_effects import transfer
    from pivotal.problem.prepare import as_read
    from pivotal.questions.relabel import parse_labels, relabelled

    unasked = {"keep": "", "labels": "", "columns": "", "skip_bad": False, "test": None}
    question = replace(saved.question, **{**unasked, **reading, "phenomenon": phenomenon}).checked()
    parts, mapping = question.load_parts(), parse_labels(labels)
    trained = _trained_prefixes(saved)
    if len(parts) == 1 and parts[0].pairs is not None:
        mapped = relabelled(parts[0].pairs, saved.intervention.directions, mapping)
        if mapped is not None:
            _score(saved, question, as_read(question, saved.lm, mapped), "all", json, trained)
            return
    saved.note_means("A question with other labels")
    # The model was checked when it was loaded.
    found = transfer(
        saved.intervention, saved.lm, question, labels=mapping, any_model=True, parts=parts, trained=trained
    )
    if all(row.effect is None for row in found.rows):
        raise PivotalError(f"{question.phenomenon}: {found.rows[0].reason}")
    if json:
        terminal.as_json(found)
    else:
        _print_transfer(found)


def _trained_prefixes(saved: Saved) -> frozenset[str] | None:
    """The prefixes of the run's training pairs, as the model reads them. If they are not known, the user is told."""
    try:
        train, _ = saved.divided()
    except PivotalError as error:
        terminal.note(f"It is not known how many of these pairs share a prefix with training pairs. {error}")
        return None
    return frozenset(pair.prefix for pair in train)


def _print_transfer(transfer: Transfer) -> None:
    """A table of the questions that the model can score, and the reasons for the others."""
    from pivotal.printing import counted
    from pivotal.report.evidence import effects_table

    effects = [row.effect for row in transfer.rows if row.effect is not None]
    terminal.result(
        f"The intervention of {transfer.phenomenon} in {transfer.model} on {counted(len(effects), 'other question')}.",
        effects_table(effects),
    )
    if effects and not any(effect.flipped is not None for effect in effects):
        first, second = transfer.directions
        terminal.line(
            f"With other labels, accuracy is shown instead of flips. Map them: --labels X={first},Y={second}."
        )
    for row in transfer.rows:
        if row.effect is None:
            terminal.line(f"{row.question}: {row.reason}")
        elif row.prefix_in_training:
            terminal.line(f"{row.question}: {_trained_sentence(row.prefix_in_training, row.effect.pairs)}")


def _trained_sentence(count: int, asked: int) -> str:
    """Says that some of the scored pairs are not new."""
    return f"Prefixes of the run's training pairs occur in {count:,} of these {asked:,} pairs, so not all are new."


# -- all other questions --------------------------------------------------------------------------------------------


def _score_panel(saved: Saved, text: str | None, json: bool) -> None:
    """The effects on other phenomena and on ordinary text."""
    from pivotal.evidence.side_effects import Subject, bundled_phenomena, text_cost, with_others
    from pivotal.problem.text import OrdinaryText, sentences_of
    from pivotal.records.evidence import Evidence, Panel
    from pivotal.report.evidence import effects_table, text_sentence

    saved.note_means("Another phenomenon or text")
    read = OrdinaryText(saved.lm) if text is None else OrdinaryText(saved.lm, sentences_of(text), text)
    found = Panel(
        model=saved.lm.name,
        phenomenon=saved.intervention.phenomenon,
        text=text_cost(saved.intervention, read),
        effects=with_others(
            Evidence(),
            saved.intervention,
            saved.lm,
            bundled_phenomena(),
            Subject.named(saved.intervention.phenomenon),
        ).effects,
    )
    if json:
        terminal.as_json(found)
        return
    terminal.result(
        text_sentence(found.text)
        if found.text
        else f"{read.name}: {found.model} does not know most of its words.",
        effects_table(found.effects) or f"{found.model} can score no other bundled phenomenon.",
    )


# -- scores ---------------------------------------------------------------------------------------------------------


def _score(
    saved: Saved,
    question: Question,
    pairs: PairSet,
    which: str,
    json: bool,
    trained: frozenset[str] | None = None,
) -> None:
    """All scores of the intervention on pairs with its labels. `trained` are the prefixes of the run's training pairs,
    if the pairs are of another question."""
    from pivotal.evidence.checks import interchange
    from pivotal.evidence.evaluation import evaluate as score
    from pivotal.evidence.examination import Examination
    from pivotal.evidence.side_effects import count_trained
    from pivotal.evidence.summarise import scores_row
    from pivotal.problem.prepare import problem_of

    problem = problem_of(question, saved.lm, pairs)
    # The model was checked when it was loaded.
    scores = score(saved.intervention, problem, seed=question.seed, any_model=True)
    row: dict[str, Any] = {
        "model": saved.lm.name,
        "phenomenon": pairs.name,
        "pairs": {"which": which, "asked": len(problem)},
        "rejected": problem.rejected.record(),
        **scores_row(scores),
        "clean_accuracy": scores.clean_accuracy,
    }
    if saved.intervention.found_with == "interchange":
        row["interchange"] = interchange(Examination(saved.intervention, problem))
    if trained is not None:
        row["pairs"]["prefix_in_training"] = count_trained(problem.pairs, trained)
    if json:
        terminal.as_json(row)
        return
    for note in pairs.notes:
        terminal.line(note)
    _print(row, scores)


def _print(row: dict[str, Any], scores: Evaluation) -> None:
    from pivotal.report import evidence, tables
    from pivotal.report.notebook import flips_sentence

    called = {"test": "held-out ", "train": "training ", "all": ""}[row["pairs"]["which"]]
    trained = row["pairs"].get("prefix_in_training")
    asked = "preferences" if any(any(one.words) for one in scores.outcomes) else "prompts"
    terminal.result(
        flips_sentence(scores, f"{called}{asked} of {row['phenomenon']}", f" in {row['model']}"),
        evidence.interchange_sentence(row.get("interchange")),
        tables.fidelity_sentence(scores.fidelity),
        tables.skipped_sentence(row["rejected"]),
        _trained_sentence(trained, row["pairs"]["asked"]) if trained else "",
        tables.shares_table(scores),
        tables.drop_one_table(scores.drop_one, scores.flip_accuracy.value) if scores.drop_one else None,
    )
