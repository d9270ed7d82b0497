"""`python -m pivotal.lm`: train without the command line's packages, on a machine that has little more than torch."""

from __future__ import annotations

import argparse
import shlex
import sys

from pivotal import printing
from pivotal.errors import PivotalError
from pivotal.lm.recipes import FLAGS, RECIPES, SNAPSHOTS_HELP, Settings, settings_of
from pivotal.lm.training import train
from pivotal.options import options_of
from pivotal.stopping import exit_code, signals
from pivotal.watch import Lines


def main() -> int:
    given = vars(_parser().parse_args())
    chosen = {o.name: given.pop(o.name) for o in options_of(Settings)}
    try:
        settings = settings_of(given["recipe"], {name: x for name, x in chosen.items() if x is not None})
        command = shlex.join(["python", "-m", "pivotal.lm", *sys.argv[1:]])
        with signals():
            for model in train(settings=settings, command=command, watch=Lines(), **given):
                print(f"{model.path}: validation perplexity {model.perplexity:.2f}")
    except PivotalError as error:
        printing.say(str(error))
        return 2
    except KeyboardInterrupt as stop:
        printing.say(str(stop) or "Stopped; nothing was written.")
        return exit_code(stop)
    return 0


def _parser() -> argparse.ArgumentParser:
    """The options of `pivotal train-lm`: the same command works for both."""
    parser = argparse.ArgumentParser(
        prog="python -m pivotal.lm", description="Train a language model.", allow_abbrev=False
    )
    parser.add_argument("--corpus", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--recipe", default="fast", help=" or ".join(RECIPES))
    for name in ("valid", "vocabulary", "device"):
        parser.add_argument(f"--{name}")
    for name, default in (("seed", 0), ("seeds", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0)
    parser.add_argument("--snapshots", default="", metavar="TOKENS", help=SNAPSHOTS_HELP)
    parser.add_argument("--overwrite", action="store_true")
    for option in options_of(Settings):
        about = option.help.replace("%", "%%")
        if option.name in FLAGS:
            for flag, kind in zip(FLAGS[option.name], ("store_true", "store_false"), strict=True):
                parser.add_argument(flag, dest=option.name, action=kind, default=None, help=about)
        else:
            parser.add_argument(f"--{option.name.replace('_', '-')}", metavar="X", help=about)
    return parser


if __name__ == "__main__":
    sys.exit(main())
