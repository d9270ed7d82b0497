"""What `pivotal check` found, as sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from pivotal.printing import chance, counted, duration
from pivotal.records.check import CheckReport
from pivotal.records.evidence import Share
from pivotal.records.summary import told_reasons
from pivotal.report.tables import Table, interval, percent, shared_sentence, table

_WORDS = 12
"""The most divided words that are listed."""


def sentences(check: CheckReport) -> list[str]:
    """What the model can score, what was inferred, and what the model says."""
    said = [
        f"{check.model} can score {check.asked:,} of {counted(check.pairs, 'pair')} of {check.phenomenon}."
    ]
    said += check.notes
    if (known := check.knowledge) is None:
        return [*said, check.reason]
    if check.rejected.total:
        said.append(f"Left out: {told_reasons(check.rejected.reasons)}.")
    if check.left_out:
        said.append(f"Words left out of their sets: {told_reasons(check.left_out)}.")
    if check.sampled is not None:
        said.append(f"The figures are of a random sample of {check.sampled:,} pairs; --sample 0 scores all.")
    rank = "" if known.rank is None else f" The preferred word has a median rank of {known.rank:,.0f}."
    said += [known.told(), f"Prefixes: {known.clusters:,}.{rank}"]
    if (exchange := check.exchange) is not None:
        rest = f"; the others: {told_reasons(exchange.reasons)}" if exchange.reasons else ""
        said.append(
            f"--values interchange can use {exchange.usable:,} of {counted(exchange.pairs, 'pair')}{rest}."
        )
    if check.overlap is not None:
        to_flip = " and ".join(f"{n:,} to “{label}”" for label, n in check.to_flip.items())
        shares_words = check.overlap.words > 0 and check.split in ("prefixes", "pairs")
        cure = " --split words holds out words as well." if shares_words else ""
        said.append(
            f"The split has {counted(check.train, 'pair')} to search on and {check.test:,} held out, with prefixes to "
            f"flip: {to_flip}. {shared_sentence(check.overlap, known.mass is not None)}{cure}"
        )
    if check.reason:
        said.append(f"`pivotal find` refuses this question: {check.reason}")
    if check.seconds is not None:
        said.append(
            f"The default search takes roughly {duration(max(1.0, check.seconds))} on this machine if it is idle."
        )
    return said


def tables(check: CheckReport) -> list[Table]:
    """Accuracy by label and by group, and the words of several tokens."""
    found, known = [], check.knowledge
    if known is not None and known.mass is not None:
        labels = [
            (label, f"{part.pairs:,}", *_share(part.accuracy), f"{part.preferred:,}")
            for label, part in known.by_label.items()
        ]
        columns = ("label", "expected in", "accuracy", "95% interval", "preferred in")
        found.append(table("By label", columns, labels))
    if known is not None and len(known.by_group) > 1:
        groups = [(group, f"{share.n:,}", *_share(share)) for group, share in known.by_group.items()]
        found.append(table("By group", ("group", "pairs", "accuracy", "95% interval"), groups))
    if check.divided:
        words = [(word.word, "·".join(word.tokens), f"{word.pairs:,}") for word in check.divided[:_WORDS]]
        more = len(check.divided) - _WORDS
        note = "They are compared at the first token where they differ."
        note += f" And {more:,} more words." if more > 0 else ""
        found.append(table("Words of several tokens", ("word", "tokens", "pairs"), words, text=2, note=note))
    return found


def overview(checks: Sequence[CheckReport]) -> Table:
    """The questions that the model can score, one row each."""
    rows = []
    for check in checks:
        if (known := check.knowledge) is not None:
            about = (check.phenomenon, f"{check.pairs:,}", f"{check.asked:,}", " / ".join(check.labels or ()))
            single = sum(part.pairs > 0 for part in known.by_label.values()) == 1
            told = "one direction" if single else ""
            likely = "" if known.mass is None else chance(known.mass)
            rows.append((*about, *_share(known.accuracy), likely, told))
    columns = ("question", "pairs", "asked", "labels", "accuracy", "95% interval", "p(words)", "")
    return Table("", columns, tuple(rows), frozenset({1, 2, 4, 5, 6}))


def _share(share: Share | None) -> tuple[str, str]:
    return ("", "") if share is None else (percent(share.value), interval(share.low, share.high))
