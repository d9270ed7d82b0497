"""Command lines made from the command itself: every verb, every option, with values that it takes and others."""

import inspect
import random
import re
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from tests.attack.command import command
from tests.attack.materials import FIND, Materials
from tests.attack.mutations import NUMBERS, TEXTS
from tests.attack.place import TREASURE, Place, words

LONG = {"updates", "epochs", "budget", "minutes", "samples", "length", "checkpoint_minutes"}
"""Options whose large values are a long work that the user asks for, and no mistake. They get small values only."""
SMALL = (0, 1, 2, -1)


def verbs() -> list[str]:
    return sorted(command().commands)


def parameters(verb: str) -> list[Any]:
    return [one for one in command().commands[verb].params if one.name != "help"]


@cache
def kinds(verb: str) -> dict[str, tuple[Any, ...]]:
    """The types that each option of a verb takes, from the signature of the verb."""
    from pivotal.cli.main import app

    (info,) = [one for one in app.registered_commands if one.name == verb]
    found = {}
    for name, parameter in inspect.signature(info.callback, eval_str=True).parameters.items():
        if not get_args(parameter.annotation):  # the context, which is no option
            continue
        kind = get_args(parameter.annotation)[0]
        found[name] = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return found


def line(chance: random.Random, verb: str, materials: Materials, place: Place) -> list[str]:
    """A command line for a verb: cheap if it is accepted, and often wrong."""
    given = list(cheap(verb, materials, place))
    options = [one for one in parameters(verb) if one.param_type_name == "option"]
    for option in chance.sample(options, min(len(options), chance.choice([1, 1, 2, 3]))):
        given += spelled(chance, verb, option, materials, place)
    if chance.random() < 0.1:
        given[chance.randrange(1, len(given) + 1) : 0] = [chance.choice(TEXTS).replace("\0", "")]
    if chance.random() < 0.05 and len(given) > 1:
        del given[chance.randrange(1, len(given))]
    if "--overwrite" in given:  # as the user says, the file may be replaced
        mine = str(place.path / TREASURE / "file.json")
        given = [one for one in given if one != mine]
    return [one.replace("\0", "") for one in given]


def spelled(chance: random.Random, verb: str, option: Any, materials: Materials, place: Place) -> list[str]:
    flags = [*option.opts, *option.secondary_opts]
    if getattr(option, "is_flag", False):
        return [chance.choice(flags)]
    return [chance.choice(flags), value(chance, option, kinds(verb)[option.name], materials, place)]


def value(
    chance: random.Random, option: Any, takes: tuple[Any, ...], materials: Materials, place: Place
) -> str:
    """A value of the kind that the option takes, on the edge of it, or of another kind."""
    choice = chance.random()
    if option.name in LONG:
        return str(chance.choice(SMALL))
    if option.name == "out" and choice < 0.8:
        treasure = place.path / "treasure"
        return str(chance.choice([place.path / "new", treasure, treasure / "file.json", materials.pairs]))
    if choices := [one for kind in takes if get_origin(kind) is Literal for one in get_args(kind)]:
        return str(chance.choice([*choices, *choices, *TEXTS])) if choice < 0.9 else "x"
    if choice < 0.6 and {int, float} & set(takes):
        return repr(chance.choice(NUMBERS))
    if choice < 0.15:
        return str(chance.choice([materials.pairs, materials.run, materials.corpus]))
    if option.name == "option":
        names = [
            "updates", "refit", "max_units", "kl_weight", "mask", "batch", "rate", "x", "learned.updates",
        ]  # fmt: skip
        return f"{chance.choice(names)}={chance.choice([*SMALL, 'x', '', '0.5', 'none', 'nan'])}"
    return chance.choice(TEXTS)


def cheap(verb: str, materials: Materials, place: Place) -> tuple[str, ...]:
    """A sound command line that takes little time. A verb that is not here gets no arguments."""
    line = CHEAP.get(verb, "")
    needed = {name: getattr(materials, name) for name in set(re.findall(r"{(\w+)}", line)) - {"new", "copy"}}
    copy = place.copy(materials.run) if "{copy}" in line else ""
    return (verb, *words(line, new=place.path / f"out-{verb}", copy=copy, **needed))


CHEAP = {
    "find": f"planted {{pairs}} {' '.join(FIND)} -q --out {{new}}",
    "compare": "planted {pairs} --searches attribution --max-units 1 --runs 1 --test 12 -q --out {new}",
    "study": "{recipe} --dry-run --out {new}", "atlas": "{recipe} --dry-run --out {new}",
    "show": "{copy} --page", "open": "{copy}", "evaluate": "{run}",
    "certify": "{copy}/interventions/0 --candidates 1 --sample 0 --finalists 1 -q",
    "generate": "{run} The --length 2 --direction plural", "trace": "{run} --pair 0",
    "export": "{exportable} --to snippet --out {new}", "serve": "{run} --port 0",
    "push": "{run} org/name --dry-run --out {new}", "pull": "{run}/interventions/0 --out {new}",
    "list": "runs {root}", "new-phenomenon": "{new}.yaml", "convert": "{pairs} {new}.csv",
    "check": "planted {pairs}", "fit-basis": "planted hidden.0 --sentences {corpus} --out {new}-basis -q",
    "train-lm": "--corpus {corpus} --out {new} --hidden 3 --layers 1 --embedding 3 --epochs 1 --device cpu -q",
    "import-lm": "{checkpoint} --vocabulary {root}/vocab.txt --out {new}", "eval-lm": "{model} -q",
}  # fmt: skip
"""For each verb a sound command line that takes little time."""
