"""Shows objects in a notebook: HTML for `_repr_html_`, charts for `plot`.

The classes are in lower layers, which must not import tables and charts. Their methods import this module when they are
called. Nothing here needs torch, so that saved results can be shown without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pivotal.printing import counted
from pivotal.questions.minimal_pair import shown
from pivotal.records.intervention import Intervention
from pivotal.report import certified, check, tables
from pivotal.report.drawing import Spec
from pivotal.report.figures import shares_chart, values_chart
from pivotal.report.next_steps import next_steps
from pivotal.report.tables import ByKind, Table, number, percent
from pivotal.report.templates import macros, source
from pivotal.report.trace import told, trace_chart, trace_table

if TYPE_CHECKING:
    from pivotal.evidence.evaluation import Evaluation
    from pivotal.jobs.run_folder import RunFolder
    from pivotal.problem.problem import Problem
    from pivotal.questions.pairs import PairSet
    from pivotal.records.certificate import Certificate
    from pivotal.records.check import CheckReport
    from pivotal.records.summary import Summary
    from pivotal.records.traces import Trace
    from pivotal.searches.base import Discovery

_PAIRS = 5
"""The number of pairs to show."""

# -- charts -----------------------------------------------------------------------------------------------------------


def plot_interventions(interventions: Sequence[Intervention]) -> Any:
    """The values of the units of all runs, most frequent units first."""
    count = Counter(unit for found in interventions for unit in found.units)
    runs = [
        {
            str(unit): {label: row[i] for label, row in found.shown_values.items()}
            for i, unit in enumerate(found.units)
        }
        for found in interventions
    ]
    return _chart(
        values_chart(runs, interventions[0].directions, [str(unit) for unit, _ in count.most_common()])
    )


def plot_shares(scores: ByKind) -> Any:
    """The shares of flipped preferences by construction and direction."""
    return _chart(shares_chart(scores))


def plot_trace(trace: Trace) -> Any:
    """Units, words, KL and layers over the steps."""
    return _chart(trace_chart(trace))


def _chart(spec: Spec) -> Any:
    """The chart as altair's object, which notebooks show."""
    import altair

    return altair.Chart.from_dict(spec)


# -- tables -----------------------------------------------------------------------------------------------------------


def pairs_html(pairs: PairSet) -> str:
    rows = [
        (_marked(pair.prefix, pair.cue), *map(shown, pair.words), pair.label, pair.group)
        for pair in pairs.pairs[:_PAIRS]
    ]
    columns = ("prefix, [cue]", *pairs.labels, "label", "group")
    more = len(pairs) - len(rows)
    groups = ", ".join(f"{name or 'without a name'} {count:,}" for name, count in pairs.groups.items())
    listed = Table("", columns, tuple(rows), note=f"And {more:,} more." if more else "")
    return _html(f"{pairs!r}", f"Groups: {groups}.", shown=[listed])


def problem_html(problem: Problem) -> str:
    to = Counter(problem.labels[direction] for direction in problem.direction.tolist())
    turned = " and ".join(f"{to[label]:,} to {label}" for label in problem.labels)
    right = problem.clean_accuracy
    said = (
        ""
        if right is None
        else f"The untouched model prefers the expected word in {percent(right)} of the pairs."
    )
    left = problem.rejected
    out = f"The model cannot score {counted(left.total, 'pair')}: {left.describe()}." if left.total else ""
    return _html(f"{problem!r}", f"Preferences to flip: {turned}.", said, out)


def intervention_html(intervention: Intervention) -> str:
    return _html(f"{intervention!r}", shown=[_units_table(intervention)])


def discovery_html(found: Discovery) -> str:
    rows = [
        (
            f"{run} (best)" if run == found.best_run else str(run),
            ", ".join(str(unit) for unit in one.units),
            str(len(one)),
            number(found.train_score[run]),
        )
        for run, one in enumerate(found.interventions)
    ]
    runs = Table("Runs", ("run", "units", "number", "training score"), tuple(rows), frozenset({2, 3}))
    return _html(shown=[runs, _units_table(found.best, f"Values, run {found.best_run}")])


def evaluation_html(scores: Evaluation) -> str:
    said = f"{flips_sentence(scores, 'preferences')} {tables.fidelity_sentence(scores.fidelity)}"
    shown = [tables.shares_table(scores)]
    if scores.drop_one:
        shown.append(tables.drop_one_table(scores.drop_one, scores.flip_accuracy.value))
    return _html(said, shown=shown)


def flips_sentence(scores: Evaluation, asked: str, where: str = "") -> str:
    """The scores in one sentence. `asked` are the pairs in words."""
    flips = scores.flip_accuracy
    return (
        f"{counted(scores.units, 'unit')}: {percent(flips.value)} of {flips.n:,} {asked} flipped{where} (95% interval "
        f"{tables.interval(flips.low, flips.high)}), KL {number(scores.kl)}, or {number(scores.kl_after_edit)} from "
        "the first edited step on."
    )


def certificate_html(certificate: Certificate) -> str:
    said = (certified.verdict(certificate), *certified.sentences(certificate))
    return _html(*said, shown=[certified.units_table(certificate)])


def check_text(report: CheckReport) -> str:
    """What a check found, a line for each sentence and each label."""
    known = report.knowledge.by_label.items() if report.knowledge else ()
    shares = [f"{label}: {tables.with_interval(part.accuracy)}" for label, part in known if part.accuracy]
    return "\n".join([*check.sentences(report), *shares, *(f"Warning: {said}" for said in report.warnings)])


def trace_html(trace: Trace) -> str:
    return f"<style>{source('trace.css')}</style>" + _html(told(trace)) + trace_table(trace)


def run_html(folder: RunFolder) -> str:
    """The tables of a finished run, or one line of text for an unfinished one."""
    return result_html(folder.summary()) if folder.finished else _html(repr(folder))


def result_html(summary: Summary) -> str:
    said = (*_told(summary), tables.control_sentence(summary), tables.clean_sentence(summary))
    return _html(*said, shown=[tables.units_table(summary)])


def result_text(summary: Summary) -> str:
    """A finished run in a few lines."""
    return "\n".join(_told(summary))


def _told(summary: Summary) -> list[str]:
    """What was found, and what to do about a weak verdict."""
    weak = summary.verdict is not None and summary.verdict.word in ("no evidence", "nudge")
    after = [f"Next: {step}" for step in next_steps(summary)] if weak else []
    return [*filter(None, tables.opening(summary)), *after]


def _html(*texts: str, shown: Sequence[Table] = ()) -> str:
    """A paragraph for each text that is not empty, and the tables."""
    made = macros()
    return str(made.paragraphs(texts)) + "".join(str(made.table(content)) for content in shown)


def _units_table(intervention: Intervention, title: str = "") -> Table:
    values = intervention.shown_values
    rows = [
        (str(unit), *(tables.activation(values[label][i]) for label in intervention.directions))
        for i, unit in enumerate(intervention.units)
    ]
    return tables.table(title, ("unit", *(f"→ {label}" for label in intervention.directions)), rows)


def _marked(prefix: str, cue: int | None) -> str:
    """A prefix with its cue in brackets."""
    if cue is None:
        return prefix
    words = prefix.split(" ")
    return " ".join([*words[:cue], f"[{words[cue]}]", *words[cue + 1 :]])
