"""traces.json: what is written is read back, and what is broken is refused."""

import json
from typing import Any

import pytest

from pivotal import PivotalError
from pivotal.records.serial import decode, replace
from pivotal.records.traces import Both, Frame, PairOutcome, Trace, Traces

FRAME = Frame(
    model="m",
    phenomenon="number",
    steps="single",
    labels=("singular", "plural"),
    units=("hidden.0:3", "hidden.1:5"),
    values=((0.5, None), (-0.25, 1.0)),
    layers=("hidden.0", "hidden.1"),
)
PAIR: dict[str, Any] = {"pair": 7, "prefix": "The “doctor”", "cue": 1}
PAIR |= {"words": ("runs", "run"), "group": "simple"}
TRACE = Trace(
    **PAIR,
    frame=FRAME,
    direction="plural",
    tokens=("The", "“doctor”"),
    edited=(False, True),
    activation=Both(((0.25, 0.5), (0.125, 0.75)), ((0.25, -0.25), (0.125, 1.0))),
    log_p=Both(((-3.0, -1.0), (-2.0, -4.0)), ((-3.0, -5.0), (-2.0, -4.5))),
    kl=(0.0, 0.375),
    change=((0.0, 0.5), (0.0, 0.25)),
)
OUTCOME = PairOutcome(**PAIR, label="singular", direction="plural", log_odds=(-3.0, 0.5), kl=0.125)
TRACES = Traces(frame=FRAME, run=2, held_out=9, pairs=(OUTCOME, replace(OUTCOME, pair=8)), traces=(TRACE,))


def read(content: dict[str, Any] | str) -> Traces:
    text = content if isinstance(content, str) else json.dumps(content)
    return decode(text, Traces, "RUN/traces.json")


def test_written_and_read_back():
    text = TRACES.dumps()
    assert read(text) == TRACES
    assert len(text.splitlines()) == 1 + 4 + 3, "a head, two lists between brackets, a line for each entry"


def test_what_a_trace_says():
    assert TRACE.log_odds == (-3.0, 0.5)
    assert TRACE.flipped and OUTCOME.flipped
    assert not replace(TRACE, direction="singular").flipped, "it preferred the singular before"
    assert not replace(OUTCOME, log_odds=(-3.0, 0.0)).flipped, "a tie is no flip"


def test_a_log_probability_above_zero_is_a_probability_of_one():
    """Of a damaged file, or of a rounding error."""
    high = replace(TRACE, log_p=Both(((9e9, 1e-7), (-2.0, -4.0)), TRACE.log_p.edited))
    assert high.probability(0, 0)[0] == high.probability(0)[0] == 1


def test_log_probabilities_keep_the_sign_of_their_difference():
    near = Both(((0.0, -12.3457), (0.0, -12.3456)), ((0.0, -12.3456), (0.0, -12.3457)))
    trace = replace(TRACE, log_p=near, direction="singular")
    again = read(replace(TRACES, traces=(trace,)).dumps()).traces[0]
    assert trace.flipped and again.flipped


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cue": 2}, "cue or direction does not exist"),
        ({"direction": "dual"}, "cue or direction does not exist"),
        ({"tokens": []}, "without a step"),
        ({"kl": [0.0]}, "not of as many steps"),
        ({"edited": [1, 1, 1]}, "not of as many steps"),
        ({"change": [[0.0, 0.5]]}, "all rows"),
    ],
)
def test_a_trace_whose_parts_do_not_fit_together_is_refused(change, said):
    content = json.loads(TRACES.dumps())
    content["traces"][0] |= change
    with pytest.raises(PivotalError, match=said):
        read(content)
