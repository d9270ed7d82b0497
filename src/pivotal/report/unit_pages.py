"""A page for each unit of the chosen run, inside the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from pivotal.errors import PivotalError
from pivotal.jobs.run_folder import INTERVENTIONS, RUN, RunFolder
from pivotal.records.intervention import CARD, Intervention
from pivotal.records.summary import Summary
from pivotal.records.unit_profiles import Histogram, Moment, UnitProfile, UnitProfiles, Written
from pivotal.report.drawing import BY_LABEL, HOVER, WIDTH, Figure, draw
from pivotal.report.html import Section, figure_of, paragraph, table_of
from pivotal.report.tables import Table, drop_of, percent, points, signed, table
from pivotal.report.trace import activation
from pivotal.report.units import anchor, shown_value

_MOST_BESIDE = 200
"""The most interventions of run folders beside this one that are searched for the same units."""


def unit_sections(folder: RunFolder, summary: Summary, profiles: UnitProfiles) -> list[Section]:
    """A page for each unit that has a profile."""
    beside = list(_beside(folder))
    bases = _bases(folder.intervention(summary.best)) if summary.best < folder.runs_saved() else {}
    shown = profiles.profiles
    made = []
    for i, profile in enumerate(shown):
        near = [("Previous", one) for one in shown[:i][-1:]] + [("Next", one) for one in shown[i + 1 : i + 2]]
        links = ['<a href="#the-units">All units</a>']
        links += [f'<a href="#{anchor(one.unit)}">{word}: {one.number}</a>' for word, one in near]
        content = (
            f"<p class=crumbs>{' · '.join(links)}</p>"
            + paragraph(_introduction(summary, profile))
            + figure_of(histogram_figure(profile))
            + _words(profile, profiles)
            + _written(profile)
            + '<h3>Along the stored sentences</h3><div class=along data-unit="' + escape(profile.unit) + '">'
            "<noscript><p>The course of the unit is drawn by a script.</p></noscript></div>"
            + _elsewhere(summary, profile, bases, beside)
        )  # fmt: skip
        made.append(Section(f"Unit {profile.number} ({profile.unit})", content, anchor=anchor(profile.unit)))
    return made


def _introduction(summary: Summary, profile: UnitProfile) -> str:
    said = " and ".join(
        f"{activation(value)} for {label}" for label, value in profile.values.items() if value is not None
    )
    drop = drop_of(summary.best_run, profile.unit)
    lost = "" if drop is None else f" Without it, flipped preferences change by {points(drop)} points."
    how = "is on average set" if summary.values == "interchange" else "is set"
    return f"It {how} to {said}. Its mean natural state is {activation(profile.mean)}.{lost}"


def histogram_figure(profile: UnitProfile) -> Figure:
    """The natural states of a unit, and the values that it is set to."""
    natural = profile.natural
    width = _width(natural)
    rows = [
        (activation(natural.low + b * width), *(f"{counts[b]:,}" for counts in natural.counts.values()))
        for b in range(len(next(iter(natural.counts.values()))))
    ]
    values = ", ".join(
        f"{activation(value)} for {label}" for label, value in profile.values.items() if value is not None
    )
    total = sum(map(sum, natural.counts.values()))
    return Figure(
        f"states-{anchor(profile.unit)}",
        "Natural states, and the values that it is set to",
        f"Histogram of {total:,} states in the untouched model at the edited steps, by the label that the model "
        f"prefers there. Vertical lines are the values that the unit is set to: {values}.",
        draw(_histogram_chart(profile)),
        table("", ("from", *(f"prefers {label}" for label in natural.counts)), rows),
    )


def _width(natural: Histogram) -> float:
    return (natural.high - natural.low) / len(next(iter(natural.counts.values())))


def _histogram_chart(profile: UnitProfile) -> Any:
    import altair as alt

    natural, width = profile.natural, _width(profile.natural)
    labels = list(natural.counts)
    # Shares, because there may be more states of one label than of the other.
    ends = [natural.low + b * width for b in range(len(next(iter(natural.counts.values()))) + 1)]
    bars = [
        {"from": ends[b], "to": ends[b + 1], "share": count / max(1, sum(counts)), "none": 0,
         "label": f"prefers {label}",
         "hover": f"{activation(ends[b])} to {activation(ends[b + 1])}: {count:,} states that prefer {label}"}
        for label, counts in natural.counts.items() for b, count in enumerate(counts) if count
    ]  # fmt: skip
    lines = [
        {"value": value, "label": label, "colour": colour, "hover": f"Set to {activation(value)} for {label}"}
        for (label, value), colour in zip(profile.values.items(), BY_LABEL, strict=False)
        if value is not None
    ]
    colour = alt.Color(
        "label:N",
        title=None,
        scale=alt.Scale(domain=[f"prefers {label}" for label in labels], range=list(BY_LABEL)),
    )
    states = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(opacity=0.5, **HOVER)
        .encode(
            x=alt.X("from:Q", title="state of the unit", scale=alt.Scale(zero=False, nice=False, padding=8)),
            x2="to:Q",
            y=alt.Y("share:Q", title="share of states", stack=None, axis=alt.Axis(format="%", tickCount=4)),
            y2="none:Q",
            color=colour,
            description="hover:N",
        )
    )
    values = alt.Chart(alt.Data(values=lines)).mark_rule(strokeWidth=3, **HOVER).encode(
        x="value:Q", color=alt.Color("colour:N", scale=None), description="hover:N"
    )  # fmt: skip
    names = alt.Chart(alt.Data(values=lines)).mark_text(
        baseline="bottom", fontSize=13, color="currentColor", dy=-8
    ).encode(x="value:Q", y=alt.value(0), text=alt.Text("label:N"))  # fmt: skip
    return (
        alt.layer(states, values + names)
        .resolve_scale(color="independent")
        .properties(width=WIDTH - 110, height=150)
    )


def _words(profile: UnitProfile, profiles: UnitProfiles) -> str:
    heading = "<h3>Highest and lowest in ordinary text</h3>"
    if not profiles.tokens:
        return heading + paragraph(f"This model does not know most of the words of {profiles.text}.")
    said = f"The words of {profiles.text} ({profiles.tokens:,} tokens) after which the unit is highest and lowest."
    return (
        heading
        + paragraph(said)
        + "<div class=columns>"
        + _contexts("Highest", profile.highest)
        + _contexts("Lowest", profile.lowest)
        + "</div>"
    )


def _contexts(title: str, moments: Sequence[Moment]) -> str:
    items = "".join(
        f"<li><b>{activation(one.value)}</b> <span>{escape(one.before)} <mark>{escape(one.word)}</mark> "
        f"{escape(one.after)}</span></li>"
        for one in moments
    )
    return f"<div><h4>{title}</h4><ol class=contexts>{items}</ol></div>"


def _written(profile: UnitProfile) -> str:
    heading = "<h3>What it writes to the output</h3>"
    if profile.written is None:
        return heading + paragraph("The direct path of this unit to the output is not known for this model.")
    if not profile.written:
        return heading + paragraph(
            "This unit has no direct path to the output. It acts through later layers."
        )
    said = (
        "The words whose logits change most if this unit alone is set at the last word: through no later layer and no "
        "later step, relative to the mean over the vocabulary."
    )
    tables = "".join(
        f"<div>{table_of(_written_table(label, written))}</div>" for label, written in profile.written.items()
    )
    return heading + paragraph(said) + f"<div class=columns>{tables}</div>"


def _written_table(label: str, written: Written) -> Table:
    rows = []
    for i in range(max(len(written.up), len(written.down))):
        cells = []
        for side in (written.up, written.down):
            cells += [side[i].word, signed(side[i].logit)] if i < len(side) else ["", ""]
        rows.append(tuple(cells))
    asked = ", ".join(f"“{one.word}” {signed(one.logit)}" for one in written.asked)
    note = f"Words asked about: {asked}." if asked else ""
    return Table(f"→ {label}", ("raised", "logit", "lowered", "logit"), tuple(rows), frozenset({1, 3}), note)


# -- other interventions -----------------------------------------------------------------------------------


def _elsewhere(
    summary: Summary,
    profile: UnitProfile,
    bases: Mapping[str, str],
    beside: Sequence[tuple[str, Intervention]],
) -> str:
    """The other interventions that set this unit: the other runs of this folder, and the run folders beside it. In
    another basis of its site, the same name means another direction."""
    site = profile.unit.rpartition(":")[0]
    rows = []
    for r, run in enumerate(summary.runs):
        if r != summary.best and profile.unit in run.unit_labels:
            i = run.unit_labels.index(profile.unit)
            values = ", ".join(f"→ {label} {shown_value(run.values[label][i])}" for label in summary.labels)
            rows.append((f"run {r}", summary.phenomenon, values, str(run.units), percent(run.flip_accuracy)))
    for where, one in beside:
        names = [str(unit) for unit in one.units]
        if profile.unit in names and _bases(one).get(site) == bases.get(site):
            i = names.index(profile.unit)
            values = ", ".join(f"→ {label} {shown_value(row[i])}" for label, row in one.shown_values.items())
            flipped = one.scores.get("flip_accuracy")
            share = percent(flipped) if isinstance(flipped, int | float) else "–"
            rows.append((where, one.phenomenon, values, str(len(one)), share))
    heading = "<h3>In other interventions</h3>"
    if not rows:
        several = "no other run of this folder, and " if len(summary.runs) > 1 else ""
        return heading + paragraph(
            f"{several}no run in a folder beside this one sets this unit.".capitalize()
        )
    columns = ("intervention", "phenomenon", "values", "units", "flipped")
    return heading + table_of(Table("", columns, tuple(rows), frozenset({3, 4})))


def _bases(intervention: Intervention) -> dict[str, str]:
    """The fingerprints of the bases of an intervention, by site."""
    return {site: basis.card.fingerprint for site, basis in intervention.bases.items()}


def _beside(folder: RunFolder) -> Iterator[tuple[str, Intervention]]:
    """The interventions of the same model in the run folders beside this one. Folders that cannot be read are left
    out: they are not part of this run."""
    fingerprint = folder.settings.get("model_fingerprint")
    try:
        here = folder.path.resolve()
        others = sorted(path.parent for path in here.parent.glob(f"*/{RUN}") if path.parent != here)
    except OSError:
        return
    cards = (card for other in others for card in sorted(other.glob(f"{INTERVENTIONS}/*/{CARD}")))
    for card in islice(cards, _MOST_BESIDE):
        try:
            one = Intervention.load(card.parent)
        except (PivotalError, OSError):
            continue
        if one.model_fingerprint == fingerprint:
            yield f"{card.parents[2].name}, run {card.parent.name}", one
