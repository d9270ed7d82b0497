"""`pivotal evaluate`: score an intervention on held-out pairs or on other pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pivotal.cli import complete, shared_options, terminal
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.evidence.evaluation import Evaluation
    from pivotal.models import LanguageModel
    from pivotal.questions.pairs import PairSet
    from pivotal.questions.question import Question


def evaluate(
    run_folder: shared_options.Run,
    run: shared_options.WhichRun = None,
    model: shared_options.RunModel = None,
    priming: shared_options.RunPriming = None,
    any_model: shared_options.AnyModel = False,
    phenomenon: Annotated[
        str | None,
        shared_options.in_question(
            "Score on all pairs of this phenomenon or pairs file. Default: the run's held-out pairs.",
            autocompletion=complete.phenomena,
        ),
    ] = None,
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
) -> None:
    """Score an intervention: flipped preferences by direction and construction, KL, and what each unit adds."""
    from pivotal.cli.run_argument import Saved
    from pivotal.evidence.evaluation import evaluate as score
    from pivotal.evidence.summarise import scores_row
    from pivotal.problem.prepare import problem_of
    from pivotal.records.summary import Rejections

    if sentences is not None and not panel:
        raise PivotalError(
            f"--sentences is the text of --panel, but --panel was not given. Add --panel to read {sentences}."
        )
    saved = Saved.read(run_folder, run)
    question = saved.question(model, priming, dtype)
    if panel:
        if phenomenon is not None or part is not None:
            raise PivotalError("--panel asks every bundled phenomenon. Leave --phenomenon and --part out.")
        _panel(
            saved, saved.load_model(question, device, any_model, download=model is not None), sentences, json
        )
        return
    pairs, which = _pairs(saved, question, phenomenon, part)
    lm = saved.load_model(question, device, any_model, download=model is not None)
    problem = problem_of(question, lm, pairs)
    if problem.labels != saved.intervention.directions:
        raise PivotalError(
            f"This intervention flips to {' or '.join(saved.intervention.directions)}, but the pairs are "
            f"labelled {' and '.join(problem.labels)}. Use pairs with the same two labels in the same order."
        )
    scores = score(saved.intervention, problem, seed=question.seed, any_model=any_model)
    row: dict[str, Any] = {
        "model": lm.name,
        "phenomenon": pairs.name,
        "pairs": {"which": which, "asked": len(problem)},
        "rejected": Rejections(total=problem.rejected.total, reasons=dict(problem.rejected.reasons)),
        **scores_row(scores),
        "clean_accuracy": scores.clean_accuracy,
    }
    if json:
        terminal.as_json(row)
    else:
        _print(row, scores)


def _panel(saved: Saved, lm: LanguageModel, text: str | None, json: bool) -> None:
    """The effects on other phenomena and on ordinary text."""
    from pivotal.evidence.checks.text import sentences_of, text_cost
    from pivotal.evidence.collect import bundled_phenomena, effects_on_others
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


def _pairs(saved: Saved, question: Question, phenomenon: str | None, part: str | None) -> tuple[PairSet, str]:
    """The pairs to score on and what to call them."""
    from dataclasses import replace

    if phenomenon is not None and phenomenon != question.phenomenon:
        if part in ("test", "train"):
            raise PivotalError(
                f"The run never split '{phenomenon}', so it has no {part} part. "
                "Leave --part out: all its pairs are new."
            )
        return replace(question, phenomenon=phenomenon).load_pairs(), "all"
    pairs = question.load_pairs()
    if saved.folder is None:
        if part in ("test", "train"):
            raise PivotalError(
                "An intervention without its run does not know which pairs were held out. "
                "Give its run folder, or --part all."
            )
        return pairs, "all"
    if part == "all":  # possible even if the pairs have changed since the run
        return pairs, "all"
    train, test = saved.divided(question, pairs, cure="Score on all of them with --part all, or run again.")
    return (train, "train") if part == "train" else (test, "test")


def _print(row: dict[str, Any], scores: Evaluation) -> None:
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
    terminal.table(tables.shares_table(scores))
    if scores.drop_one:
        terminal.table(tables.drop_one_table(scores.drop_one, scores.flip_accuracy.value))
