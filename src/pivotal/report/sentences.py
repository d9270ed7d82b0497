"""The list of a run's held-out sentences. A script filters the list and draws traces.

Every sentence and its outcome is in the page as text. The script has the complete traces as data. It hides the
sentences that do not match the filters, and draws the trace of a sentence that the reader opens.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from html import escape
from typing import Any

from pivotal.jobs.run_folder import RunFolder
from pivotal.questions.minimal_pair import shown
from pivotal.records.traces import PairOutcome, Traces
from pivotal.report.html import paragraph
from pivotal.report.tables import counted, number, signed

NONE_KEPT = (
    "An earlier version of pivotal made this run and stored no sentences. Run it again to see them here."
)


def listed(traces: Traces, groups: Sequence[str] = ()) -> str:
    """The sentences as a list; those with a complete trace come first. `groups` are the constructions in the order of
    the pairs file."""
    traced = {trace.pair for trace in traces.traces}
    pairs = sorted(traces.pairs, key=lambda pair: (pair.pair not in traced, pair.pair))
    items = "\n".join(_item(pair, traces.frame.labels, pair.pair in traced) for pair in pairs)
    return (
        paragraph(_introduction(traces, len(traced)))
        + "<noscript><p>Without JavaScript, this list has no filters and no traces.</p></noscript>\n"
        + _filters(traces, groups)
        + "<p id=count role=status></p>\n"
        f"<ul class=sentences id=sentence-list>\n{items}\n</ul>\n"
        "<button class=more id=more type=button hidden>Show more</button>"
    )  # fmt: skip


def data(traces: Traces, folder: RunFolder) -> dict[str, Any]:
    """The data for the script: the complete traces, and the command for other pairs."""
    kept = json.loads(traces.dumps())
    command = shlex.join(["pivotal", "trace", folder.path.as_posix(), "--pair"])
    return {"traces": {"frame": kept["frame"], "traces": kept["traces"], "command": command}}


def _introduction(traces: Traces, traced: int) -> str:
    flipped = sum(pair.flipped for pair in traces.pairs)
    kept, total = len(traces.pairs), traces.held_out
    of = counted(kept, "held-out sentence") if kept == total else f"{kept:,} of {total:,} held-out sentences"
    wrong = sum(_known(pair) == "wrong" for pair in traces.pairs)
    own = f" In {wrong:,} of them the untouched model itself is wrong." if wrong else ""
    return (
        f"{of}: the preference flips in {flipped:,} and does not in {kept - flipped:,}.{own} The cue is marked. The "
        "word that the untouched model prefers is struck out; the word to flip to follows it. The number at the end is "
        f"the margin: the log-odds of that word with the edit. {counted(traced, 'sentence')} at the top of the list "
        f"{'has' if traced == 1 else 'have'} a trace: open one to see the units step by step."
    )


def _known(pair: PairOutcome) -> str:
    """Whether the untouched model prefers the expected word: right or wrong, or nothing if no word is expected."""
    return "" if not pair.label else "wrong" if pair.label == pair.direction else "right"


def _filters(traces: Traces, order: Sequence[str]) -> str:
    there = dict.fromkeys(pair.group for pair in traces.pairs if pair.group)
    groups = [group for group in order if group in there] or list(there)
    labels = traces.frame.labels
    known = [kind for kind in ("right", "wrong") if any(_known(pair) == kind for pair in traces.pairs)]
    choices = [
        ("flipped", "Outcome", [("yes", "flipped"), ("no", "not flipped")]),
        ("group", "Construction", [(group, group) for group in groups]),
        ("direction", "Direction", [(label, f"→ {label}") for label in labels]),
        ("known", "Untouched model", [(kind, kind) for kind in known]),
    ]
    made = "".join(_choice(*choice) for choice in choices if len(choice[2]) > 1)
    orders = [("least", "smallest margin"), ("most", "largest margin")]
    made += _choice("order", "Order", orders, "traces first")
    return (
        "<form class=filters id=filters hidden>\n"
        "<label class=wide>Words <input name=text type=search autocomplete=off spellcheck=false></label>\n"
        f"{made}<label class=tick><input name=traced type=checkbox value=yes> with a trace</label>\n"
        "<button type=button id=clear>Clear</button>\n</form>\n"
    )  # fmt: skip


def _choice(name: str, title: str, options: list[tuple[str, str]], default: str = "all") -> str:
    offered = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return (
        f'<label>{title} <select name={name}><option value="">{default}</option>{offered}</select></label>\n'
    )


def _item(pair: PairOutcome, labels: tuple[str, str], traced: bool) -> str:
    kinds = {
        "pair": str(pair.pair),
        "flipped": "yes" if pair.flipped else "no",
        "group": pair.group,
        "direction": pair.direction,
        "known": _known(pair),
        "margin": f"{pair.log_odds[1]:.4g}",
        "traced": "yes" if traced else "no",
    }
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in kinds.items())
    wanted = labels.index(pair.direction)
    words = shown(pair.words[1 - wanted]), shown(pair.words[wanted])
    look, verdict = ("flipped", "flipped") if pair.flipped else ("kept", "not flipped")
    own = "<small>the model is wrong</small> " if kinds["known"] == "wrong" else ""
    return (
        f"<li id=pair-{pair.pair}{attributes}><details>"
        f"<summary><span>{_sentence(pair, *words)}</span>"
        f'<span class="verdict {look}">{own}{verdict} {signed(pair.log_odds[1])}</span>'
        "</summary>"
        f"<p class=outcome>{escape(_outcome(pair, *words))}</p><div class=trace></div></details></li>"
    )


def _sentence(pair: PairOutcome, preferred: str, wanted: str) -> str:
    words = [escape(word) for word in pair.prefix.split()]
    if pair.cue is not None and pair.cue < len(words):
        words[pair.cue] = f"<mark>{words[pair.cue]}</mark>"
    return f"{' '.join(words)} <s>{escape(preferred)}</s> <b>{escape(wanted)}</b>"


def _outcome(pair: PairOutcome, preferred: str, wanted: str) -> str:
    before, after = pair.log_odds
    kind = f"{pair.group}, " if pair.group else ""
    return (
        f"Pair {pair.pair}: {kind}to {pair.direction}. Log-odds of “{wanted}” over “{preferred}”: "
        f"{signed(before)} untouched, {signed(after)} with the edit. KL {number(pair.kl)}."
    )
