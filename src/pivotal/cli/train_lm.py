"""`pivotal train-lm` and `pivotal import-lm`: a recurrent language model from text, or from a checkpoint.

The options of a training are the fields of `lm.recipes.Settings`. A checkpoint is converted without running any code in
it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import argument
from pivotal.errors import PivotalError
from pivotal.lm.recipes import FLAGS, RECIPES, Settings, settings_of
from pivotal.options import Option, check_least, options_of
from pivotal.printing import duration

if TYPE_CHECKING:
    from pivotal.lm.training import Trained

_in_text, _in_network = shared_options.panel("Text"), shared_options.panel("Network and training")


@dataclass(frozen=True)
class TrainingOptions:
    help_panel: ClassVar[str] = "Text"

    out: Path
    """The model folder to write."""
    valid: Path | None = None
    """Validation text. Default: a share of the corpus, see --valid-share."""
    vocabulary: Path | None = None
    """The vocabulary, one word per line, with <unk> and <eos>. Default: the most frequent words."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    seed: int = 0
    """Seed of all random choices."""
    seeds: int = 1
    """Number of models to train together, into DIR/seed-0, DIR/seed-1 …"""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints."""
    snapshots: str = ""
    """Also save the weights in DIR.snapshots after these numbers of tokens, e.g. 10M,30M,1B."""
    overwrite: bool = False
    """Replace the models in DIR, or an unfinished training with other settings."""

    def __post_init__(self) -> None:
        check_least(self, checkpoint_minutes=0)


def train_lm(
    options: TrainingOptions,
    more: Annotated[list[Path] | None, argument("More files of the corpus.", metavar="FILE")] = None,
    corpus: Annotated[
        list[Path] | None,
        _in_text(
            "Training text, one sentence per line, words separated by spaces; may be .gz, .xz or .zst.",
            metavar="FILE...",
        ),
    ] = None,
    recipe: Annotated[
        str, _in_network(f"The defaults of the settings below: {' or '.join(RECIPES)}.")
    ] = "fast",
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    **given: Any,
) -> None:
    """Train a recurrent language model on text, one sentence per line.

    The same command resumes a training that was stopped.
    """
    from pivotal.lm.training import TrainingJob, train
    from pivotal.watch import display

    job = TrainingJob(
        corpus=[*(corpus or []), *(more or [])],
        settings=settings_of(recipe, {name: value for name, value in given.items() if value is not None}),
        recipe=recipe,
        command=terminal.command(),
        **vars(options),
    )
    with display(quiet) as watch:
        trained = train(job, watch)
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
        f"{card['tokens_per_second']:,} per second. Use it: pivotal find {_argument(trained[0].path)}"
    )


def _argument(folder: Path) -> str:
    """How another command names a model folder. The name alone would be that of the bundled model, if there is one."""
    from pivotal.models import list_models

    return f"./{folder}" if str(folder) in dict(list_models()) else str(folder)


# -- one option per setting -----------------------------------------------------------------------------------------


def _parameter(option: Option) -> inspect.Parameter:
    """The option of a setting; None stands for the default of the recipe."""
    name = "/".join(FLAGS.get(option.name, (f"--{option.name.replace('_', '-')}",)))
    about = _in_network(f"{option.help} {_defaults(option)}", name, show_default=False)
    return shared_options.parameter(option.name, Annotated[option.type | None, about], None)


def _defaults(option: Option) -> str:
    """The default of each recipe, or the one that they share."""
    texts = {}
    for name, recipe in RECIPES.items():
        value = recipe.get(option.name, option.default)
        if isinstance(value, bool):
            value = FLAGS[option.name][0 if value else 1]
        texts[name] = str(value)
    if len(set(texts.values())) == 1:
        return f"Default: {texts.popitem()[1]}."
    return "Default: " + ", ".join(f"{value} ({name})" for name, value in texts.items()) + "."


train_lm = shared_options.with_parameters(train_lm, [_parameter(option) for option in options_of(Settings)])
train_lm = shared_options.takes_options(train_lm)


# -- a checkpoint -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImportOptions:
    help_panel: ClassVar[str] = "Text"

    vocabulary: Path
    """The vocabulary, one word per line, in the order of the embedding."""
    out: Path | None = None
    """The model folder to write. Default: a local model with the name of the file."""
    overwrite: bool = False
    """Replace the content of the folder."""


@shared_options.takes_options
def import_lm(
    checkpoint: Annotated[
        Path, argument("A pickled RNNModel (PyTorch 0.2 or later), or its state_dict.", metavar="FILE.pt")
    ],
    options: ImportOptions,
    json: shared_options.Json = False,
) -> None:
    """Import the checkpoint of a recurrent language model, such as the paper's.

    The file is a pickle, which can contain code; pivotal reads it without running any.
    """
    from pivotal.files import models_home
    from pivotal.lm.import_checkpoint import import_checkpoint

    if options.out is None:
        _check_name(checkpoint.stem)
    folder = options.out or models_home() / checkpoint.stem
    command, overwrite = terminal.command(), options.overwrite
    model, summary = import_checkpoint(
        checkpoint, options.vocabulary, folder, replace=overwrite, command=command
    )
    name = folder.name if options.out is None else _argument(folder)
    if json:
        told = {"model": name, "folder": str(folder), "summary": summary, "fingerprint": model.fingerprint()}
        terminal.as_json(told)
    else:
        terminal.result(
            f"{summary}.", f"Written to {folder}; try pivotal eval-lm {name}, pivotal find {name}"
        )


def _check_name(name: str) -> None:
    """PivotalError if the name is taken by a bundled model, or hidden."""
    from pivotal.files import models_home
    from pivotal.models import list_models

    local = (models_home() / name / "config.json").is_file()
    if name.startswith(".") or [known for known, _ in list_models()].count(name) > local:
        raise PivotalError(f"{name!r} names a bundled model, or is hidden. Rename the file, or give --out.")
