"""`pivotal evaluate`: score an intervention on held-out pairs or on other pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_question
from pivotal.errors import PivotalError
from pivotal.questions.question import Question

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.evidence.evaluation import Evaluation
    from pivotal.models import LanguageModel
    from pivotal.questions.pairs import PairSet
    from pivotal.records.evidence import Transfer

_READING = ("lower", "unknown", "columns", "skip_bad")


@shared_options.takes_run
@shared_options.takes_fields(Question, *_READING)
def evaluate(
    ctx: typer.Context,
    other: Annotated[
        str | None,
        argument(
            "Another phenomenon, pairs file or name:PATH to score on; a folder such as blimp:FOLDER gives a "
            "table. Default: the run's held-out pairs.",
            metavar="QUESTION",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    labels: Annotated[
        str,
        in_question(
            "Which labels of the other question are which of the intervention, e.g. he=male,she=female.",
            metavar="LABEL=LABEL,…",
        ),
    ] = "",
    part: Annotated[
        Literal["test", "train", "all"] | None,
        in_question(
            "Which pairs: held-out pairs, training pairs, or all. Default: test; all for another phenomenon."
        ),
    ] = None,
    panel: Annotated[
        bool,
        in_question(
            "Ask every other bundled phenomenon and read ordinary text with the intervention applied.",
            "--panel",
        ),
    ] = False,
    sentences: Annotated[
        str | None,
        in_question(
            "With --panel: a text of your own instead of the bundled one, a sentence per line.",
            metavar="FILE",
        ),
    ] = None,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Score an intervention: flipped preferences by direction and construction, KL, and what each unit adds.

    On a question with other labels, the accuracy of the model is shown before and after the edit.
    """
    from pivotal.cli.run_argument import Saved

    every = {name: chosen.pop(name) for name in _READING}
    reading = {name: value for name, value in every.items() if not shared_options.is_default(ctx, name)}
    check_options(other, part, labels, panel, sentences, reading)
    saved = Saved.read(**chosen)
    if panel:
        _score_panel(saved, sentences, json)
    elif other is not None and not _is_own(saved, other):
        _score_other(saved, other, part, labels, reading, json)
    else:
        _score_own(saved, part, labels, reading, json)


def check_options(
    other: str | None,
    part: str | None,
    labels: str,
    panel: bool,
    sentences: str | None,
    reading: Mapping[str, Any],
) -> None:
    """Raise PivotalError if options contradict each other. `reading` holds those that say how pairs are read."""
    if other is not None and not other.strip():
        raise PivotalError(
            "QUESTION is a phenomenon or a file, but it is empty. Name one, or leave it out to score the run's pairs."
        )
    if sentences is not None and not panel:
        raise PivotalError(
            f"--sentences is the text of --panel, but --panel was not given. Add --panel to read {sentences}."
        )
    chosen = {"QUESTION": other, "--part": part, "--labels": labels or None}
    given = [name for name, value in chosen.items() if value is not None] + list(map(_flag, reading))
    if panel and given:
        raise PivotalError(
            f"--panel asks all pairs of every bundled phenomenon. Leave {' and '.join(given)} out."
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_own(saved: Saved, phenomenon: str) -> bool:
    """Whether the user has named the run's own question, in any spelling of its files. An intervention without its run
    has only a name for it, which may be that of another file, so what the user names is read."""
    from pivotal.questions.phenomena import place_of
    from pivotal.questions.question import names_of

    there, here = (list(map(place_of, names_of(name))) for name in (saved.question.phenomenon, phenomenon))
    return saved.folder is not None and there == here


# -- the run's own question -----------------------------------------------------------------------------------------

_CURE = "Score on all of them with --part all, or run again."


def _score_own(saved: Saved, part: str | None, labels: str, reading: Mapping[str, Any], json: bool) -> None:
    """All scores on the held-out pairs, the training pairs or all pairs of the run's question."""
    from pivotal.problem.prepare import as_read

    if labels:
        raise PivotalError("--labels is for another question, but none was given.")
    if saved.folder is None and part in ("test", "train"):
        raise PivotalError(
            "An intervention without its run does not know which pairs were held out. "
            "Give its run folder, or --part all."
        )
    if given := [_flag(name) for name, value in reading.items() if value != getattr(saved.question, name)]:
        cure = f"Leave {' and '.join(given)} out."
        if saved.folder is None:
            cure = f"Name the question, too: `pivotal evaluate {saved.path} QUESTION`."
        raise PivotalError(
            f"{given[0]} says how another question is read, but the run's own is read as in the run. {cure}"
        )
    # Files are read before the model is loaded, which may take long.
    pairs = saved.load_pairs(f"Name them: `pivotal evaluate {saved.path} QUESTION`.")
    if saved.folder is None or part == "all":  # possible even if the pairs have changed since the run
        lm = saved.load_model()
        chosen, which = as_read(saved.question, lm, pairs), "all"
    else:
        saved.divided(pairs, _CURE)
        lm = saved.load_model()
        train, test = saved.divided(pairs, _CURE, lm)
        chosen, which = (train, "train") if part == "train" else (test, "test")
    _score(saved, saved.question, lm, chosen, which, json)


# -- another question -----------------------------------------------------------------------------------------------


def _score_other(
    saved: Saved, phenomenon: str, part: str | None, labels: str, reading: Mapping[str, Any], json: bool
) -> None:
    """All scores if one question has the labels of the intervention, or else the accuracy before and after.

    The question is read in the case and with the unknown words of the run, unless the user says otherwise.
    """
    from pivotal.evidence.side_effects import score_transfer
    from pivotal.problem.prepare import as_read
    from pivotal.questions.relabel import parse_labels, relabelled

    if part in ("test", "train"):
        raise PivotalError(
            f"The run never split '{phenomenon}' by itself, so it has no {part} part. "
            "Leave --part out to score all its pairs."
        )
    of_its_own_file = {"labels": "", "columns": "", "skip_bad": False}
    question = replace(
        saved.question, phenomenon=phenomenon, keep="", **{**of_its_own_file, **reading}
    ).checked()
    parts, mapping = question.load_parts(), parse_labels(labels)
    lm = saved.load_model(question)
    trained = _trained_prefixes(saved, lm)
    if len(parts) == 1 and parts[0].pairs is not None:
        mapped = relabelled(parts[0].pairs, saved.intervention.directions, mapping)
        if mapped is not None:
            _score(saved, question, lm, as_read(question, lm, mapped), "all", json, trained)
            return
    saved.note_means("A question with other labels")
    found = score_transfer(saved.intervention, lm, question, parts, mapping, trained)
    if all(row.effect is None for row in found.rows):
        raise PivotalError(f"{question.phenomenon} cannot be asked: {found.rows[0].reason}")
    if json:
        terminal.as_json(found)
    else:
        _print_transfer(found)


def _trained_prefixes(saved: Saved, lm: LanguageModel) -> frozenset[str] | None:
    """The prefixes of the run's training pairs, as the model reads them. If they are not known, the user is told."""
    try:
        train, _ = saved.divided(saved.question.load_pairs(), "", lm)
    except PivotalError as error:
        terminal.note(
            f"pivotal cannot say how many of these pairs share a prefix with the training pairs. {error}".strip()
        )
        return None
    return frozenset(pair.prefix for pair in train)


def _print_transfer(transfer: Transfer) -> None:
    """A table of the questions that could be asked, and the reasons for the others."""
    from pivotal.report.evidence import effects_table
    from pivotal.report.tables import counted

    effects = [row.effect for row in transfer.rows if row.effect is not None]
    terminal.result(
        f"The intervention of {transfer.phenomenon} in {transfer.model} on {counted(len(effects), 'other question')}.",
        effects_table(effects),
    )
    if effects and not any(effect.related for effect in effects):
        first, second = transfer.directions
        terminal.line(
            f"No labels are {first} and {second}, so accuracy is shown and no flips. Map labels with --labels "
            f"LABEL={first},LABEL={second}."
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
    from pivotal.evidence.side_effects import bundled_phenomena, text_cost, with_others
    from pivotal.problem.text import sentences_of
    from pivotal.records.evidence import Evidence, Panel
    from pivotal.report.evidence import effects_table, text_sentence

    lm = saved.load_model()
    saved.note_means("Another phenomenon or text")
    sentences = None if text is None else sentences_of(text)
    name = "the bundled text" if text is None else text
    found = Panel(
        model=lm.name,
        phenomenon=saved.intervention.phenomenon,
        text=text_cost(saved.intervention, lm, sentences, name=name),
        effects=with_others(Evidence(), saved.intervention, lm, bundled_phenomena()).effects,
    )
    if json:
        terminal.as_json(found)
        return
    if found.text is not None:
        terminal.line(text_sentence(found.text))
    if (listed := effects_table(found.effects)) is not None:
        terminal.table(listed)


# -- scores ---------------------------------------------------------------------------------------------------------


def _score(
    saved: Saved,
    question: Question,
    lm: LanguageModel,
    pairs: PairSet,
    which: str,
    json: bool,
    trained: frozenset[str] | None = None,
) -> None:
    """All scores of the intervention on pairs with its labels. `trained` are the prefixes of the run's training pairs,
    if the pairs are of another question."""
    from pivotal.evidence.evaluation import evaluate as score
    from pivotal.evidence.side_effects import count_trained
    from pivotal.evidence.summarise import scores_row
    from pivotal.problem.prepare import problem_of

    problem = problem_of(question, lm, pairs)
    # The model was checked when it was loaded.
    scores = score(saved.intervention, problem, seed=question.seed, any_model=True)
    row: dict[str, Any] = {
        "model": lm.name,
        "phenomenon": pairs.name,
        "pairs": {"which": which, "asked": len(problem)},
        "rejected": problem.rejected.record(),
        **scores_row(scores),
        "clean_accuracy": scores.clean_accuracy,
    }
    if trained is not None:
        row["pairs"]["prefix_in_training"] = count_trained(problem.pairs, trained)
    if json:
        terminal.as_json(row)
        return
    for note in pairs.notes:
        terminal.line(note)
    _print(row, scores)


def _print(row: dict[str, Any], scores: Evaluation) -> None:
    from pivotal.report import tables

    called = {"test": "held-out ", "train": "training ", "all": ""}[row["pairs"]["which"]]
    low, high = row["interval"]
    trained = row["pairs"].get("prefix_in_training")
    terminal.result(
        f"{tables.counted(row['units'], 'unit')}: {tables.percent(row['flip_accuracy'])} of "
        f"{row['pairs']['asked']:,} {called}preferences of {row['phenomenon']} flipped in {row['model']} "
        f"(95% interval {tables.interval(low, high)}), "
        f"KL {tables.number(row['kl'])}, after the edit {tables.number(row['kl_after_edit'])}.",
        tables.skipped_sentence(row["rejected"]),
        _trained_sentence(trained, row["pairs"]["asked"]) if trained else "",
        tables.shares_table(scores),
        tables.drop_one_table(scores.drop_one, scores.flip_accuracy.value) if scores.drop_one else None,
    )
