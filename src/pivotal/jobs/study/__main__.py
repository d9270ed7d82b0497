"""`python -m pivotal.jobs.study`: run a study without typer and rich, for machines that lack them."""

from __future__ import annotations

import argparse
import shlex
import sys

from pivotal import printing
from pivotal.errors import PivotalError
from pivotal.jobs.study.job import dry_run, study
from pivotal.jobs.study.messages import ending, planned
from pivotal.jobs.study.recipe import read_recipe
from pivotal.stopping import exit_code, signals
from pivotal.watch import Lines


def main() -> int:
    given = _parser().parse_args()
    command = shlex.join(["python", "-m", "pivotal.jobs.study", *sys.argv[1:]])
    try:
        with signals():
            return _run(given, command)
    except PivotalError as error:
        printing.say(str(error))
        return 2
    except KeyboardInterrupt as stop:
        printing.say(str(stop) or "Stopped; nothing was written.")
        return exit_code(stop)


def _run(given: argparse.Namespace, command: str) -> int:
    recipe = read_recipe(given.recipe)
    asked = {"out": given.out, "only": given.only, "runs": given.seeds, "device": given.device}
    if given.dry_run:
        print("\n".join(planned(dry_run(recipe, **asked))))
        return 0
    studied = study(recipe, **asked, command=command, watch=Lines())
    print(ending(studied))
    return 1 if studied.failed else 0


def _parser() -> argparse.ArgumentParser:
    """The options of `pivotal study`, except those of Ray, with the same names."""
    parser = argparse.ArgumentParser(
        prog="python -m pivotal.jobs.study", description="Run a study.", allow_abbrev=False
    )
    parser.add_argument(
        "recipe", metavar="RECIPE", help="a YAML file, or the name of one that comes with pivotal"
    )
    parser.add_argument("--out", metavar="DIR", help="the folder of the study; default: runs/study-NAME")
    parser.add_argument(
        "--only", metavar="CELLS", help="cells whose name contains this text or matches it (* and ?)"
    )
    parser.add_argument(
        "--seeds", type=_positive, metavar="N", help="runs of each cell; default: the recipe's"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1 …; default: a GPU if there is one")
    parser.add_argument("--dry-run", action="store_true", help="show what would run and how long it may take")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, but it is {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
