"""From a run folder to its certificate.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pivotal.certificate import Effort, certify
from pivotal.errors import PivotalError
from pivotal.finding import Question, Watch
from pivotal.intervention import Intervention
from pivotal.objective import Terms
from pivotal.options import build
from pivotal.runs import CERTIFICATE, RunFolder
from pivotal.searches import SEARCHES
from pivotal.searches.ablation import found_by_ablation


def terms_of(settings: dict[str, Any]) -> Terms:
    """The loss that a run was searched with; the default one where the settings name no search."""
    chosen = settings.get("search")
    if not isinstance(chosen, dict):
        return Terms(kl_weight=0.1)
    options = {name: value for name, value in chosen.items() if name != "name"}
    return build(SEARCHES.get(chosen["name"]), options).terms


def certify_run(
    intervention: Intervention,
    question: Question,
    folder: RunFolder | None,
    *,
    effort: Effort | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """The certificate of an intervention as JSON has it, written into the run's folder where there is one.

    With a run, its training pairs decide and its held-out pairs report; without one, all pairs decide.
    """
    model, pairs = question.load_model(device), question.load_pairs()
    test = None
    if folder is not None:
        if pairs.fingerprint() != folder.settings.get("data_fingerprint"):
            raise PivotalError(
                f"A certificate is made on the pairs of the run, but those of '{question.phenomenon}' have changed "
                "since. Run the search again."
            )
        pairs, held_out = question.divide(pairs)
        test = question.problem(model, held_out)
    train = question.problem(model, pairs)
    progress = watch.progress if watch is not None else None
    made = certify(
        intervention,
        train,
        terms=terms_of(folder.settings if folder is not None else {}),
        test=test,
        effort=effort,
        seed=question.seed,
        progress=progress,
    )
    content = {
        "model": model.name,
        "phenomenon": train.pairs.name,
        "steps": train.steps,
        "all_units": len(train.space),
        **made.as_dict(),
        "ablation": [
            {**asdict(row), "unit": str(row.unit)} for row in found_by_ablation(intervention, train)
        ],
    }
    if folder is not None:
        folder.write_json(CERTIFICATE, content)
    return content
