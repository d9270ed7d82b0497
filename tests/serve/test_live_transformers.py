"""The live page on a transformer: neurons by value, attention heads by a factor, at every step and at the cue."""

from typing import Any

import numpy as np
import pytest
from tests.interventions import intervention_of
from tests.models.tiny import doctors, random_model, tokenizer

from pivotal import Question, trace
from pivotal.models import TransformersLM
from pivotal.serve.answers import predict, score
from pivotal.serve.live_intervention import LiveIntervention
from pivotal.serve.requests import Paste, SentenceRequest, UnitValues
from pivotal.units import Steps

PAIRS = doctors("near", "behind The", firsts=("The", "Some"))
PREFIXES = [pair.prefix for pair in PAIRS]


@pytest.fixture(scope="module")
def model() -> TransformersLM:
    return TransformersLM("tiny", random_model("llama"), tokenizer(bos=True))


@pytest.fixture(params=["every", "single"])
def live(request: pytest.FixtureRequest, model: TransformersLM) -> LiveIntervention:
    steps: Steps = request.param
    space = model.unit_space("head,mlp.1")
    units = tuple(unit for unit in space if str(unit) in ("head.0:1", "mlp.1:5"))
    width = sum(unit.size for unit in units)
    values = np.random.default_rng(0).normal(size=(2, width)) * 2
    found = intervention_of(model, units, values, steps)
    return LiveIntervention(model, Question(steps=steps), found, PAIRS)


def as_found(live: LiveIntervention) -> list[UnitValues]:
    return [UnitValues(str(unit), live.about(unit).values) for unit in live.intervention.units]


def test_the_units_of_the_run_give_what_the_run_gives(live):
    pair = PAIRS[7]
    seen = predict(
        live, SentenceRequest(run=0, units=as_found(live), sentence=pair.prefix, words=pair.words, cue="1")
    )
    known = trace(live.intervention, live.model, pair)
    assert seen["direction"] == known.direction
    assert seen["log_odds"] == pytest.approx(known.log_odds, abs=1e-4)
    assert seen["kl"] > 0


def test_a_head_is_scaled_and_any_unit_can_be_added(live):
    head = next(live.about(unit) for unit in live.intervention.units if unit.size > 1)
    assert head.natural is None and head.values == (1.0, 1.0) and head.limits == (-2.0, 2.0)
    doubled = live.edited([UnitValues(head.unit, (2.0, 0.5))])
    factors = doubled.values / live.edited([UnitValues(head.unit, (1.0, 1.0))]).values
    assert factors == pytest.approx(np.repeat([[2.0], [0.5]], factors.shape[1], 1))
    for name in ("mlp.2:3", "head.2:0"):
        about = live.about(live.model.unit(name))
        units = [UnitValues(name, about.values)]
        asked = SentenceRequest(run=0, units=units, sentence=PREFIXES[1], words=("runs", "run"), cue="1")
        assert predict(live, asked)["kl"] > 0
    low, high = live.about(live.model.unit("mlp.2:3")).natural or (0, 0)
    assert low < high


def test_own_pairs_are_scored(live):
    text = "\n".join(f"{pair.prefix} runs/run" for pair in PAIRS)
    scored = score(live, Paste(run=0, units=as_found(live), text=text))
    assert scored["share"].n == len(PAIRS) and scored["kl"] > 0
    assert scored["flipped"] == sum(row["flipped"] for row in scored["rows"])


def test_an_answer_is_one_pass_of_the_model(live, monkeypatch):
    """Untouched and edited together; only the first look at a sentence asks what the untouched model prefers."""
    asked = SentenceRequest(run=0, units=as_found(live), sentence=PREFIXES[4], words=("runs", "run"), cue="1")
    first = predict(live, asked)
    passes, states = [], live.model.states

    def counted(prepared: object, edit: Any = None) -> Any:
        passes.append(edit.runs)
        return states(prepared, edit)

    monkeypatch.setattr(live.model, "states", counted)
    assert predict(live, asked) == first and passes == [2]
