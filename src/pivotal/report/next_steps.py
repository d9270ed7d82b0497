"""What to do next about a run: at most two suggestions. All rules are in this file, the most useful first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pivotal.printing import counted
from pivotal.records.certificate import Certificate
from pivotal.records.evidence import Check
from pivotal.records.summary import Summary
from pivotal.report.tables import percent

_MOST = 2
_CERTIFY = "`pivotal certify` tests whether each unit is needed and whether other units would suffice."
_SIDE_EFFECTS = ("through the model", "ordinary text", "other phenomena")
_DROP = 0.2
"""The least loss of training flips on the way to the final units for which more units are suggested."""
_HARDLY, _MOSTLY = 0.1, 0.5
"""A direction that flips less than the first share, while the other flips at least the second, is pointed out."""


def next_steps(summary: Summary, certificate: Certificate | None = None) -> list[str]:
    """The suggestions, the most useful first; none for a run without a verdict."""
    if summary.verdict is None:
        return []
    # A damaged summary may lack some checks. They count as not made.
    missing = Check(name="", passed=None, found="")
    checks = defaultdict(lambda: missing, {check.name: check for check in summary.verdict.checks})
    asking = list(_question(checks))  # before the question is right, nothing else matters
    certify = [_CERTIFY] * (certificate is None or certificate.run != summary.best)
    return (asking or [*_flips(summary, checks), *_evidence(summary, checks), *certify])[:_MOST]


def _question(checks: Mapping[str, Check]) -> Iterator[str]:
    if checks["both directions"].passed is False:
        yield ("Hold out more prefixes to flip to each label: write more sentences, or use a larger --test.")
    if checks["the model knows it"].passed is not True and "the lists differ" not in checks:
        look = "See what the model knows: `pivotal check` shows by label and group how often it is right."
        yield checks["the model knows it"].cure or look
    if checks["likely words"].passed is False:
        yield "Ask about words that the model expects there: `pivotal check` shows how likely they are."


def _flips(summary: Summary, checks: Mapping[str, Check]) -> Iterator[str]:
    if checks["flips"].passed is not False:
        return
    run = summary.best_run
    # A search may end with fewer units than it was allowed, since it drops those that flip nothing.
    allowed = max(summary.units, int(run.stages.get("hard", {}).get("units", 0)))
    more = f"Allow more units, e.g. --max-units {2 * allowed}"
    accuracies = [stage["accuracy"] for stage in run.stages.values() if "accuracy" in stage]
    if accuracies and max(accuracies) - accuracies[-1] >= _DROP:
        yield (
            f"{more}, or more --updates: on training pairs the search flipped {percent(max(accuracies))} before it was "
            f"left with {counted(summary.units, 'unit')}, which flip {percent(accuracies[-1])}."
        )
    else:
        yield f"{more}."
    shares = {label: share.value for label, share in run.by_direction.items()}
    worst = min(shares, key=lambda label: shares[label], default="")
    if worst and shares[worst] < _HARDLY and max(shares.values()) >= _MOSTLY:
        yield (
            f"Look at the sentences to flip to “{worst}”: {percent(shares[worst])} of them flip. --masks per-direction "
            "chooses units for each direction."
        )


def _evidence(summary: Summary, checks: Mapping[str, Check]) -> Iterator[str]:
    control = checks["random sets"]
    if control.passed is None:
        yield "Repeat the command with --controls 99: the verdict depends on how often random sets flip."
    elif control.passed is False and checks["flips"].passed is not False:
        yield (
            "Random sets of the same size do as well. Try fewer --max-units, or --values natural or interchange."
        )
    if checks["natural values"].passed is False and checks["natural values"].cure:
        yield checks["natural values"].cure
    side_effects = {name for name in _SIDE_EFFECTS if checks[name].passed is False}
    if side_effects and summary.objective == "flips" and summary.best_run.fidelity is not None:
        yield (
            "Search with --objective counterfactual, which learns the whole prediction after the counterfactual prefix "
            "instead of two words. Such units often have fewer side effects."
        )
    free = summary.kept is None and summary.max_kl is None
    if free and side_effects - {"through the model"}:
        yield "Bound the side effects: --keep text, --keep with a question that must not change, or --max-kl."
    if summary.evidence is None or summary.evidence.level != "full":
        yield "Make the missing checks: repeat the command with --evidence full."
