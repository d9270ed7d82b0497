"""A certificate in words that a paper can cite: what holds, what was evaluated, what was assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivotal.report.tables import Table, counted, number, percent, points, table

Certificate = Mapping[str, Any]


def verdict(certificate: Certificate) -> str:
    found = certificate["found"]
    units = counted(len(found["units"]), "unit")
    if certificate["holds"]:
        proved = (
            "every one of them matters, and no swap of one unit is better"
            if len(found["units"]) > 1
            else "no other unit does better"
        )
        return f"The certificate holds for these {units}: {proved}."
    idle = [row["unit"] for row in certificate["without"] if not row["matters"]]
    reasons = [f"{', '.join(idle)} {'is' if len(idle) == 1 else 'are'} not needed"] if idle else []
    if not certificate["neighbours"]["optimal"]:
        out, in_ = certificate["neighbours"]["swap"]
        reasons.append(f"{in_} in the place of {out} is better")
    return f"The certificate does not hold for these {units}: {'; '.join(reasons)}."


def sentences(certificate: Certificate) -> list[str]:
    """One each on leaving out, on swapping, and on every smaller size; all about training pairs."""
    said = [_without(certificate), _swaps(certificate)]
    said += [_smaller(certificate, part) for part in certificate["smaller"]]
    said.append(_assumed(certificate))
    if certificate.get("ablation"):
        said.append(_ablation(certificate))
    return [text for text in said if text]


def _without(certificate: Certificate) -> str:
    if not certificate["without"]:
        return ""
    found = certificate["found"]
    least = max(certificate["without"], key=lambda row: row["left"]["flipped"])
    return (
        f"Leaving out: the set flips {percent(found['flipped'])} of the training preferences; without any one unit, "
        f"the others refitted, at most {percent(least['left']['flipped'])} (without {least['unit']})."
    )


def _swaps(certificate: Certificate) -> str:
    near, effort, found = certificate["neighbours"], certificate["effort"], certificate["found"]
    chosen = (
        "all" if near["tried"] == near["there_are"] else f"{near['tried']:,} (the highest first-order gains)"
    )
    out, in_ = near["swap"]
    best = (
        f"the best of them, {in_} in the place of {out}, flips {percent(near['best']['flipped'])} at a loss of "
        f"{number(near['best']['score'])} against {percent(found['flipped'])} and {number(found['score'])}"
    )
    claim = (
        f"none is better by more than {points(effort['epsilon']).lstrip('+')} points"
        if near["optimal"]
        else "one is better"
    )
    text = (
        f"Swapping: of the {near['there_are']:,} sets that differ in one unit, {chosen} were run at {effort['points']} "
        f"values per direction and the best {effort['finalists']} refitted; {claim} ({best})."
    )
    if near["audited"]:
        text += f" Of {near['audited']} others drawn at random, {near['audit_hits']} would have been among the best"
        text += (
            f": with 95% confidence fewer than {percent(min(1.0, 3 / near['audited']))} of those not run would be."
            if not near["audit_hits"]
            else "; they were refitted too."
        )
    return text


def _smaller(certificate: Certificate, part: Mapping[str, Any]) -> str:
    what = "single unit" if part["size"] == 1 else f"set of {part['size']} units"
    best = part["best"]
    held_out = "" if best["flipped_test"] is None else f" ({percent(best['flipped_test'])} held out)"
    named = " + ".join(best["units"])
    if part["exhaustive"]:
        return (
            f"Size {part['size']}: no {what} flips more than {percent(best['flipped'])}{held_out}: all "
            f"{part['there_are']:,} were run, the best refitted; the best is {named}."
        )
    return (
        f"Size {part['size']}: no {what} was found to flip more than {percent(best['flipped'])}{held_out}, the best "
        f"being {named}: {part['tried']:,} of {part['there_are']:,} were run, the {certificate['effort']['first']} "
        "best single units with their most promising partners."
    )


def _assumed(certificate: Certificate) -> str:
    prefixes = certificate["prefixes"]
    return (
        f"Assumed: that the best of the tried values, on {prefixes['tried']:,} training prefixes, tell which sets are "
        f"worth refitting; refitted sets are compared on {prefixes['judged']:,} prefixes, values at their best after "
        f"{certificate['effort']['polish']} updates. Nothing was chosen by held-out pairs."
    )


def _ablation(certificate: Certificate) -> str:
    rows = certificate["ablation"]
    found = [row["unit"] for row in rows if row["found"]]
    which = f"{len(found)} of the {counted(len(rows), 'unit')}" + (f" ({', '.join(found)})" if found else "")
    return (
        f"Single-unit ablation (each unit alone set to zero, more than 10 points lost in some construction) would have "
        f"found {which}."
    )


def units_table(certificate: Certificate) -> Table:
    """Per unit: what is left without it, and what single-unit ablation says of it."""
    without = {row["unit"]: row for row in certificate["without"]}
    found = certificate["found"]["flipped"]
    rows = []
    for row in certificate["ablation"]:
        left = without.get(row["unit"])
        rows.append(
            (
                row["unit"],
                "–" if left is None else percent(left["left"]["flipped"]),
                "–" if left is None else points(left["left"]["flipped"] - found),
                str(row["rank"]),
                points(-row["drop"]),
                "yes" if row["found"] else "no",
            )
        )
    columns = (
        "unit",
        "left without it",
        "points",
        "rank by ablation",
        "ablation, points",
        "found by ablation",
    )
    return table("Unit by unit, on training pairs", columns, rows)
