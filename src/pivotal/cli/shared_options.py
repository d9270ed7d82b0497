"""Options that several verbs share, each with one name, one help text and one panel.

A verb that starts a job takes the fields of `Question` (see `takes_question`). A verb that reads a run takes its
question from the run; its `--model`, `--priming` and `--dtype` only override that (`RunModel` …).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from pivotal.cli import complete
from pivotal.options import Option, options_of
from pivotal.questions import question
from pivotal.questions.question import Question

RUN, QUESTION, SEARCH, MACHINE, OUTPUT = "Run", "Question", "Search", "Machine", "Output"
"""The panels of a help page, in this order."""

Verb = TypeVar("Verb", bound=Callable[..., None])
Declare = Callable[..., Any]


def panel(name: str) -> Declare:
    """Make a function that declares options of one help panel: `in_run("What the option does.", "--flag", min=0)`."""

    def declare(text: str, *flags: str, **more: Any) -> Any:
        return typer.Option(*flags, help=text, rich_help_panel=name, **more)

    return declare


in_run, in_question, in_search, in_machine, in_output = map(panel, (RUN, QUESTION, SEARCH, MACHINE, OUTPUT))


def argument(text: str, **more: Any) -> Any:
    """Declare an argument of a verb. Its default is shown only if `more` says so."""
    return typer.Argument(help=text, **{"show_default": False, **more})


# -- the question -----------------------------------------------------------------------------------------------------

_NOT_ASKED = ("split_seed", "keep")
"""Fields that are no options of every verb."""
_COMPLETED = {"model": complete.models, "phenomenon": complete.phenomena}


def takes_question(verb: Verb) -> Verb:
    """Give a verb the fields of `Question` as arguments and options. They replace its `**` parameter."""
    names = [option.name for option in options_of(Question) if option.name not in _NOT_ASKED]
    return takes_fields(Question, *names)(verb)


def takes_fields(settings: type, *names: str, declare: Declare | None = None) -> Callable[[Verb], Verb]:
    """Give a verb some fields of a dataclass as arguments and options. They replace its `**` parameter."""

    def take(verb: Verb) -> Verb:
        return with_parameters(verb, [_field(o, declare) for o in options_of(settings) if o.name in names])

    return take


def takes_run(verb: Verb) -> Verb:
    """Give a verb the argument RUN and the options that `Saved.read` takes. They replace its `**` parameter."""
    folder = parameter("path", Run, inspect.Parameter.empty)
    options = {"run": WhichRun, "model": RunModel, "priming": RunPriming, "device": Device, "dtype": RunDtype}
    added = [parameter(name, kind, None) for name, kind in options.items()]
    return with_parameters(verb, [folder, *added, parameter("any_model", AnyModel, False)])


def _field(option: Option, declare: Declare | None) -> inspect.Parameter:
    kind = float | None if option.name == "test" else option.type  # typer has no unions of numbers
    about: Any
    if option.name in _COMPLETED:
        about = typer.Argument(help=option.help, autocompletion=_COMPLETED[option.name])
    else:
        declare = declare or (in_machine if option.name == "dtype" else in_question)
        flags = [f"--{option.name.replace('_', '-')}"] if option.type is bool else []  # without --no-…
        about = declare(option.help, *flags, min=0 if option.name == "seed" else None)
    return parameter(option.name, Annotated[kind, about], option.default)


def is_default(context: typer.Context, name: str) -> bool:
    """Whether the user has left a parameter at its default."""
    source = context.get_parameter_source(name)
    return source is None or source.name == "DEFAULT"


def parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_parameters(verb: Verb, added: Iterable[inspect.Parameter]) -> Verb:
    """Change the signature of a verb: the added parameters replace the `**` one, and all are sorted by panel."""
    signature = inspect.signature(verb, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    added = list(added)
    arguments = [p for p in added if _place(p) == _ARGUMENT]  # those of the question come first
    options = [p for p in added if _place(p) != _ARGUMENT]
    every = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*arguments, *own, *options)]
    every.sort(key=_place)
    verb.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    verb.__annotations__ = {p.name: p.annotation for p in every} | {"return": None}
    return verb


_ARGUMENT = -2


def _place(of: inspect.Parameter) -> int:
    """Arguments come first, then the panels in their order; a verb's own panels come before the shared ones."""
    if of.annotation is typer.Context:  # not shown
        return _ARGUMENT
    about = of.annotation.__metadata__[0]
    if isinstance(about, typer.models.ArgumentInfo):
        return _ARGUMENT
    panels = (RUN, QUESTION, SEARCH, MACHINE, OUTPUT)
    return panels.index(about.rich_help_panel) if about.rich_help_panel in panels else -1


# -- the search -------------------------------------------------------------------------------------------------------

MaxKL: TypeAlias = Annotated[
    float | None,
    in_search("Upper bound on the KL divergence from the untouched model, for searches that support it."),
]
KLWeight: TypeAlias = Annotated[
    float | None,
    in_search(
        "Weight of the KL divergence in the loss, as in the paper; --max-kl is a stricter alternative."
    ),
]

# -- a run that is read -----------------------------------------------------------------------------------------------

Run: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, or an intervention such as RUN/interventions/0.")
]
WhichRun: TypeAlias = Annotated[
    int | None, in_run("Which run of the folder, by number. Default: the best run on training pairs.", min=0)
]
RunModel: TypeAlias = Annotated[
    str | None,
    in_run("Where the model is now. Default: where the run found it.", autocompletion=complete.models),
]
RunPriming: TypeAlias = Annotated[
    str | None, in_run("Text that the model reads before every sentence. Default: the run's.")
]
RunDtype: TypeAlias = Annotated[
    question.Dtype | None,
    in_machine("Number format of the model; half precision needs a GPU. Default: the run's."),
]
AnyModel: TypeAlias = Annotated[
    bool, in_run("Apply the intervention to a model other than the one it was found in.", "--any-model")
]

# -- the machine ------------------------------------------------------------------------------------------------------

Device: TypeAlias = Annotated[str | None, in_machine("cpu, cuda, cuda:1 … Default: a GPU if there is one.")]
Dtype: TypeAlias = Annotated[
    question.Dtype | None,
    in_machine(next(option.help for option in options_of(Question) if option.name == "dtype")),
]
BatchNodes: TypeAlias = Annotated[
    int | None,
    in_machine(
        "Prefixes, times runs, that a transformer computes at once; bounds its memory. Default: 4096.", min=1
    ),
]

# -- the output -------------------------------------------------------------------------------------------------------

Overwrite: TypeAlias = Annotated[bool, in_output("Replace the content of the folder.", "--overwrite")]
OverwriteFile: TypeAlias = Annotated[
    bool, in_output("Replace the file of --out if it exists.", "--overwrite")
]
Json: TypeAlias = Annotated[bool, in_output("Print the result as JSON.", "--json")]
Quiet: TypeAlias = Annotated[
    bool, in_output("Show no progress and no tables, only the result.", "--quiet", "-q")
]
