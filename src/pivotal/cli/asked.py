"""The options that several verbs share, each with one help text: `model: asked.Model = "wiki-lstm"`.

A verb that starts a job asks a question of a model; a verb that reads a run inherits the run's question, so that the
model, the priming and the dtype mean something else there and have names of their own (`RunModel` …).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

QUESTION, SEARCH, MACHINE, OUTPUT = (
    "What is asked",
    "How it is searched",
    "Where it runs",
    "Where it goes",
)
"""The panels of a help page, in the order in which they are read."""

_Dtype = Literal["float32", "float64", "bfloat16", "float16"]

# -- the question -----------------------------------------------------------------------------------------------------

Model: TypeAlias = Annotated[
    str, typer.Argument(help="A name of `pivotal list models`, a folder, a .gguf file, or hf:ORG/NAME.")
]
Phenomenon: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A name of `pivotal list phenomena`, `name:PATH`, or a pairs file (.jsonl, .csv, .tsv)."
    ),
]
Steps: TypeAlias = Annotated[
    Literal["every", "single"],
    typer.Option(
        help="Set the units at every step of the prefix, or at the cue only.", rich_help_panel=QUESTION
    ),
]
Sites: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Where to look: all, hidden, hidden.1, mlp.3-8, head, or several with commas.",
        rich_help_panel=QUESTION,
    ),
]
Split: TypeAlias = Annotated[
    Literal["random", "lexical"],
    typer.Option(
        help="Hold out pairs at random, or whole nouns and verbs that are unseen in training.",
        rich_help_panel=QUESTION,
    ),
]
Test: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Held-out pairs: a number, or a fraction below 1. Default: as in the paper, else a fifth.",
        rich_help_panel=QUESTION,
    ),
]
Priming: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Text that the model reads before every sentence. Default: the model's own (BOS, or nothing).",
        rich_help_panel=QUESTION,
    ),
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option(min=0, max=2**53, help="Decides the split and all that is drawn.", rich_help_panel=QUESTION),
]


def held_out(test: float | None) -> float | int | None:
    """What `--test` means: 1000 is a number of pairs, 0.2 a fraction of them."""
    return int(test) if test is not None and test >= 1 and test == int(test) else test


# -- the search -------------------------------------------------------------------------------------------------------

MaxKL: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Keep the KL to the untouched model at most here, if the search can.",
        rich_help_panel=SEARCH,
    ),
]
KLWeight: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Weight of the KL in the loss, as in the paper; --max-kl is the firmer way.",
        rich_help_panel=SEARCH,
    ),
]

# -- a run that is read -----------------------------------------------------------------------------------------------

Run: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run folder, or an intervention folder such as RUN/interventions/0."
    ),
]
WhichRun: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Which run of the folder. Default: the best on training pairs.")
]
RunModel: TypeAlias = Annotated[
    str | None, typer.Option(help="Where the model is, if not where the run found it.")
]
RunPriming: TypeAlias = Annotated[
    str | None, typer.Option(help="Text that the model reads before every sentence. Default: the run's.")
]
AnyModel: TypeAlias = Annotated[
    bool, typer.Option("--any-model", help="Apply it to a model other than the one that it was found in.")
]

# -- the machine ------------------------------------------------------------------------------------------------------

Device: TypeAlias = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 … Default: a GPU if there is one.", rich_help_panel=MACHINE),
]
Dtype: TypeAlias = Annotated[
    _Dtype | None,
    typer.Option(
        help="What the model computes in; half types need a GPU. Default: the model's own.",
        rich_help_panel=MACHINE,
    ),
]
RunDtype: TypeAlias = Annotated[
    _Dtype | None,
    typer.Option(
        help="What the model computes in; half types need a GPU. Default: the run's.", rich_help_panel=MACHINE
    ),
]
BatchNodes: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Bounds the memory of a transformer: prefixes, times runs, computed at once. Default: 4096.",
        rich_help_panel=MACHINE,
    ),
]

# -- what comes out ---------------------------------------------------------------------------------------------------

Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace what the folder holds.", rich_help_panel=OUTPUT)
]
Json: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON and nothing else.", rich_help_panel=OUTPUT),
]
Quiet: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="No progress, no tables: the result in a sentence or two.",
        rich_help_panel=OUTPUT,
    ),
]
