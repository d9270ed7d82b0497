"""The content of card.json."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import torch

from pivotal.lm.learner import SeedLearner
from pivotal.lm.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pivotal.lm.loop import TrainingCourse


def model_card(
    name: str,
    learner: SeedLearner,
    course: TrainingCourse,
    words: Vocabulary,
    about: dict[str, Any],
    validation: dict[str, Any],
) -> dict[str, Any]:
    """The card of one seed at this point of the training; `about` has the recipe, the command and the plan."""
    settings = course.settings
    return {
        "name": name,
        "summary": f"{settings.cell.upper()} of {settings.layers} x {settings.hidden} units, trained on "
        f"{', '.join(file['file'] for file in about['corpus'][:3])}; {len(words):,} words",
        "recipe": about["recipe"],
        "command": about["command"],
        "seed": learner.seed,
        "validation": {
            "tokens": len(course.valid),
            "state": "carried from sentence to sentence; every <eos> is predicted",
            **validation,
        },
        "tokens": {"corpus": learner.tokens, "read": course.tokens},
        "updates": course.step,
        "seconds": round(course.seconds, 1),
        "tokens_per_second": round(course.speed),
        "device": torch.cuda.get_device_name(learner.device) if learner.device.type == "cuda" else "cpu",
        "versions": _versions(),
        "training": {key: value for key, value in about.items() if key not in ("recipe", "command")},
    }


def _versions() -> dict[str, str]:
    from pivotal import __version__

    return {"pivotal": __version__, "torch": torch.__version__, "python": platform.python_version()}
