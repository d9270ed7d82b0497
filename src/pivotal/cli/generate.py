"""`pivotal generate`: continue a text, with the untouched model and with the units set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pivotal.cli import shared_options, terminal
from pivotal.cli.shared_options import RunOptions, argument
from pivotal.options import check_least
from pivotal.questions.question import check_seed

Side = tuple[Sequence[tuple[str, float]], Sequence[str]]
"""What one side says: the likeliest next words with their probabilities, and the continuations."""


@dataclass(frozen=True)
class TextOptions:
    help_panel: ClassVar[str] = "Text"

    direction: str | None = None
    """The label to flip to, e.g. plural. Default: both."""
    cue: str | None = None
    """For a single-step intervention: the word to edit at, or its index from 0."""
    length: int = 12
    """Number of words to generate."""
    samples: int = 1
    """Number of continuations with and without the units set."""
    temperature: float = 0.0
    """Sampling temperature; 0 takes the likeliest word at every step."""
    seed: int = 0
    """Seed of the samples."""
    top: int = 6
    """Number of likeliest next words to show."""

    def __post_init__(self) -> None:
        check_least(self, length=1, samples=1, temperature=0, top=1)
        check_seed(self.seed)


@shared_options.takes_options
def generate(
    path: shared_options.Run,
    prompt: Annotated[str, argument("The text to continue, words separated by spaces.")],
    run: RunOptions,
    options: TextOptions,
    json: shared_options.Json = False,
) -> None:
    """Show the next words and continuations of a text, untouched and with the units set, side by side."""
    from pivotal.cli.run_argument import Saved
    from pivotal.errors import PivotalError
    from pivotal.models.base import LanguageModel
    from pivotal.models.intervened import IntervenedModel, encode_typed

    saved, direction, cue = Saved.read(path, run), options.direction, options.cue
    if not prompt.split():
        raise PivotalError("The prompt must have at least one word, but it is empty.")
    i = saved.intervention
    if cue is not None and i.steps == "every":
        raise PivotalError(f"--cue is for a single-step intervention; {saved.path} sets units at every step.")
    if direction is not None:
        i.direction(direction)
    # A mask for each direction may be empty in one of them.
    set_units = [label for label, active in zip(i.directions, i.active, strict=True) if active.any()]
    saved.note_means("The prompt")
    lm = saved.lm
    encode_typed(lm, prompt)

    def both(lm: LanguageModel | IntervenedModel) -> Side:
        sampling: dict[str, Any] = {
            name: getattr(options, name) for name in ("samples", "temperature", "seed")
        }
        return lm.next_words(prompt, k=options.top), lm.generate(prompt, words=options.length, **sampling)

    untouched = both(lm)
    edited = {
        one: both(lm.intervened(i, one, cue=cue, any_model=run.any_model))
        for one in (set_units if direction is None else [direction])
    }
    if json:
        directions = {label: _record(side) for label, side in edited.items()}
        terminal.as_json({"untouched": _record(untouched), "directions": directions})
    else:
        _print(prompt, {"untouched": untouched, **{f"→ {label}": side for label, side in edited.items()}})


def _record(side: Side) -> dict[str, Any]:
    words, texts = side
    return {"next_words": [list(word) for word in words], "texts": list(texts)}


def _print(prompt: str, sides: Mapping[str, Side]) -> None:
    from pivotal.report.tables import Table

    names = list(sides)
    words = [[(word if word.strip() else repr(word), p) for word, p in words] for words, _ in sides.values()]
    rows = zip(*words, strict=True)
    cells = tuple(tuple(cell for word, p in row for cell in (word, f"{p:.3f}")) for row in rows)
    columns = tuple(column for name in names for column in (name, "p"))
    numeric = frozenset(range(1, len(columns), 2))
    terminal.table(Table(f"Next word after “{prompt}”", columns, cells, numeric))
    width = max(11, *map(len, names))
    for texts in zip(*(texts for _, texts in sides.values()), strict=True):
        terminal.line("")
        for name, text in zip(names, texts, strict=True):
            terminal.line(f"{name:<{width}} {text}", style="" if name == "untouched" else "bold")
