"""`pivotal eval-lm`: how good language models are, beside published figures."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument
from pivotal.errors import PivotalError
from pivotal.options import check_least
from pivotal.questions.question import Dtype

if TYPE_CHECKING:
    from pivotal.lm.assess import Agreement, Assessment
    from pivotal.report.tables import Table


@dataclass(frozen=True)
class AssessOptions:
    text: Path | None = None
    """Measure perplexity on this text, one sentence per line; may be .gz, .xz or .zst. For recurrent models."""
    tokens: int | None = None
    """Read at most this many tokens of the text."""
    pairs: list[str] | None = None
    """Also measure agreement on these pairs. May be repeated."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    dtype: Dtype | None = None
    """Number format of the model; half precision needs a GPU."""

    def __post_init__(self) -> None:
        check_least(self, tokens=1)


@shared_options.takes_options
def eval_lm(
    models: Annotated[
        list[str],
        argument(
            "Names from `pivotal list models`, or folders: DIR/seed-* for all seeds.",
            metavar="MODEL...",
            autocompletion=complete.models,
        ),
    ],
    options: AssessOptions,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Evaluate language models: perplexity on a text, and how often they prefer the verb that agrees."""
    from pivotal.lm.assess import assess
    from pivotal.models import load_model
    from pivotal.watch import display

    text = options.text
    if options.tokens is not None and text is None:
        raise PivotalError("--tokens limits how much of the text is read, but there is no --text. Give one.")
    phenomena = ["number-agreement", *(options.pairs or [])]
    assessments = []
    with display(quiet) as watch:
        # All models are loaded first, so that a mistyped name shows before the long work begins.
        loaded = [load_model(spec, device=options.device, dtype=options.dtype) for spec in models]
        last = [Path(spec).name for spec in models]
        names = last if len(set(last)) == len(set(models)) else models
        for name, model in zip(names, loaded, strict=True):
            done = assess(model, phenomena=phenomena, text=text, tokens=options.tokens, watch=watch)
            assessments.append(dataclasses.replace(done, model=name))
    if json:
        models_shown = list(map(dataclasses.asdict, assessments))
        terminal.as_json({"command": terminal.command(), "models": models_shown})
        return
    if text is not None:
        _print_perplexity(assessments)
    for i in range(len(phenomena)):
        terminal.table(_agreement_table([(done.model, done.agreement[i]) for done in assessments]))


# -- tables ---------------------------------------------------------------------------------------------------------


def _print_perplexity(assessments: Sequence[Assessment]) -> None:
    from pivotal.report.tables import table

    read = [(done.model, done.perplexity) for done in assessments if done.perplexity is not None]
    if read:
        figures = [figure for _, figure in read]
        columns = [(figure.all, figure.without_unk, 100 * figure.unk_share) for figure in figures]
        names = ("all targets", "targets other than <unk>", "<unk> in 100 targets")
        rows = [
            (name, *_cells(row, "{:.2f}"))
            for name, row in zip(names, zip(*columns, strict=True), strict=True)
        ]
        title = f"Perplexity on {figures[0].tokens:,} tokens of {figures[0].text}"
        terminal.table(table(title, ("", *_heads([name for name, _ in read])), rows))
    if others := ", ".join(done.model for done in assessments if done.perplexity is None):
        terminal.line(f"Perplexity is measured for recurrent models only, not for {others}.", style="dim")


def _agreement_table(measured: Sequence[tuple[str, Agreement]]) -> Table:
    """One phenomenon: a row per construction, a column per model, and the published figures."""
    from pivotal.report.tables import percent, table

    groups = dict.fromkeys(["all", *(name for _, one in measured for name in one.shares)])
    stated = {name: s.published for _, one in measured for name, s in one.shares.items() if s.published}
    rows = []
    for group in groups:
        shares = [one.shares.get(group) for _, one in measured]
        counts = sorted({share.n for share in shares if share is not None}) or [0]
        row = [group, "–".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))]
        row += _cells([None if share is None else 100 * share.value for share in shares], "{:.1f}", "%")
        rows.append((*row, *([percent(stated.get(group))] if stated else [])))
    heads = ("", "pairs", *_heads([name for name, _ in measured]), *(["published"] if stated else []))
    notes = [note for name, one in measured for note in _notes(name, one)]
    if any(name.endswith(" SP") for name in groups):
        notes.append("SP: a singular subject, with a plural noun between it and the verb.")
    if stated:
        notes.append(
            "Published: the model of Gulordava et al. (2018) on all their sentences, and on 4,000 sentences of nounpp."
        )
    return table(f"Agreement: {measured[0][1].phenomenon}", heads, rows, note=" ".join(notes))


def _heads(models: Sequence[str]) -> list[str]:
    return [*models, *(["mean ± sd"] if len(models) > 1 else [])]


def _cells(values: Sequence[float | None], form: str, unit: str = "") -> list[str]:
    """A cell per model and, for several models, the mean and the standard deviation."""
    cells = ["–" if value is None else form.format(value) + unit for value in values]
    known = [value for value in values if value is not None]
    if len(values) < 2:
        return cells
    mean = f"{form} ± {form}".format(statistics.mean(known), statistics.stdev(known)) if known[1:] else "–"
    return [*cells, mean]


def _notes(model: str, agreement: Agreement) -> Iterator[str]:
    from pivotal.printing import counted

    if not agreement.shares:
        yield from agreement.rejected
    elif rejected := sum(agreement.rejected.values()):
        reason = max(agreement.rejected, key=lambda reason: agreement.rejected[reason])
        yield f"{model} cannot score {counted(rejected, 'pair')}; the most common reason: {reason}."
    if agreement.with_unk:
        yield f"In {counted(agreement.with_unk, 'pair')}, {model} reads a word of the prefix as <unk>."
