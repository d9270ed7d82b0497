"""The `pivotal` command: its verbs, and how errors become a sentence and an exit code."""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pivotal.cli import terminal
from pivotal.cli.certify import certify
from pivotal.cli.check import check
from pivotal.cli.convert import convert, new_phenomenon
from pivotal.cli.eval_lm import eval_lm
from pivotal.cli.evaluate import evaluate
from pivotal.cli.export import export, pull, push
from pivotal.cli.find import find
from pivotal.cli.fit_basis import fit_basis
from pivotal.cli.generate import generate
from pivotal.cli.list import list_names
from pivotal.cli.serve import serve
from pivotal.cli.show import open_page, show
from pivotal.cli.study import atlas, compare, study
from pivotal.cli.trace import trace
from pivotal.cli.train_lm import import_lm, train_lm
from pivotal.errors import PivotalError
from pivotal.stopping import exit_code, signals

BAD_INPUT = 2


class Verbs(TyperGroup):
    """Catches errors below typer's own handling, so that every caller sees the same exit codes."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        for given in args:
            if re.search("[\ud800-\udfff]", given):  # how Python shows bytes that it cannot decode
                terminal.error(f"Arguments must be UTF-8 text, but {given!r} is not. Rename the file.")
                raise typer.Exit(BAD_INPUT)
        terminal.ARGUMENTS.set(tuple(args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        if args[0] == "report":  # typer would suggest the verb that is spelt most alike, `export`
            ctx.fail("No such command 'report'. Did you mean 'show'?")
        if args[0] == "demo":  # what `find` does without arguments
            args = [find.__name__, *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with signals():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            # What a validator says has its own prefix, and the help of a missing parameter says what it may be.
            error.message = error.message.removeprefix("Value error, ") or getattr(error.param, "help", "")
            raise
        except (PivotalError, OSError, MemoryError, RuntimeError) as error:
            if not (message := _message(error)):
                raise
            terminal.error(message)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as stop:
            terminal.error(str(stop) or "Stopped. Nothing was written.")
            raise typer.Exit(exit_code(stop)) from None


def _message(error: Exception) -> str:
    """What the user reads about an error; empty if it is not about input, files or memory."""
    if isinstance(error, PivotalError):
        return str(error)
    if isinstance(error, OSError):  # after a broken pipe `| head` has read enough: typer ends quietly
        return "" if error.errno == errno.EPIPE else _about_file(error)
    return _about_memory(error)


def _about_file(error: OSError) -> str:
    """A message for an error of the system that no verb has explained."""
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"The result cannot be printed: {reason}. What was written to files is complete."
    return f"{error.filename} cannot be used: {reason}. Name another file or folder."


def _about_memory(error: Exception) -> str:
    """A message if the error means that memory ran out, else nothing."""
    # Compared by name, because importing torch only for its error class would slow every command down.
    on_device = type(error).__name__ == "OutOfMemoryError"
    if not on_device and not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
        return ""
    reason = f" ({str(error).partition('.')[0]})" if str(error) else ""
    return (
        f"{'The device' if on_device else 'This machine'} ran out of memory{reason}. Lower --batch-nodes or --runs, "
        "use --dtype bfloat16 or another device, or ask fewer pairs. Saved files are kept."
    )


app = typer.Typer(
    name="pivotal",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the few units of a language model that switch a behaviour, test them, and use them.",
    epilog="Start with `pivotal demo`: it searches the bundled model for the units of number agreement.",
)

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Ask": (list_names, check, convert, new_phenomenon),
    "Find": (find, certify),
    "Look": (show, open_page, evaluate, trace, serve),
    "Use": (generate, export, push, pull),
    "Study": (study, compare, atlas),
    "Models": (train_lm, import_lm, eval_lm, fit_basis),
}
"""The verbs, in the groups of the help page. A verb is called as its function, but `list` and `open` are Python's."""
for _panel, _verbs in _PANELS.items():
    for _verb in _verbs:
        _name = _verb.__name__.removesuffix("_names").removesuffix("_page").replace("_", "-")
        # Lines break where the terminal ends.
        _help = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.getdoc(_verb) or "")
        app.command(_name, help=_help, rich_help_panel=_panel)(_verb)
for _point in entry_points(group="pivotal.verbs"):
    try:
        app.command(_point.name, rich_help_panel="From other packages")(_point.load())
    except Exception as _error:  # a broken package must not break the verbs of this one
        terminal.error(f"The command '{_point.name}' of {_point.value} cannot be loaded ({_error}).")


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
    """Run the command as a process. What was printed is flushed here, where a full disk can still be told."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows an escape, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code: Any = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    except OSError as error:  # from the help page or a message about usage
        code = _unprintable(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _unprintable(error)
    sys.exit(code)


def _unprintable(error: OSError) -> int:
    # Python would try to flush again when it ends, and complain again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if error.errno == errno.EPIPE:
        return 1
    terminal.error(_about_file(error))
    return BAD_INPUT


if __name__ == "__main__":
    main()
