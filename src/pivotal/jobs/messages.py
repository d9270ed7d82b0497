"""What a job says before it searches."""

from __future__ import annotations

from pivotal.evidence.knowledge import few_to_flip, knowledge_of, warnings_of
from pivotal.problem.problem import Problem
from pivotal.watch import Watch


def say_left_out(watch: Watch, train: Problem, test: Problem, *, dropped: int, merged: int) -> None:
    """Say which pairs are not used."""
    if merged:
        watch.say(
            f"{merged:,} lines of the file repeat an earlier line and are ignored."
            if merged != 1
            else "1 line of the file repeats an earlier line and is ignored."
        )
    both = train.rejected + test.rejected
    if both.total:
        total = both.total + len(train) + len(test)
        watch.say(
            f"Skipped {both.total:,} of {total:,} pairs that {train.model.name} cannot be asked: "
            f"{both.describe()}."
        )
    if both.left_out:
        watch.say(f"Left some words out of their sets: {both.describe_left_out()}.")
    if dropped:
        watch.say(
            f"Left out {dropped:,} pair{'s' * (dropped != 1)} with both held-out and training words: {len(train):,} to "
            f"train on, {len(test):,} held out."
        )


def say_known(watch: Watch, train: Problem, test: Problem) -> None:
    """Say what the untouched model knows of the held-out pairs. The run continues in any case; the verdict uses the
    same figures."""
    known = knowledge_of(test)
    watch.say(f"Held-out pairs: {known.told()}")
    share = len(test) / (len(train) + len(test))
    for warning in (*warnings_of(known), *few_to_flip(known.prefixes_towards, known.clusters, share)):
        watch.say(f"Warning: {warning}")
    for group in sorted(train.pairs.groups.keys() - test.pairs.groups.keys()):
        watch.say(
            f"Warning: No pair of {group or 'the unnamed group'} is held out. Hold out more with --test."
        )
