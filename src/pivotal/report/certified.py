"""A certificate in words and as a table. The text template is `assets/report/certificate.txt`."""

from __future__ import annotations

from pivotal.records.certificate import Certificate
from pivotal.report.tables import Table, percent, points, table
from pivotal.report.templates import texts


def verdict(certificate: Certificate) -> str:
    units, near = certificate.found.units, certificate.neighbours
    these = f"these {len(units)} units" if len(units) > 1 else "this unit"
    if certificate.run is not None:
        these += f" (run {certificate.run})"
    if certificate.holds:
        others = "" if near.best is None else "no swap that was tried is better, "
        proved = f"every unit matters, {others}and no smaller set that was tried is as good"
        alone = "no other unit that was tried does better"
        return f"The certificate holds for {these}: {proved if len(units) > 1 else alone}."
    reasons = []
    if idle := [row.unit for row in certificate.without if not row.matters]:
        reasons.append(f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} not needed")
    if not near.optimal and near.best is not None and near.swap is not None:
        out, in_ = near.swap
        reasons.append(f"with {in_} instead of {out} they flip {percent(near.best.flipped)}")
    enough = [part.best for part in certificate.smaller if part.enough]
    reasons += [f"{' + '.join(best.units)} flips {percent(best.flipped)}" for best in enough]
    return f"The certificate does not hold for {these}: {'; '.join(dict.fromkeys(reasons))}."


def sentences(certificate: Certificate) -> list[str]:
    """A text each about leaving out, swapping, every smaller size, the assumptions, and ablation."""
    bounds = [f"KL within {certificate.max_kl:g}"] if certificate.max_kl is not None else []
    if certificate.max_change is not None:
        bounds.append(f"the change of each kept question within {certificate.max_change:g}")
    return texts("certificate.txt", certificate=certificate, bounds=" and ".join(bounds))


def units_table(certificate: Certificate) -> Table:
    """Per unit: the flips without it, and the result of single-unit ablation if that was measured."""
    without = {row.unit: row.left.flipped for row in certificate.without}
    ablated = {row.unit: row for row in certificate.ablation}
    rows = []
    for unit in certificate.found.units:
        left, alone = without.get(unit), ablated.get(unit)
        lost = None if left is None else left - certificate.found.flipped
        said = (str(alone.rank), points(-alone.drop), "yes" if alone.found else "no") if alone else ()
        rows.append((unit, percent(left), points(lost), *said))
    which = certificate.pairs.replace("train", "training")
    columns = ("rank by ablation", "ablation, points", "found by ablation") if ablated else ()
    columns = ("unit", f"flipped without it ({which} pairs, others refitted)", "points", *columns)
    return table("Unit by unit", columns, rows)
