"""The `pivotal` command: gathers the verbs, and turns what goes wrong into a sentence and an exit code."""

from __future__ import annotations

import os
from typing import Annotated, Any

# Before torch is loaded: threads that spin for long while they wait take the cores from whatever else runs, and then
# from each other; on a busy 2-core machine that made a search several times slower. Some microseconds are enough.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

import typer
from typer.core import TyperGroup

from pivotal.cli import (
    certify,
    compare,
    eval_lm,
    evaluate,
    find,
    generate,
    import_lm,
    list,
    report,
    show,
    study,
    trace,
    train_lm,
    typed,
)
from pivotal.errors import PivotalError

BAD_INPUT, STOPPED = 2, 130


class Verbs(TyperGroup):
    """Errors are caught here, below typer's own handling, so that every caller sees the same exit codes."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        typed.remember(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PivotalError as error:
            show.error(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's: not imported for its name alone
                raise
            show.error(
                f"The device ran out of memory ({str(error).partition('.')[0]}). Compute fewer nodes at once with "
                "--batch-nodes, or ask for fewer runs, --dtype bfloat16 or another device."
            )
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt as stop:
            show.error(str(stop) or "Stopped; nothing was written.")
            raise typer.Exit(STOPPED) from None


app = typer.Typer(
    name="pivotal",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the few units of a language model that decide a phenomenon, prove it, and hand them over.",
    epilog="Begin with `pivotal find`: the bundled model, number agreement, a report at the end.",
)
app.command("find")(find.find)
app.command("evaluate")(evaluate.evaluate)
app.command("certify")(certify.certify)
app.command("generate")(generate.generate)
app.command("trace")(trace.trace)
app.command("compare")(compare.compare)
app.command("study")(study.study)
app.command("report")(report.report)
app.command("list")(list.list_names)
app.command("train-lm")(train_lm.train_lm)
app.command("import-lm")(import_lm.import_lm)
app.command("eval-lm")(eval_lm.eval_lm)


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
