"""Sentences and a table about a certificate: what holds, what was tried, what was assumed."""

from __future__ import annotations

from pivotal.records.certificate import Certificate, Judged, Look, Smaller
from pivotal.report.tables import Table, counted, number, percent, points, table


def verdict(certificate: Certificate) -> str:
    units = certificate.found.units
    these = f"these {len(units)} units" if len(units) > 1 else "this unit"
    if certificate.run is not None:
        these += f" (run {certificate.run})"
    if certificate.holds:
        others = "" if certificate.neighbours.best is None else "no swap that was tried is better, "
        proved = (
            f"every unit matters, {others}and no smaller set that was tried is as good"
            if len(units) > 1
            else "no other unit that was tried does better"
        )
        return f"The certificate holds for {these}: {proved}."
    reasons = []
    idle = [row.unit for row in certificate.without if not row.matters]
    if idle:
        reasons.append(f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} not needed")
    near = certificate.neighbours
    if not near.optimal and near.best is not None and near.swap is not None:
        out, in_ = near.swap
        reasons.append(f"with {in_} instead of {out} they flip {percent(near.best.flipped)}")
    for part in certificate.smaller:
        if part.enough:
            reasons.append(f"{' + '.join(part.best.units)} flips {percent(part.best.flipped)}")
    return f"The certificate does not hold for {these}: {'; '.join(dict.fromkeys(reasons))}."


def sentences(certificate: Certificate) -> list[str]:
    """A text each about leaving out, swapping, every smaller size, the assumptions, and ablation."""
    said = [_found(certificate), _without(certificate), _swaps(certificate)]
    said += [_smaller(certificate, part) for part in certificate.smaller]
    said.append(_reach(certificate))
    said.append(_assumed(certificate))
    if certificate.ablation:
        said.append(_ablation(certificate))
    return [text for text in said if text]


def _preferences(certificate: Certificate) -> str:
    return "preferences of all pairs" if certificate.pairs == "all" else "training preferences"


def _flips(judged: Judged) -> str:
    """Flips on training pairs, with KL and held-out flips in brackets."""
    held_out = "" if judged.flipped_test is None else f"; {percent(judged.flipped_test)} held out"
    broken = "" if judged.bound_kept else ", above the bound"
    return f"{percent(judged.flipped)} (KL {number(judged.kl)}{broken}{held_out})"


def _found(certificate: Certificate) -> str:
    found = certificate.found
    verb = "flip" if len(found.units) > 1 else "flips"
    return (
        f"The set: with values fitted {certificate.effort.polish} updates further, {' + '.join(found.units)} "
        f"{verb} {_flips(found)} of the {_preferences(certificate)}."
    )


def _without(certificate: Certificate) -> str:
    if not certificate.without:
        return ""
    most = max(certificate.without, key=lambda row: row.left.flipped)
    return (
        f"Leaving out: without any one unit, the others refitted, at most {_flips(most.left)} are flipped (without "
        f"{most.unit})."
    )


def _swaps(certificate: Certificate) -> str:
    near, effort = certificate.neighbours, certificate.effort
    if near.best is None or near.swap is None:
        return "Swapping: the set contains all units, so there is no other unit to swap in."
    whole = near.tried == near.there_are
    chosen = "all" if whole else f"{near.tried:,} (the highest first-order gains)"
    out, in_ = near.swap
    kept, more = _kept(certificate, certificate.found), points(effort.epsilon).lstrip("+")
    claim = (
        f"none{kept} flips more than {more} points more, beyond two standard errors"
        if near.optimal
        else f"some flip more than {more} points more"
    )
    text = (
        f"Swapping: of the {near.there_are:,} sets that differ in one unit, {chosen} were run at {effort.points} "
        f"values per direction and the best {near.refitted} refitted; {claim}. The best of them, {in_} instead "
        f"of {out}, flips {_flips(near.best)}."
    )
    if near.audited:
        text += f" Of the swaps that were not screened in, {near.audited} were drawn at random: "
        limit = percent(min(1.0, 3 / near.audited))
        text += (
            f"none scored well enough to be refitted, so with 95% confidence fewer than {limit} of them would."
            if not near.audit_hits
            else f"{near.audit_hits} scored well enough to be refitted, so the screening may have missed "
            "others; --exact tries all."
        )
    return text


def _smaller(certificate: Certificate, part: Smaller) -> str:
    what = "single unit" if part.size == 1 else f"set of up to {part.size} units"
    what += _kept(certificate, part.best)
    first, *closer = part.looks
    if first.sets == part.there_are:
        tried = f"all {part.there_are:,} were"
    else:
        tried = (
            f"{first.sets:,} of {part.there_are:,} (the {certificate.effort.first} best single units with "
            "their most promising partners) were"
        )
    again = "".join(f", the best {look.sets:,} again {_look(look)}" for look in closer)
    return (
        f"Size {part.size}: no {what} was found to flip more than {_flips(part.best)}, by "
        f"{' + '.join(part.best.units)}: {tried} run {_look(first)}{again}, and the best {part.refitted} "
        "refitted."
    )


def _reach(certificate: Certificate) -> str:
    """What natural ranges cost, and how far larger sets get inside them; empty for a set with other values."""
    reach = certificate.reach
    if reach is None:
        return ""
    text = (
        "Range: the values of all these sets stay inside the natural ranges of their units. With values that may leave "
        f"them, the same units flip {_flips(reach.lifted)}."
    )
    if not reach.larger:
        return text
    listed = ", ".join(f"{len(one.units):,} units flip {_flips(one)}" for one in reach.larger)
    most = max(one.flipped for one in (certificate.found, *reach.larger))
    return (
        f"{text} Larger sets inside the ranges, with the units of the highest first-order gain added: {listed}. No "
        f"larger set that was tried flips more than {percent(most)} inside the ranges."
    )


def _kept(certificate: Certificate, judged: Judged) -> str:
    """If the set keeps its bounds, sets that exceed one do not count, even if they flip more."""
    bounds = _bounds(certificate)
    return f" that keeps {bounds}" if bounds and judged.bound_kept else ""


def _bounds(certificate: Certificate) -> str:
    bounds = [f"KL within {certificate.max_kl:g}"] if certificate.max_kl is not None else []
    if certificate.max_change is not None:
        bounds.append(f"the change of each kept question within {certificate.max_change:g}")
    return " and ".join(bounds)


def _look(look: Look) -> str:
    return f"at {look.points} values of each unit and direction on {look.prefixes:,} prefixes"


def _assumed(certificate: Certificate) -> str:
    prefixes = certificate.prefixes
    bounds, kept = _bounds(certificate), ""
    if bounds:
        kept = f" Only sets that keep {bounds} (and a tenth) count as better"
        kept += (
            "." if certificate.found.bound_kept else "; swaps may exceed that, because the set itself does."
        )
    held_out = "" if certificate.pairs == "all" else " Held-out pairs decided nothing."
    return (
        f"Assumed: that runs at the tried values, of swaps on {prefixes.tried:,} prefixes, tell which sets are "
        f"worth refitting; refitted sets are compared on {prefixes.judged:,} prefixes, their KL on "
        f"{prefixes.kl:,}, values as {certificate.effort.polish} updates leave them.{kept}{held_out}"
    )


def _ablation(certificate: Certificate) -> str:
    rows = certificate.ablation
    found = [row.unit for row in rows if row.found]
    which = f"{len(found)} of the {counted(len(rows), 'unit')}" + (f" ({', '.join(found)})" if found else "")
    return (
        "Single-unit ablation (each unit alone set to zero at every step, more than 10 points of accuracy lost in some "
        f"condition) would have found {which}."
    )


def units_table(certificate: Certificate) -> Table:
    """Per unit: the flips without it, and the result of single-unit ablation."""
    without = {row.unit: row for row in certificate.without}
    found = certificate.found.flipped
    rows = []
    for row in certificate.ablation:
        left = without.get(row.unit)
        rows.append(
            (
                row.unit,
                "–" if left is None else percent(left.left.flipped),
                "–" if left is None else points(left.left.flipped - found),
                str(row.rank),
                points(-row.drop),
                "yes" if row.found else "no",
            )
        )
    columns = (
        "unit",
        "flipped without it",
        "points",
        "rank by ablation",
        "ablation, points",
        "found by ablation",
    )
    return table("Unit by unit", columns, rows)
