"""`pivotal evaluate`: score an intervention on held-out pairs or on other pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.evidence.evaluation import Evaluation
    from pivotal.models import LanguageModel
    from pivotal.questions.pairs import PairSet
    from pivotal.questions.question import Question
    from pivotal.questions.readers import Part


@shared_options.takes_fields_of_question("lower", "unknown", "columns", "skip_bad")
def evaluate(
    ctx: typer.Context,
    run_folder: shared_options.Run,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION",
            help="Another phenomenon, pairs file or name:PATH to score on; a folder such as blimp:FOLDER gives a "
            "table. Default: the run's held-out pairs.",
            autocompletion=complete.phenomena,
            show_default=False,
        ),
    ] = None,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    priming: shared_options.RunPriming = None,
    any_model: shared_options.AnyModel = False,
    phenomenon: Annotated[
        str | None,
        shared_options.in_question(
            "The same as the argument QUESTION.",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    labels: Annotated[
        str,
        shared_options.in_question(
            "Which labels of the other question are which of the intervention, e.g. he=male,she=female.",
            metavar="LABEL=LABEL,…",
        ),
    ] = "",
    part: Annotated[
        Literal["test", "train", "all"] | None,
        shared_options.in_question(
            "Which pairs: held-out pairs, training pairs, or all. Default: test; all for another phenomenon."
        ),
    ] = None,
    panel: Annotated[
        bool,
        shared_options.in_question(
            "Ask every other bundled phenomenon and read ordinary text with the intervention applied.",
            "--panel",
        ),
    ] = False,
    sentences: Annotated[
        str | None,
        shared_options.in_question(
            "With --panel: a text of your own instead of the bundled one, a sentence per line.",
            metavar="FILE",
        ),
    ] = None,
    device: shared_options.Device = None,
    dtype: shared_options.RunDtype = None,
    json: shared_options.Json = False,
    **reading: Any,
) -> None:
    """Score an intervention: flipped preferences by direction and construction, KL, and what each unit adds.

    On a question with other labels, the accuracy of the model is shown before and after the edit.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.questions.relabel import parse_labels

    if other is not None and phenomenon is not None:
        raise PivotalError(
            f"QUESTION and --phenomenon are the same, but both were given: {other} and {phenomenon}."
        )
    phenomenon = phenomenon if other is None else other
    if phenomenon is not None and not phenomenon.strip():
        raise PivotalError(
            "QUESTION is a phenomenon or a file, but it is empty. Name one, or leave it out to score the run's pairs."
        )
    reading = {name: value for name, value in reading.items() if not shared_options.is_default(ctx, name)}
    if sentences is not None and not panel:
        raise PivotalError(
            f"--sentences is the text of --panel, but --panel was not given. Add --panel to read {sentences}."
        )
    saved = Saved.read(run_folder, run)
    question = saved.question(model, priming, dtype)
    if panel:
        _check_panel({"QUESTION": phenomenon, "part": part, "labels": labels or None, **reading})
        saved.note_means("Another phenomenon or text")
        _panel(
            saved, saved.load_model(question, device, any_model, download=model is not None), sentences, json
        )
        return
    if saved.folder is None and part in ("test", "train"):
        raise PivotalError(
            "An intervention without its run does not know which pairs were held out. "
            "Give its run folder, or --part all."
        )
    # Files are read before the model is loaded, which may take long.
    if phenomenon is not None and not _is_own(saved, question, phenomenon):
        own, question = question, _elsewhere(question, phenomenon, part, reading)
        parts, mapping = question.load_parts(), parse_labels(labels)
        lm = saved.load_model(question, device, any_model, download=model is not None)
        _score_other(saved, question, lm, parts, mapping, _trained_prefixes(saved, own, lm), any_model, json)
        return
    if labels:
        raise PivotalError("--labels is for another question, but none was given.")
    _check_own_reading(saved, question, reading)
    pairs = _checked_pairs(saved, question, part)
    lm = saved.load_model(question, device, any_model, download=model is not None)
    chosen, which = _chosen(saved, question, lm, pairs, part)
    _score(saved, question, lm, chosen, which, any_model, json)


def _flag(name: str) -> str:
    return name if name.isupper() else f"--{name.replace('_', '-')}"


def _check_panel(options: dict[str, Any]) -> None:
    """Raise PivotalError if the user has chosen a question, or how it is read. `options` are None if not given."""
    if given := [_flag(name) for name, value in options.items() if value is not None]:
        raise PivotalError(
            f"--panel asks all pairs of every bundled phenomenon. Leave {' and '.join(given)} out."
        )


def _check_own_reading(saved: Saved, question: Question, reading: dict[str, Any]) -> None:
    """Raise PivotalError if the run's own question is to be read in another way than in the run."""
    if given := [_flag(name) for name, value in reading.items() if value != getattr(question, name)]:
        cure = f"Leave {' and '.join(given)} out."
        if saved.folder is None:
            cure = f"Name the question, too: `pivotal evaluate {saved.path} QUESTION`."
        raise PivotalError(
            f"{given[0]} says how another question is read, but the run's own is read as in the run. {cure}"
        )


def _is_own(saved: Saved, question: Question, phenomenon: str) -> bool:
    """Whether the user has named the run's own question, in any spelling of its files. An intervention without its run
    has only a name for it, which may be that of another file, so what the user names is read."""
    from pivotal.questions.phenomena import place_of
    from pivotal.questions.question import names_of

    there, here = (list(map(place_of, names_of(name))) for name in (question.phenomenon, phenomenon))
    return saved.folder is not None and there == here


def _trained_prefixes(saved: Saved, question: Question, lm: LanguageModel) -> frozenset[str] | None:
    """The prefixes of the run's training pairs, as the model reads them. If they are not known, the user is told."""
    from pivotal.problem.prepare import as_read

    try:
        pairs = question.load_pairs()
        train, _ = saved.divided(question, pairs, "", as_read(question, lm, pairs))
    except PivotalError as error:
        terminal.note(
            f"pivotal cannot say how many of these pairs share a prefix with the training pairs. {error}".strip()
        )
        return None
    return frozenset(pair.prefix for pair in train)


def _elsewhere(question: Question, phenomenon: str, part: str | None, reading: dict[str, Any]) -> Question:
    """The other question. It is read in the case and with the unknown words of the run, unless the user says otherwise.
    `reading` holds what the user has given."""
    from dataclasses import replace

    if part in ("test", "train"):
        raise PivotalError(
            f"The run never split '{phenomenon}' by itself, so it has no {part} part. "
            "Leave --part out to score all its pairs."
        )
    of_its_own_file = {"labels": "", "columns": "", "skip_bad": False}
    return replace(question, phenomenon=phenomenon, **{**of_its_own_file, **reading})


def _score_other(
    saved: Saved,
    question: Question,
    lm: LanguageModel,
    parts: list[Part],
    labels: dict[str, str],
    trained: frozenset[str] | None,
    any_model: bool,
    json: bool,
) -> None:
    """All scores if one question has the labels of the intervention, or else the accuracy before and after."""
    from pivotal.cli.transfer import print_transfer, score_transfer
    from pivotal.problem.prepare import as_read
    from pivotal.questions.relabel import relabelled

    if len(parts) == 1 and parts[0].pairs is not None:
        mapped = relabelled(parts[0].pairs, saved.intervention.directions, labels)
        if mapped is not None:
            _score(saved, question, lm, as_read(question, lm, mapped), "all", any_model, json, trained)
            return
    saved.note_means("A question with other labels")
    found = score_transfer(saved.intervention, lm, question, parts, labels, trained)
    if all(row.effect is None for row in found.rows):
        raise PivotalError(f"{question.phenomenon} cannot be asked: {found.rows[0].reason}")
    if json:
        terminal.as_json(found)
    else:
        print_transfer(found)


def _score(
    saved: Saved,
    question: Question,
    lm: LanguageModel,
    pairs: PairSet,
    which: str,
    any_model: bool,
    json: bool,
    trained: frozenset[str] | None = None,
) -> None:
    """All scores of the intervention on pairs with its labels. `trained` are the prefixes of the run's training pairs,
    if the pairs are of another question."""
    from pivotal.cli.transfer import count_trained
    from pivotal.evidence.evaluation import evaluate as score
    from pivotal.evidence.summarise import scores_row
    from pivotal.problem.prepare import problem_of
    from pivotal.records.summary import Rejections

    problem = problem_of(question, lm, pairs)
    scores = score(saved.intervention, problem, seed=question.seed, any_model=any_model)
    row: dict[str, Any] = {
        "model": lm.name,
        "phenomenon": pairs.name,
        "pairs": {"which": which, "asked": len(problem)},
        "rejected": Rejections(total=problem.rejected.total, reasons=dict(problem.rejected.reasons)),
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


def _panel(saved: Saved, lm: LanguageModel, text: str | None, json: bool) -> None:
    """The effects on other phenomena and on ordinary text."""
    from pivotal.evidence.checks.text import text_cost
    from pivotal.evidence.collect import bundled_phenomena, effects_on_others
    from pivotal.problem.text import sentences_of
    from pivotal.records.evidence import Panel
    from pivotal.report.evidence import effects_table, text_sentence

    sentences = None if text is None else sentences_of(text)
    name = "the bundled text" if text is None else text
    found = Panel(
        model=lm.name,
        phenomenon=saved.intervention.phenomenon,
        text=text_cost(saved.intervention, lm, sentences, name=name),
        effects=tuple(effects_on_others(saved.intervention, lm, bundled_phenomena())),
    )
    if json:
        terminal.as_json(found)
        return
    if found.text is not None:
        terminal.line(text_sentence(found.text))
    if (listed := effects_table(found.effects)) is not None:
        terminal.table(listed)


def _checked_pairs(saved: Saved, question: Question, part: str | None) -> PairSet:
    """All pairs of the run's own question."""
    saved.note_pairs()
    pairs = question.load_pairs()
    if saved.folder is None:
        cure = f"Name them: `pivotal evaluate {saved.path} QUESTION`."
        saved.intervention.check_pairs(pairs.fingerprint(), cure)
    elif part != "all":
        saved.divided(question, pairs, _CURE)
    return pairs


_CURE = "Score on all of them with --part all, or run again."


def _chosen(
    saved: Saved, question: Question, lm: LanguageModel, pairs: PairSet, part: str | None
) -> tuple[PairSet, str]:
    """The pairs to score on, as the model reads them, and what to call them."""
    from pivotal.problem.prepare import as_read

    read = as_read(question, lm, pairs)
    if saved.folder is None or part == "all":  # all is possible even if the pairs have changed since the run
        return read, "all"
    train, test = saved.divided(question, pairs, _CURE, read)
    return (train, "train") if part == "train" else (test, "test")


def _print(row: dict[str, Any], scores: Evaluation) -> None:
    from pivotal.cli.transfer import trained_sentence
    from pivotal.report import tables

    called = {"test": "held-out ", "train": "training ", "all": ""}[row["pairs"]["which"]]
    low, high = row["interval"]
    terminal.line(
        f"{tables.counted(row['units'], 'unit')}: {tables.percent(row['flip_accuracy'])} of "
        f"{row['pairs']['asked']:,} {called}preferences of {row['phenomenon']} flipped in {row['model']} "
        f"(95% interval {tables.interval(low, high)}), "
        f"KL {tables.number(row['kl'])}, after the edit {tables.number(row['kl_after_edit'])}.",
        style="bold",
    )
    if skipped := tables.skipped_sentence(row["rejected"]):
        terminal.line(skipped)
    if trained := row["pairs"].get("prefix_in_training"):
        terminal.line(trained_sentence(trained, row["pairs"]["asked"]))
    terminal.table(tables.shares_table(scores))
    if scores.drop_one:
        terminal.table(tables.drop_one_table(scores.drop_one, scores.flip_accuracy.value))
