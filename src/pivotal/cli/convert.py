"""`pivotal convert` and `pivotal new-phenomenon`: files of pairs and of phenomena to read and to edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import argument, in_output, in_question
from pivotal.errors import PivotalError
from pivotal.questions.question import Question

if TYPE_CHECKING:
    from pivotal.questions.readers import Part


@shared_options.takes_fields(Question, "phenomenon", "lower", "columns", "skip_bad")
def convert(
    out: Annotated[
        Path,
        argument(
            "The file to write (.jsonl, .csv, .tsv, also .gz), or a folder for one file per question.",
            metavar="OUT",
        ),
    ],
    overwrite: Annotated[bool, in_output("Replace existing files.", "--overwrite")] = False,
    json: shared_options.Json = False,
    **asked: Any,
) -> None:
    """Write the pairs of a phenomenon, or of a file in another format, to a pairs file that you can read and edit."""
    from pivotal.files import check_output, disk, suffix_of
    from pivotal.questions.pairs_file import SUFFIXES
    from pivotal.questions.readers import Part

    question, one_file = Question(**asked).checked(), suffix_of(out) in SUFFIXES
    if out.suffix and not one_file and not out.is_dir():
        raise PivotalError(f"A pairs file ends in .jsonl, .csv or .tsv, but {out} does not.")
    if one_file:  # all pairs together
        pairs = question.load_pairs()
        parts = [Part(pairs.name, pairs)]
    else:
        parts = question.load_parts()
    if not any(part.pairs for part in parts):
        raise PivotalError(f"Nothing to write: {question.phenomenon} has no pairs. {parts[0].reason}")
    home = out.parent if one_file else out
    with disk(home):
        home.mkdir(parents=True, exist_ok=True)
    # A name may come from a file of somebody else, and must not lead out of the folder.
    places = [out if one_file else home / f"{Path(part.name).name}.jsonl" for part in parts]
    for part, place in zip(parts, places, strict=True):
        if part.pairs is not None:
            check_output(place, overwrite=overwrite)
    rows = [_write(part, place) for part, place in zip(parts, places, strict=True)]
    if json:
        terminal.as_json(rows)
    else:
        _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    from pivotal.printing import counted

    for row in rows:
        if row["file"] is None:
            terminal.line(f"{row['name']}: {row['reason']}")
            continue
        merged = f"  Left out {row['merged']:,} that repeat another." if row["merged"] else ""
        notes = [f"  {note}" for note in row["notes"]]
        terminal.result(f"{row['file']}: {counted(row['pairs'], 'pair')}.", *notes, merged)


def _write(part: Part, path: Path) -> dict[str, Any]:
    """Write the pairs of a question, if it has any. Returns what was done."""
    if part.pairs is None:
        return {"name": part.name, "file": None, "pairs": 0, "reason": part.reason}
    part.pairs.save(path)
    about = {"pairs": len(part.pairs), "merged": part.pairs.merged, "notes": list(part.pairs.notes)}
    return {"name": part.name, "file": str(path), **about, "reason": part.reason}


def new_phenomenon(
    name: Annotated[str, argument("Name of the phenomenon, or path of the file to write.")],
    like: Annotated[
        str | None,
        in_question("Start from a copy of this bundled phenomenon.", autocompletion=complete.phenomena),
    ] = None,
    json: shared_options.Json = False,
) -> None:
    """Write a commented template file, NAME.yaml, from which to make a phenomenon of your own."""
    from pivotal.questions.phenomena import load_phenomenon
    from pivotal.questions.templates.template_file import write_new

    path = write_new(Path(name), like)
    pairs = len(load_phenomenon(path))
    if json:
        terminal.as_json({"path": str(path), "pairs": pairs})
        return
    terminal.line(f"Wrote {path}, which makes {pairs:,} pairs. Edit it, then run:")
    terminal.line(f"  pivotal convert {path} {path.with_suffix('.csv')}   # to read the sentences")
    terminal.line(f"  pivotal check wiki-lstm {path}   # does the model know the answers?")
    terminal.line(f"  pivotal find wiki-lstm {path}")
