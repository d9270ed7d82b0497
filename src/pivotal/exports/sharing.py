"""The folder of a repository on the Hugging Face hub: an intervention with its card, scores and adapters."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError
from pivotal.exports.base import Portable
from pivotal.exports.peft import PeftTarget
from pivotal.exports.texts import inline, literal, python_block
from pivotal.files import disk, write_text
from pivotal.records.intervention import Intervention

ADAPTERS = "adapters"


@dataclass(frozen=True)
class Shared:
    """What is shared, and what its card says about it."""

    intervention: Intervention
    repository: str
    """ORG/NAME"""
    base_model: str | None = None
    """The name of the model on the hub."""
    license: str | None = None
    """The licence of the model, which its adapters inherit."""
    pairs: int | None = None
    """The number of held-out pairs behind the scores."""
    files: tuple[Path, ...] = ()
    """Further files, such as certificate.json and report.html."""
    portable: Portable | None = None
    """For adapters; None for models that peft does not know."""
    notes: list[str] = field(default_factory=list)
    """What is missing from the folder, a sentence each."""


def write_shared(shared: Shared, folder: Path) -> None:
    """Write the folder of the repository."""
    with disk(folder):
        shared.intervention.save(folder)
        for path in shared.files:
            shutil.copyfile(path, folder / path.name)
    about = () if shared.portable is None else _adapters(shared, shared.portable, folder)
    write_text(folder / "README.md", f"---\n{_metadata(shared)}\n---\n\n{_text(shared, folder, about)}")


def _adapters(shared: Shared, portable: Portable, folder: Path) -> tuple[str, ...]:
    """Write the adapters, and return how they differ from the intervention, a sentence each."""
    target = PeftTarget()
    (folder / ADAPTERS).mkdir()
    try:
        target.check_steps(portable.intervention.steps)
        return target.write(portable, folder / ADAPTERS).approximate
    except PivotalError as error:
        shutil.rmtree(folder / ADAPTERS)
        shared.notes.append(f"There are no adapters: {error}")
        return ()


def _metadata(shared: Shared) -> str:
    """The YAML of the card. huggingface_hub writes it, so that the hub can read it."""
    hub = library()
    i = shared.intervention
    dataset = {"dataset_type": inline(i.phenomenon), "dataset_name": inline(i.phenomenon)}
    metrics = [
        ("flip_accuracy", "Flipped preferences", i.scores.get("flip_accuracy")),
        ("units", "Units", len(i)),
        ("kl", "KL from the untouched model", i.scores.get("kl")),
    ]
    results = [
        hub.EvalResult(
            task_type="text-generation", metric_type=kind, metric_name=name, metric_value=value, **dataset
        )
        for kind, name, value in metrics
        if isinstance(value, int | float)
    ]
    based = {"base_model": shared.base_model, "base_model_relation": "adapter"} if shared.base_model else {}
    data = hub.ModelCardData(
        library_name="pivotal",
        license=shared.license,
        tags=["pivotal", "interpretability", "intervention", "sparse-intervention"],
        model_name=shared.repository.rpartition("/")[2],
        eval_results=results,
        **based,
    )
    return str(data.to_yaml())


def _text(shared: Shared, folder: Path, about_adapters: tuple[str, ...]) -> str:
    i = shared.intervention
    units = "one unit" if len(i) == 1 else f"{len(i)} units"
    when = "at every step" if i.steps == "every" else "at one word"
    named = [inline(label) for label in i.directions]
    parts = [
        f"# {inline(i.phenomenon)} in {inline(i.model)}",
        f"An intervention: {units} of {inline(i.model)}, set to fixed values {when}, flip the preference of the model "
        f"between {named[0]} and {named[1]} ({inline(i.phenomenon)}). pivotal found it.",
        _scores(shared),
        "## Use",
        f"```\npivotal pull {shared.repository}\n```",
        "The values belong to one model, fingerprint "
        f"`{inline(i.model_fingerprint)}`, and pivotal refuses to apply them to another.",
    ]
    if (folder / ADAPTERS).is_dir():
        first = next(path.name for path in sorted((folder / ADAPTERS).iterdir()))
        base = literal(shared.base_model or i.model)
        parts += [
            "With peft, and without pivotal:",
            python_block(
                "from peft import PeftModel",
                "from transformers import AutoModelForCausalLM",
                "",
                f"model = AutoModelForCausalLM.from_pretrained({base}, dtype='float32')",
                f"model = PeftModel.from_pretrained(model, {shared.repository!r}, subfolder='{ADAPTERS}/{first}')",
            ),
            *about_adapters,
        ]
    parts += ["## Units", "\n".join(f"- `{unit}`" for unit in i.units)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _scores(shared: Shared) -> str:
    scores = shared.intervention.scores
    flips, interval, kl = (scores.get(name) for name in ("flip_accuracy", "interval", "kl"))
    if not isinstance(flips, int | float):
        return ""
    pairs = f"{shared.pairs:,} held-out pairs" if shared.pairs else "held-out pairs"
    text = f"On {pairs} it flips {flips:.1%} of the preferences"
    if (
        isinstance(interval, list | tuple)
        and len(interval) == 2
        and all(isinstance(end, int | float) for end in interval)
    ):
        text += f" (95% interval {interval[0]:.1%} to {interval[1]:.1%})"
    return text + (f", with a KL of {kl:.3g}." if isinstance(kl, int | float) else ".")


def library() -> Any:
    """The package huggingface_hub. Raises PivotalError if it is not installed."""
    try:
        import huggingface_hub
    except ImportError:
        raise PivotalError(
            "Sharing needs the package huggingface_hub, which is not installed. Install pivotal[hf]."
        ) from None
    return huggingface_hub
