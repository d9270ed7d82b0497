"""`pivotal eval-lm`: how good language models are, beside the figures that were published of the paper's."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pivotal.cli import asked, show, typed
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.lm.assess import Assessment
    from pivotal.report.tables import Table


def eval_lm(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Names of `pivotal list models`, or folders: DIR/seed-* for all seeds."
        ),
    ],
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Perplexity on this text, a sentence per line; also .gz, .xz and .zst. For recurrent models.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Read no more than so many tokens of the text.")
    ] = None,
    lakretz: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also agreement on the NA tasks of Lakretz et al. (2019)."),
    ] = None,
    gulordava: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also agreement on the generated.tab of Gulordava et al. (2018)."),
    ] = None,
    device: asked.Device = None,
    dtype: asked.Dtype = None,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all figures there as JSON too; - prints them instead."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Evaluate language models: perplexity on a text, and how often they prefer the verb that agrees."""
    from pivotal.cli.train_lm import watching
    from pivotal.lm.assess import assess
    from pivotal.models import load_model

    if tokens is not None and text is None:
        raise PivotalError("--tokens says how much of a text is read, but there is no --text. Give one.")
    printed = json is not None and str(json) == "-"
    if json is not None and not json.parent.is_dir():
        raise PivotalError(f"{json} cannot be written: there is no folder {json.parent}. Make it first.")
    phenomena = ["number-agreement"]
    phenomena += [f"lakretz:{lakretz}"] if lakretz is not None else []
    phenomena += [f"gulordava:{gulordava}"] if gulordava is not None else []
    found = []
    with watching(quiet or printed) as watch:
        # All of them first: a name that is mistyped shows before the long work begins.
        loaded = [load_model(spec, device=device, dtype=dtype) for spec in models]
        for spec, model in zip(models, loaded, strict=True):
            done = assess(model, phenomena=phenomena, text=text, tokens=tokens, watch=watch)
            found.append(dataclasses.replace(done, model=_short(spec, models)))
    figures = {"command": typed.command(), "models": [_figures(one) for one in found]}
    if json is not None and not printed:
        _write(json, figures)
    if printed:
        show.as_json(figures)
    else:
        _print(found, wanted_text=text is not None)


def _short(spec: str, models: Sequence[str]) -> str:
    """The last part of a path, if that tells the models apart."""
    last = [Path(one).name for one in models]
    return Path(spec).name if len(set(last)) == len(set(models)) else spec


def _figures(one: Assessment) -> dict[str, Any]:
    """An assessment as JSON has it, with the published figures beside."""
    from pivotal.lm.assess import PUBLISHED

    figures = dataclasses.asdict(one)
    for agreement, row in zip(one.agreement, figures["agreement"], strict=True):
        for name, share in agreement.shares.items():
            row["shares"][name] |= {
                "value": share.value,
                "published": PUBLISHED.get((agreement.phenomenon, name)),
            }
    return figures


def _write(path: Path, figures: dict[str, Any]) -> None:
    import json

    from pivotal.files import write_atomically

    content = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    try:
        write_atomically(path, lambda partial: partial.write_text(content, encoding="utf-8"))
    except OSError as error:
        raise PivotalError(f"{path} cannot be written ({error.strerror}). Give another file.") from None


# -- tables ---------------------------------------------------------------------------------------------------------


def _print(found: Sequence[Assessment], wanted_text: bool) -> None:
    read = [one for one in found if one.perplexity is not None]
    if read:
        show.table(perplexity_table(read))
    for i in range(len(found[0].agreement)):
        show.table(agreement_table(found, i))
    others = [one.model for one in found if one.perplexity is None]
    if wanted_text and others:
        names = ", ".join(others)
        show.line(f"A text is read by recurrent models only: there is no perplexity of {names}.", style="dim")
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
    """One phenomenon: a row per construction, a column per model, and what was published."""
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
            notes.append(f"{one.model} cannot be asked {some}: words it does not know.")
        if agreement.with_unk:
            read = counted(agreement.with_unk, "pair")
            notes.append(f"In {read} {one.model} reads some word of the prefix as <unk>.")
    if any(name.endswith(" SP") for one in found for name in one.agreement[which].shares):
        notes.append("SP: a singular subject, and a plural noun between it and the verb.")
    if published:
        notes.append(
            "Published: the model of Gulordava et al. (2018), on all their sentences, and on 4,000 of nounpp."
        )
    return notes
