"""`pivotal find`: the main job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, in_search
from pivotal.errors import PivotalError
from pivotal.evidence import CONTROLS
from pivotal.questions.question import JOINT, Question
from pivotal.units import KEEP_CHANGE, KEEP_KL, MAX_UNITS, Steps

if TYPE_CHECKING:
    from pivotal.searches.base import Search


@shared_options.takes_question
def find(
    ctx: typer.Context,
    more: Annotated[
        list[str] | None,
        argument(
            "Further questions with the same two labels. One intervention is found for all of them, and scored on "
            "each.",
            metavar="[QUESTION]...",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        in_search(
            "What must not change: another question, text for the bundled text, or a .txt file. --max-change bounds "
            f"the change of each question, --max-kl (default {KEEP_KL:g}) the KL of the text. May be repeated.",
            metavar="QUESTION",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    max_change: Annotated[
        float | None,
        in_search(
            "How far each question of --keep may change: the mean change of the probability of the expected word, "
            f"among the two words of a pair. Default: {KEEP_CHANGE:g}, two points of accuracy."
        ),
    ] = None,
    max_units: Annotated[
        float | None,
        in_search(
            "Maximum number of units, or a fraction of all units. "
            f"Default: {MAX_UNITS['every']} at every step, {MAX_UNITS['single']} at a single step."
        ),
    ] = None,
    max_kl: shared_options.MaxKL = None,
    kl_weight: shared_options.KLWeight = None,
    masks: Annotated[
        Literal["shared", "per-direction"] | None, in_search("One mask for both directions, or one for each.")
    ] = None,
    updates: Annotated[int | None, in_search("Number of optimisation steps.")] = None,
    runs: Annotated[int, in_search("Number of runs, with seeds S, S+1, …, computed together.", min=1)] = 1,
    search: Annotated[
        str, in_search("A name from `pivotal list searches`.", autocompletion=complete.searches)
    ] = "learned",
    preset: Annotated[
        str | None,
        in_search("A named set of options of the search, e.g. paper, which also means --values unbounded."),
    ] = None,
    option: Annotated[
        list[str] | None,
        in_search(
            "Any option of the search; `pivotal list searches` lists them. May be repeated.",
            "--option",
            "-o",
            metavar="NAME=VALUE",
        ),
    ] = None,
    controls: Annotated[
        int,
        in_search(
            "Random sets of the same size, with learned values, to compare the best run with. With fewer than 99 the "
            "verdict is 'nudge' at best, with fewer than 19 'no evidence'. For a finished run, missing sets are added.",
            min=0,
        ),
    ] = CONTROLS,
    evidence: Annotated[
        Literal["none", "quick", "full"],
        in_search(
            "How much is checked before the verdict. full repeats the search with permuted labels and with shuffled "
            "weights, and tests other phenomena. For a finished run, the missing checks are added."
        ),
    ] = "quick",
    device: shared_options.Device = None,
    batch_nodes: shared_options.BatchNodes = None,
    out: Annotated[
        str | None,
        in_output(
            "The run folder. Default: runs/PHENOMENON-STEPS-MODEL. An unfinished run is resumed.",
            metavar="DIR",
        ),
    ] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **question: Any,
) -> None:
    """Find the units that decide a phenomenon, evaluate them on held-out pairs, and write a report.

    Without arguments: number agreement in the bundled LSTM. Ctrl-C saves a checkpoint; the same command resumes the
    run. If the run is finished, its result is shown again, with the random sets and checks that it lacked.
    """
    from pivotal.cli.show import print_result
    from pivotal.jobs.find import find as solve
    from pivotal.report.page import write_report
    from pivotal.searches import preset_values
    from pivotal.watch import display

    question["phenomenon"] = JOINT.join([question["phenomenon"], *(more or ())])
    if shared_options.is_default(ctx, "values"):
        question |= preset_values(search, preset)
    if not all(one.strip() for one in keep or ()):
        raise PivotalError(
            "--keep names what must not change, but it is empty. Name a question or text, or leave it out."
        )
    asking = Question(**question, keep=JOINT.join(keep or ())).checked()
    given = {
        "max_units": max_units,
        "max_kl": max_kl,
        "max_change": max_change,
        "kl_weight": kl_weight,
        "masks": masks,
        "updates": updates,
    }
    given = {name: value for name, value in given.items() if value is not None}
    chosen = build_search(search, preset, given, option or [], asking.steps)
    with display(quiet) as watching:
        found = solve(
            asking,
            chosen,
            runs=runs,
            controls=controls,
            evidence=evidence,
            out=out,
            overwrite=overwrite,
            device=device,
            batch_nodes=batch_nodes,
            command=terminal.command(),
            watch=watching,
            report=write_report,
        )
    folder = found.folder
    if found.already:
        terminal.note(f"This run was already finished: {folder.path}. Use --overwrite to run it again.")
    if json:
        terminal.as_json(found.summary)
        return
    print_result(found.summary, quiet)
    place = "The run folder is" if found.already else "Written to"
    terminal.line(f"{place} {folder.path}; read {folder.report}")


def build_search(
    name: str, preset: str | None, given: dict[str, Any], options: Sequence[str], steps: Steps
) -> Search:
    """The search with its settings: those of the preset, overridden by the options."""
    from pivotal.searches import choose

    for text in options:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise PivotalError(
                f"An option is written -o NAME=VALUE, e.g. -o max_units=3, but '{text}' was given."
            )
        if key in given:
            raise PivotalError(f"'{key}' was given twice, by -o or by an option of its own. Give it once.")
        given[key] = value
    return choose(name, preset, given, steps)
