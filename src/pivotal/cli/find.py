"""`pivotal find`: the main job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import SEARCH, argument, in_search
from pivotal.errors import PivotalError
from pivotal.evidence import CONTROLS
from pivotal.options import check_least
from pivotal.questions.question import JOINT, Question


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search by name. None leaves an option at the default of the search."""

    help_panel: ClassVar[str] = SEARCH

    max_change: float | None = None
    """How far each question of --keep may change: the mean change in the probability of the expected word, among the
    two words of a pair. Default: 0.02."""
    max_units: float | None = None
    """Maximum number of units, or a fraction of all units. Default: 4 at every step, 5 at a single step."""
    max_kl: float | None = None
    """Upper bound on the KL divergence between the untouched and the edited predictions, averaged over all
    positions."""
    kl_weight: float | None = None
    """Weight of the KL divergence in the loss. --max-kl is a stricter alternative."""
    masks: Literal["shared", "per-direction"] | None = None
    """One mask for both directions, or one per direction."""
    updates: int | None = None
    """Number of optimisation steps."""


@dataclass(frozen=True)
class FindOptions:
    help_panel: ClassVar[str] = SEARCH

    keep: list[str] | None = None
    """What must not change: another question, `text` (the bundled text), or a .txt file. --max-change bounds the change
    of each question, --max-kl (default 0.02) the KL of the text. May be repeated."""
    runs: int = 1
    """Number of runs, with consecutive seeds. The seed determines which training pairs units are chosen on, and the
    noise of the search, if any."""
    search: str | None = None
    """A name from `pivotal list searches`. Default: exchange, or learned with a preset or an option that only learned
    has."""
    preset: str | None = None
    """A named set of options of the search, e.g. paper, which also means --values unbounded."""
    controls: int = CONTROLS
    """Number of random sets of the same size, with learned values, that the best run is compared with. With fewer than
    99 the verdict is 'nudge' at best, with fewer than 19 'no evidence'. Missing sets are added to a finished run."""
    evidence: Literal["none", "quick", "full"] = "quick"
    """How much is checked before the verdict. none: only held-out scores and random sets. quick: every check but
    permuted labels and other phenomena. full: these two and redundancy as well. Missing checks are added to a finished
    run."""
    batch_nodes: int | None = None
    """Memory bound of a transformer: how many prefixes, times runs, are computed at once. Default: 4096, or
    fewer for a large model on a CPU."""
    out: str | None = None
    """The run folder. Default: runs/PHENOMENON-STEPS-MODEL, or that name with -2, -3 … if a run with other settings is
    there. An unfinished run is resumed."""
    overwrite: bool = False
    """Remove the files of the run in the folder, and run again. Other files stay."""
    force: bool = False
    """Search even with fewer than two prefixes in the training or the held-out part, or if the model can score no pair
    of one of several questions."""

    def __post_init__(self) -> None:
        check_least(self, batch_nodes=1)


@shared_options.takes_options
def find(
    ctx: typer.Context,
    question: Question,
    options: FindOptions,
    bounds: SearchOptions,
    more: Annotated[
        list[str] | None,
        argument(
            "Further questions with the same two labels. The search finds one intervention for all.",
            metavar="[QUESTION]...",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        in_search(
            "Any option of the search; `pivotal list searches` lists them. May be repeated.",
            *("--option", "-o"),
            metavar="NAME=VALUE",
        ),
    ] = None,
    device: shared_options.Device = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Find the units that switch a phenomenon, score them on held-out pairs, and write a report.

    Without arguments, the question is number agreement in the bundled LSTM. Ctrl-C saves a checkpoint, and the same
    command resumes the run. Repeated after the run, it adds missing controls and checks, and shows the result.
    """
    from pivotal.cli.show import print_result
    from pivotal.jobs.find import find as solve
    from pivotal.report.page import write_report
    from pivotal.searches import choose, default_search, preset_values
    from pivotal.watch import display

    stated = {name: value for name, value in vars(bounds).items() if value is not None}
    given = with_options(stated, option or [])
    search = options.search or default_search(options.preset, given)
    asked: dict[str, Any] = {"phenomenon": JOINT.join([question.phenomenon, *(more or ())])}
    if shared_options.is_default(ctx, "values"):
        asked |= preset_values(search, options.preset)
    keep = options.keep or []
    if not all(one.strip() for one in keep):
        raise PivotalError("--keep is empty. Name a question or text that must not change, or leave it out.")
    other = {name: value for name, value in vars(options).items() if name not in ("keep", "search", "preset")}
    told: dict[str, Any] = {"command": terminal.command(), "report": write_report}
    question = replace(question, **asked, keep=JOINT.join(keep)).checked()
    with display(quiet) as watching:
        chosen = choose(search, options.preset, given)
        found = solve(question, chosen, **other, device=device, watch=watching, **told)
    folder = found.folder
    if found.already:
        terminal.note(f"This run was already finished: {folder.path}. Use --overwrite to run it again.")
    if json:
        terminal.as_json(found.summary)
        return
    print_result(folder, found.summary, quiet)
    place = "The run folder is" if found.already else "Written to"
    terminal.line(f"{place} {folder.path}; read {folder.report}")


def with_options(given: dict[str, Any], options: Sequence[str]) -> dict[str, Any]:
    """The settings of a search with those that were written -o NAME=VALUE."""
    for text in options:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise PivotalError(f"An option is written -o NAME=VALUE, e.g. -o max_units=3, not '{text}'.")
        if key in given:
            raise PivotalError(f"'{key}' was given twice, by -o or by an option of its own. Give it once.")
        given[key] = value
    return given
