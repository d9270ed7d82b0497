"""The `pivotal` command: its verbs, and how errors become a sentence and an exit code."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

# Set before torch is loaded. Waiting threads that spin for long take the cores from other processes and from each
# other: on a busy 2-core machine a search was several times slower. Spinning for some microseconds is enough.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

import typer
from typer.core import TyperGroup

from pivotal.cli import (
    certify,
    command_line,
    compare,
    eval_lm,
    evaluate,
    find,
    generate,
    import_lm,
    list,
    new_phenomenon,
    renamed_options,
    report,
    show,
    study,
    terminal,
    trace,
    train_lm,
)
from pivotal.errors import PivotalError
from pivotal.stopping import exit_code, signals

BAD_INPUT = 2


class Verbs(TyperGroup):
    """Catches errors below typer's own handling, so that every caller sees the same exit codes."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        args, hints = renamed_options.updated(args)
        for hint in hints:
            terminal.note(hint)
        command_line.remember(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with signals():
                return super().invoke(ctx)
        except PivotalError as error:
            terminal.error(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except RuntimeError as error:
            # Compared by name, because importing torch only for its error class would slow every command down.
            if type(error).__name__ != "OutOfMemoryError":
                raise
            terminal.error(
                f"The device ran out of memory ({str(error).partition('.')[0]}). Lower --batch-nodes or --runs, or use "
                "--dtype bfloat16 or another device."
            )
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as stop:
            terminal.error(str(stop) or "Stopped. Nothing was written.")
            raise typer.Exit(exit_code(stop)) from None


app = typer.Typer(
    name="pivotal",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the few units of a language model that decide a phenomenon, test them, and use them.",
    epilog="Start with `pivotal find`: it searches the bundled model for the units of number agreement.",
)

_PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Find and examine units": {
        "find": find.find,
        "show": show.show,
        "evaluate": evaluate.evaluate,
        "certify": certify.certify,
        "generate": generate.generate,
        "trace": trace.trace,
        "report": report.report,
        "list": list.list_names,
        "new-phenomenon": new_phenomenon.new_phenomenon,
    },
    "Compare": {"compare": compare.compare, "study": study.study},
    "Language models": {
        "train-lm": train_lm.train_lm,
        "import-lm": import_lm.import_lm,
        "eval-lm": eval_lm.eval_lm,
    },
}
for _panel, _verbs in _PANELS.items():
    for _name, _verb in _verbs.items():
        app.command(_name, rich_help_panel=_panel)(_verb)


def _version(asked: bool) -> bool:
    if asked:
        from pivotal import __version__

        typer.echo(f"pivotal {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    app()


if __name__ == "__main__":
    main()
