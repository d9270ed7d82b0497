"""`pivotal new-phenomenon`: write a template file to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_question


def new_phenomenon(
    name: Annotated[str, argument("Name of the phenomenon, or path of the file to write.")],
    like: Annotated[
        str | None,
        in_question(
            "Begin with a copy of a bundled phenomenon instead of the commented example.",
            metavar="NAME",
            autocompletion=complete.phenomena,
        ),
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """Write a template file NAME.yaml to begin with: word lists and sentence patterns with comments."""
    from pivotal.questions.templates import write_new

    path = write_new(Path(name), like)
    pairs = _check(path)
    if json:
        terminal.as_json({"path": str(path), "pairs": pairs})
        return
    terminal.line(f"Wrote {path}, which makes {pairs:,} pairs. Edit it, then run:")
    terminal.line(f"  pivotal convert {path} {path.with_suffix('.csv')}   # to read the sentences")
    terminal.line(f"  pivotal check wiki-lstm {path}   # does the model know the answers?")
    terminal.line(f"  pivotal find wiki-lstm {path}")


def _check(path: Path) -> int:
    from pivotal.questions.phenomena import load_phenomenon

    return len(load_phenomenon(path))
