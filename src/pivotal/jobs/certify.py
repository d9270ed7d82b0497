"""Certifies the intervention of a run folder."""

from __future__ import annotations

from typing import Any

from pivotal.evidence.certify import certify
from pivotal.jobs.run_folder import RunFolder
from pivotal.options import build
from pivotal.problem.objective import Terms
from pivotal.problem.prepare import as_read, model_of, training_problem
from pivotal.questions.question import Question
from pivotal.records.certificate import Certificate, Effort
from pivotal.records.intervention import Intervention
from pivotal.records.serial import replace
from pivotal.searches import SEARCHES
from pivotal.searches.base import Progress
from pivotal.searches.tools.ablation import found_by_ablation
from pivotal.watch import Silent, Watch


def terms_of(settings: dict[str, Any]) -> Terms:
    """The terms of the loss that a run used."""
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
    run: int | None = None,
    terms: Terms | None = None,
    effort: Effort | None = None,
    device: str | None = None,
    download: bool = True,
    watch: Watch | None = None,
) -> Certificate:
    """The certificate of an intervention.

    With a run folder, sets are compared on its training pairs and also scored on its held-out pairs. Without one, sets
    are compared on all pairs. `download=False` loads only a model that is on this machine.
    """
    model, pairs = model_of(question, device, download=download), question.load_pairs()
    if folder is None:
        intervention.check_pairs(pairs.fingerprint(), "Certify it in its run folder.")
    else:
        folder.check_pairs(question, pairs, "Or run the search again.")
    asked = as_read(question, model, pairs)
    asked, held_out = (asked, None) if folder is None else question.divide(asked)
    # The intervention carries a part of its bases only. A folder without a large one names where it is read from.
    model = model.in_bases(intervention.bases if folder is None else folder.bases())
    train = training_problem(question, model, asked)
    progress = (watch or Silent()).progress
    made = certify(
        intervention,
        train,
        terms=terms or terms_of(folder.settings if folder is not None else {}),
        test=None if held_out is None else train.on(held_out),
        effort=effort,
        seed=question.seed,
        progress=progress,
    )
    progress(Progress("ablating single units", 4, 5))
    return replace(
        made,
        model=model.name,
        phenomenon=train.pairs.name,
        steps=train.steps,
        all_units=len(train.space),
        run=run,
        pairs="train" if folder is not None else "all",
        ablation=found_by_ablation(intervention.units, train),
    )
