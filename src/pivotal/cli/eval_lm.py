"""`pivotal eval-lm`: how good language models are, beside published figures."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import complete, shared_options, terminal
from pivotal.errors import PivotalError
from pivotal.files import check_output, write_text

if TYPE_CHECKING:
    from pivotal.lm.assess import Assessment
    from pivotal.report.tables import Table


def eval_lm(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Names from `pivotal list models`, or folders: DIR/seed-* for all seeds.",
            autocompletion=complete.models,
            show_default=False,
        ),
    ],
    text: Annotated[
        Path | None,
        shared_options.in_question(
            "Measure perplexity on this text, one sentence per line; may be .gz, .xz or .zst. "
            "For recurrent models.",
            metavar="FILE",
        ),
    ] = None,
    tokens: Annotated[
        int | None, shared_options.in_question("Read at most this many tokens of the text.", min=1)
    ] = None,
    lakretz: Annotated[
        Path | None,
        shared_options.in_question(
            "Also measure agreement on the NA tasks of Lakretz et al. (2019).", metavar="DIR"
        ),
    ] = None,
    gulordava: Annotated[
        Path | None,
        shared_options.in_question(
            "Also measure agreement on generated.tab of Gulordava et al. (2018).", metavar="FILE"
        ),
    ] = None,
    device: shared_options.Device = None,
    dtype: shared_options.Dtype = None,
    out: Annotated[
        Path | None, shared_options.in_output("Also write all figures to this JSON file.", metavar="FILE")
    ] = None,
    overwrite: shared_options.OverwriteFile = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Evaluate language models: perplexity on a text, and how often they prefer the verb that agrees."""
    from pivotal.lm.assess import assess
    from pivotal.models import load_model
    from pivotal.records.serial import encode
    from pivotal.watch import display

    if tokens is not None and text is None:
        raise PivotalError("--tokens limits how much of the text is read, but there is no --text. Give one.")
    if out is not None:
        check_output(out, overwrite=overwrite)
    phenomena = ["number-agreement"]
    phenomena += [f"lakretz:{lakretz}"] if lakretz is not None else []
    phenomena += [f"gulordava:{gulordava}"] if gulordava is not None else []
    found = []
    with display(quiet) as watch:
        # All models are loaded first, so that a mistyped name shows before the long work begins.
        loaded = [load_model(spec, device=device, dtype=dtype) for spec in models]
        for spec, model in zip(models, loaded, strict=True):
            done = assess(model, phenomena=phenomena, text=text, tokens=tokens, watch=watch)
            found.append(dataclasses.replace(done, model=_short(spec, models)))
    figures = {"command": terminal.command(), "models": [_figures(one) for one in found]}
    if out is not None:
        write_text(out, encode(figures) + "\n")
    if json:
        terminal.as_json(figures)
    else:
        _print(found, wanted_text=text is not None)


def _short(spec: str, models: Sequence[str]) -> str:
    """The last part of a path, if it is different for all models."""
    last = [Path(one).name for one in models]
    return Path(spec).name if len(set(last)) == len(set(models)) else spec


def _figures(one: Assessment) -> dict[str, Any]:
    """An assessment as JSON, with the published figures added."""
    from pivotal.lm.assess import PUBLISHED

    figures = dataclasses.asdict(one)
    for agreement, row in zip(one.agreement, figures["agreement"], strict=True):
        for name, share in agreement.shares.items():
            row["shares"][name] |= {
                "value": share.value,
                "published": PUBLISHED.get((agreement.phenomenon, name)),
            }
    return figures


# -- tables ---------------------------------------------------------------------------------------------------------


def _print(found: Sequence[Assessment], wanted_text: bool) -> None:
    read = [one for one in found if one.perplexity is not None]
    if read:
        terminal.table(perplexity_table(read))
    for i in range(len(found[0].agreement)):
        terminal.table(agreement_table(found, i))
    others = [one.model for one in found if one.perplexity is None]
    if wanted_text and others:
        names = ", ".join(others)
        terminal.line(
            f"Only recurrent models read a text, so there is no perplexity for {names}.", style="dim"
        )
    sys.stdout.flush()


def perplexity_table(found: Sequence[Assessment]) -> Table:
    from pivotal.report.tables import table

    figures = [one.perplexity for one in found if one.perplexity is not None]
    rows = [
        ("all targets", [f.all for f in figures]),
        ("targets other than <unk>", [f.without_unk for f in figures]),
        ("<unk> in 100 targets", [100 * f.unk_share for f in figures]),
    ]
    cells = [
        (name, *(f"{v:.2f}" for v in values), *([_mean(values, "{:.2f}")] if len(found) > 1 else []))
        for name, values in rows
    ]
    title = f"Perplexity on {figures[0].tokens:,} tokens of {figures[0].text}"
    return table(title, ("", *_heads(found)), cells)


def agreement_table(found: Sequence[Assessment], which: int) -> Table:
    """One phenomenon: a row per construction, a column per model, and the published figures."""
    from pivotal.lm.assess import PUBLISHED
    from pivotal.report.tables import percent, table

    first = found[0].agreement[which]
    names = list(dict.fromkeys(["all", *(name for one in found for name in one.agreement[which].shares)]))
    published = any((first.phenomenon, name) in PUBLISHED for name in names)
    rows = []
    for name in names:
        shares = [one.agreement[which].shares.get(name) for one in found]
        values = [share.value for share in shares if share is not None]
        counts = sorted({share.n for share in shares if share is not None}) or [0]
        row = [name, "–".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))]
        row += [percent(share.value if share is not None else None) for share in shares]
        row += [_mean([100 * value for value in values], "{:.1f}")] if len(found) > 1 else []
        rows.append((*row, *([percent(PUBLISHED.get((first.phenomenon, name)))] if published else [])))
    columns = ("", "pairs", *_heads(found), *(["published"] if published else []))
    title = f"Agreement: {first.phenomenon}"
    return table(title, columns, rows, note=" ".join(_notes(found, which, published)))


def _heads(found: Sequence[Assessment]) -> tuple[str, ...]:
    return (*(one.model for one in found), *(["mean ± sd"] if len(found) > 1 else []))


def _mean(values: Sequence[float], form: str) -> str:
    if len(values) < 2:
        return "–"
    return f"{form.format(statistics.mean(values))} ± {form.format(statistics.stdev(values))}"


def _notes(found: Sequence[Assessment], which: int, published: bool) -> list[str]:
    from pivotal.report.tables import counted

    notes = []
    for one in found:
        agreement = one.agreement[which]
        rejected = sum(agreement.rejected.values())
        if rejected:
            some = counted(rejected, "pair") if agreement.shares else f"any of the {rejected:,} pairs"
            reason, _ = max(agreement.rejected.items(), key=lambda item: item[1])
            notes.append(f"{one.model} cannot be asked {some}; the most common reason: {reason}.")
        if agreement.with_unk:
            read = counted(agreement.with_unk, "pair")
            notes.append(f"In {read}, {one.model} reads a word of the prefix as <unk>.")
    if any(name.endswith(" SP") for one in found for name in one.agreement[which].shares):
        notes.append("SP: a singular subject, with a plural noun between it and the verb.")
    if published:
        notes.append(
            "Published: the model of Gulordava et al. (2018) on all their sentences, and on 4,000 sentences of nounpp."
        )
    return notes
