"""`pivotal train-lm`: train a recurrent language model. Its options are the fields of `lm.recipes.Settings`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from pivotal.cli import asked, terminal, typed
from pivotal.lm.recipes import FLAGS, RECIPES, SNAPSHOTS_HELP, Settings, settings_of
from pivotal.lm.watch import Silent, TrainingLines, TrainingProgress, TrainingWatch, duration
from pivotal.options import Option, options_of
from pivotal.questions.question import check_seed

if TYPE_CHECKING:
    from pivotal.lm.training import Trained

_TEXT, _NETWORK = "Text", "Network and training"


def train_lm(
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="More files of the corpus.", show_default=False),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE...",
            help="Training text, one sentence per line, words separated by spaces; may be .gz, .xz or .zst.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Validation text. Default: some sentences of the corpus are held out.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The vocabulary, one word per line, with <unk> and <eos>. Default: the most frequent words.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The model folder to write. Required.", rich_help_panel=asked.OUTPUT
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help=f"The defaults of the settings below: {' or '.join(RECIPES)}.", rich_help_panel=_NETWORK
        ),
    ] = "fast",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=_NETWORK)
    ] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of models to train together, into DIR/seed-0, DIR/seed-1 …",
            rich_help_panel=_NETWORK,
        ),
    ] = 1,
    device: asked.Device = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0.0, help="Minutes between two checkpoints.", rich_help_panel=asked.OUTPUT)
    ] = 5.0,
    snapshots: Annotated[
        str, typer.Option(metavar="TOKENS,...", help=SNAPSHOTS_HELP, rich_help_panel=asked.OUTPUT)
    ] = "",
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the models in DIR, or an unfinished training with other settings.",
            rich_help_panel=asked.OUTPUT,
        ),
    ] = False,
    json: asked.Json = False,
    quiet: asked.Quiet = False,
    **given: Any,
) -> None:
    """Train a recurrent language model on text, one sentence per line. All other verbs can use it.

    The same command resumes a training that was stopped, and gives the same weights.
    """
    from pivotal.errors import PivotalError
    from pivotal.lm.training import train

    if out is None:
        raise PivotalError("Training needs a folder to write the model to. Give one with --out.")
    settings = settings_of(recipe, {name: value for name, value in given.items() if value is not None})
    check_seed(seed)
    with watching(quiet) as watch:
        trained = train(
            [*(corpus or []), *(more or [])],
            out,
            settings,
            valid=valid,
            vocabulary=vocabulary,
            seed=seed,
            seeds=seeds,
            device=device,
            overwrite=overwrite,
            checkpoint_minutes=checkpoint_minutes,
            snapshots=snapshots,
            recipe=recipe,
            command=typed.command(),
            watch=watch,
        )
    if json:
        terminal.as_json({"models": [{"path": str(model.path), **model.card} for model in trained]})
    else:
        _print(trained)


def _print(trained: list[Trained]) -> None:
    for model in trained:
        terminal.line(f"{model.path}: validation perplexity {model.perplexity:.2f}", style="bold")
    card = trained[0].card
    terminal.line(
        f"{card['tokens']['read']:,} tokens read in {duration(card['seconds'])}, "
        f"{card['tokens_per_second']:,} per second. Use it: pivotal find {trained[0].path}"
    )


# -- one option per setting -----------------------------------------------------------------------------------------


def _parameter(option: Option) -> inspect.Parameter:
    """None is the default of the recipe."""
    name = "/".join(FLAGS.get(option.name, (f"--{option.name.replace('_', '-')}",)))
    about = typer.Option(
        name, help=f"{option.help} {_defaults(option)}", rich_help_panel=_NETWORK, show_default=False
    )
    return asked.parameter(option.name, Annotated[option.type | None, about], None)


def _defaults(option: Option) -> str:
    """The default of each recipe, or the one that they share."""
    told = {}
    for name, recipe in RECIPES.items():
        value = recipe.get(option.name, option.default)
        if isinstance(value, bool):
            value = FLAGS[option.name][0 if value else 1]
        told[name] = "no limit" if value is None else str(value)
    if len(set(told.values())) == 1:
        return f"Default: {told.popitem()[1]}."
    return "Default: " + ", ".join(f"{value} ({name})" for name, value in told.items()) + "."


train_lm = asked.with_parameters(train_lm, [_parameter(option) for option in options_of(Settings)])


# -- progress -------------------------------------------------------------------------------------------------------


@contextmanager
def watching(quiet: bool) -> Iterator[TrainingWatch]:
    console = terminal.err()
    if quiet:
        yield Silent()
    elif console.is_terminal:
        with RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            console=console,
        ) as bars:
            yield _TrainingBars(bars)
    else:
        yield TrainingLines(every=5.0)


class _TrainingBars:
    def __init__(self, bars: RichProgress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def say(self, text: str) -> None:
        self._bars.console.print(Text(text), soft_wrap=True)

    def progress(self, progress: TrainingProgress) -> None:
        if progress.phase not in self._tasks:
            for task in self._tasks.values():  # a new phase ends the one before
                self._bars.update(task, total=1, completed=1)
            self._tasks[progress.phase] = self._bars.add_task(progress.phase, total=None, numbers="")
        left = "" if progress.seconds_left is None else f"  {duration(progress.seconds_left)} left"
        self._bars.update(
            self._tasks[progress.phase],
            completed=progress.done,
            total=progress.total,
            numbers=f"{progress.done / 1e6:.1f}M tokens  {progress.numbers}{left}",
        )
