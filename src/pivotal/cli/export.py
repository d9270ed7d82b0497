"""`pivotal export`: write an intervention in the format of another library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pivotal.cli import complete, shared_options, terminal
from pivotal.cli.shared_options import in_output, in_question
from pivotal.errors import PivotalError

if TYPE_CHECKING:
    from pivotal.cli.run_argument import Saved
    from pivotal.models import LanguageModel
    from pivotal.problem.problem import Problem


@shared_options.takes_run
def export(
    *,
    to: Annotated[
        str,
        in_output(
            "The format or library: peft, transformers, snippet, pyvene, nnsight, transformer-lens, control-vector.",
            metavar="TARGET",
            autocompletion=complete.exports,
            show_default=False,
        ),
    ],
    direction: Annotated[
        str | None, in_question("The label to flip to. Default: both.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, in_output("The folder to write. Default: exports/PHENOMENON-STEPS-MODEL-TARGET.")
    ] = None,
    overwrite: shared_options.Overwrite = False,
    json: shared_options.Json = False,
    **chosen: Any,
) -> None:
    """Write an intervention in the format of another library, with a README that says how to use it.

    Only interventions in Transformers models can be exported, not those in LSTMs, GRUs and RNNs.
    """
    from pivotal.cli.run_argument import Saved
    from pivotal.exports import TARGETS, Portable, check_free
    from pivotal.exports import export as write
    from pivotal.records import serial

    saved = Saved.read(**chosen)
    target = TARGETS.get(to)()
    i = saved.intervention
    target.check_steps(i.steps)
    if direction is not None:
        i.direction(direction)
    folder = Path(out) if out is not None else default_folder(i.phenomenon, i.steps, i.model, to)
    check_free(folder, overwrite=overwrite)
    if target.needs_pairs and saved.folder is None:
        raise PivotalError(
            f"{to} needs the pairs of the run, but {saved.path} is an intervention without its run. Give the run "
            "folder."
        )
    lm = saved.load_model()
    train, test = problems(saved, lm) if target.needs_pairs else (None, None)
    portable = Portable.of(
        lm, i, base=hub_name(saved.question.model), direction=direction, train=train, test=test
    )
    record = write(portable, to, folder, overwrite=overwrite)
    if json:
        terminal.as_json({"folder": str(folder), **serial.plain(record)})
        return
    terminal.line(f"Written to {folder}: {target.summary}. Read {folder / 'README.md'}.")
    for sentence in record.approximate:
        terminal.line(f"Approximate: {sentence}")


def problems(saved: Saved, lm: LanguageModel) -> tuple[Problem, Problem]:
    """Some training pairs and the held-out pairs of the run, at the sites of the intervention."""
    from pivotal.problem.problem import Problem

    train, test = saved.divided(saved.question.load_pairs(), "Run again.", lm)
    lm = lm.in_bases(saved.intervention.bases)  # the basis of the intervention, not a new fit
    some = Problem(
        lm, train[:: max(1, len(train) // _PAIRS)], sites=saved.intervention.sites, steps=saved.question.steps
    )
    return some, some.on(test)


_PAIRS = 1000
"""About how many training pairs the activations are averaged over."""


def default_folder(phenomenon: str, steps: str, model: str, to: str) -> Path:
    """`exports/<phenomenon>-<steps>-<model>-<target>`."""
    parts = (phenomenon, steps, model, to)
    return Path("exports") / "-".join(re.sub(r"[^\w.]+", "-", part).strip("-") for part in parts)


def hub_name(spec: str) -> str | None:
    """The name of a model on the Hugging Face hub, if the spec is one; else None."""
    if spec.startswith("hf:"):
        return spec.removeprefix("hf:")
    return spec if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", spec) and not Path(spec).exists() else None
