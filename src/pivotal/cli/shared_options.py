"""How the options of a verb are declared.

An option is a field of a dataclass, and the string under the field is its help. A verb takes such dataclasses as
parameters (`takes_options`): `Question` if it starts a job, `RunOptions` if it reads a run, and its own. Arguments
and options with special flags are parameters in typer's way (`argument`, `in_output` …).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import typer

from pivotal.cli import complete
from pivotal.options import Option, options_of
from pivotal.questions.question import Dtype, Question

RUN, QUESTION, SEARCH, MACHINE, OUTPUT = "Run", "Question", "Search", "Machine", "Output"
"""The panels of a help page, in this order."""

Verb = TypeVar("Verb", bound=Callable[..., None])
Declare = Callable[..., Any]


def panel(name: str) -> Declare:
    """Make a function that declares options of one help panel: `in_output("What it does.", "--flag", min=0)`."""

    def declare(text: str, *flags: str, **more: Any) -> Any:
        return typer.Option(*flags, help=text, rich_help_panel=name, **more)

    return declare


in_question, in_search, in_machine, in_output = map(panel, (QUESTION, SEARCH, MACHINE, OUTPUT))


def argument(text: str, **more: Any) -> Any:
    """Declare an argument of a verb. Its default is shown only if `more` says so."""
    return typer.Argument(help=text, **{"show_default": False, **more})


# -- fields as options ------------------------------------------------------------------------------------------------

_NOT_ASKED = ("split_seed", "keep")
"""Fields of `Question` that are not options of every verb."""
_ARGUMENTS = ("model", "phenomenon")
"""Fields of `Question` that are arguments."""
_COMPLETED = {
    **{"model": complete.models, "phenomenon": complete.phenomena, "keep": complete.phenomena},
    **{"search": complete.searches, "to": complete.exports},
}
_PANELS = {
    **dict.fromkeys(("direction", "cue"), QUESTION),
    **dict.fromkeys(("device", "dtype", "batch_nodes", "ray", "cpus", "gpus"), MACHINE),
    **dict.fromkeys(("out", "overwrite", "dry_run", "json", "quiet"), OUTPUT),
}
"""The options that have the same panel in all verbs. The others have that of their dataclass, `help_panel`."""


def takes_options(verb: Verb) -> Verb:
    """Give a verb an option for every field of the dataclasses among its parameters."""
    own = inspect.signature(verb, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in own if dataclasses.is_dataclass(p.annotation)}
    fields = {
        name: [o for o in options_of(cls) if cls is not Question or o.name not in _NOT_ASKED]
        for name, cls in groups.items()
    }

    @functools.wraps(verb)
    def called(**given: Any) -> None:
        for name, options in fields.items():
            given[name] = groups[name](**{option.name: given.pop(option.name) for option in options})
        verb(**given)

    added = [_field(option, groups[name]) for name, options in fields.items() for option in options]
    return with_parameters(called, added, instead_of=groups)  # type: ignore[return-value]


def takes_fields(settings: type, *names: str, help_panel: str = QUESTION) -> Callable[[Verb], Verb]:
    """Give a verb some fields of a dataclass as arguments and options. They replace its `**` parameter."""

    def take(verb: Verb) -> Verb:
        chosen = [option for option in options_of(settings) if option.name in names]
        return with_parameters(verb, [_field(option, settings, help_panel) for option in chosen])

    return take


def _field(option: Option, settings: type, help_panel: str = QUESTION) -> inspect.Parameter:
    kind = str | None if option.name == "test" else option.type  # typer has no unions
    about: Any
    if settings is Question and option.name in _ARGUMENTS:
        about = typer.Argument(help=option.help, autocompletion=_COMPLETED[option.name])
    else:
        declare = panel(_PANELS.get(option.name, getattr(settings, "help_panel", help_panel)))
        flags = [f"--{option.name.replace('_', '-')}"] if option.type is bool else []  # without --no-…
        flags += ["-q"] if option.name == "quiet" else []
        about = declare(option.help, *flags, autocompletion=_COMPLETED.get(option.name))
    default = inspect.Parameter.empty if option.required else option.default
    return parameter(option.name, Annotated[kind, about], default)


def is_default(context: typer.Context, name: str) -> bool:
    """Whether the user has left a parameter at its default."""
    source = context.get_parameter_source(name)
    return source is None or source.name == "DEFAULT"


def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_parameters(verb: Verb, added: Iterable[inspect.Parameter], instead_of: Container[str] = ()) -> Verb:
    """Change the signature of a verb: the added parameters replace the `**` one and those named. Arguments come first,
    the added ones before its own; options are sorted by panel."""
    signature = inspect.signature(verb, eval_str=True)
    own = [
        p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD and p.name not in instead_of
    ]
    added = list(added)
    arguments = [p for p in added if _place(p) == _ARGUMENT]
    options = [p for p in added if _place(p) != _ARGUMENT]
    every = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*arguments, *own, *options)]
    every.sort(key=_place)
    verb.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    verb.__annotations__ = {p.name: p.annotation for p in every} | {"return": None}
    return verb


_ARGUMENT = -2


def _place(of: inspect.Parameter) -> int:
    """Arguments come first, then the panels in their order; a verb's own panels come before the shared ones."""
    about = getattr(of.annotation, "__metadata__", (None,))[0]
    # An argument, typer's context, or options to be expanded.
    if not isinstance(about, typer.models.OptionInfo):
        return _ARGUMENT
    panels = (RUN, QUESTION, SEARCH, MACHINE, OUTPUT)
    return panels.index(about.rich_help_panel) if about.rich_help_panel in panels else -1


# -- options of several verbs -----------------------------------------------------------------------------------------

Run: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder (`pivotal list runs`), or RUN/interventions/0 in it."),
]


@dataclass(frozen=True)
class RunOptions:
    """Which intervention of a folder, and the model to apply it to. The question of the run has what is None here."""

    help_panel: ClassVar[str] = RUN

    run: int | None = None
    """Which run of the folder, by number. Default: the best run on training pairs."""
    model: str | None = None
    """The model, if it is no longer where the run found it."""
    priming: str | None = None
    """Text that the model reads before every sentence. Default: the run's."""
    dtype: Dtype | None = None
    """Number format of the model; half precision needs a GPU. Default: the run's."""
    device: str | None = None
    """cpu, cuda, cuda:1 … Default: a GPU if there is one."""
    any_model: bool = False
    """Apply the intervention to a model other than the one it was found in."""


Device: TypeAlias = Annotated[str | None, in_machine("cpu, cuda, cuda:1 … Default: a GPU if there is one.")]
Json: TypeAlias = Annotated[bool, in_output("Print the result as JSON.", "--json")]
Quiet: TypeAlias = Annotated[
    bool, in_output("Show no progress and no tables, only the result.", "--quiet", "-q")
]
