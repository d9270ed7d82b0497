"""The bundled model as its users meet it: as good as its card says, and open to interventions."""

import numpy as np
import pytest
import torch

from pivotal import Intervention, PivotalError, load_model
from pivotal.models import LanguageModel
from pivotal.testing import check_model
from pivotal.units import Steps

PROMPT = "The doctor near the cars"


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model("wiki-lstm", device="cpu")


def some_intervention(model: LanguageModel, steps: Steps = "every") -> Intervention:
    """Not a good one, but one that is felt."""
    space = model.unit_space()
    rng = np.random.default_rng(0)
    return Intervention(
        units=tuple(space.unit(int(i)) for i in sorted(rng.choice(len(space), 40, replace=False))),
        directions=("singular", "plural"),
        values=rng.choice([-0.9, 0.9], (2, 40)),
        steps=steps,
        model=model.name,
        model_fingerprint=model.fingerprint(),
        phenomenon="none",
        data_fingerprint="none",
    )


def test_it_has_the_layers_of_the_papers_lstm(model):
    assert [(site.name, site.width) for site in model.sites] == [("hidden.0", 650), ("hidden.1", 650)]


@pytest.mark.slow
def test_it_keeps_the_contract_of_a_model(model):
    check_model(model, [PROMPT, "The doctor near", "The doctors", "Some cars"])


# -- next words and texts, untouched and intervened on --


def test_next_words_are_the_likeliest_in_order(model):
    found = model.next_words(PROMPT, k=7)
    assert repr(found[:1]) == f"[({found[0].word!r}, {found[0].probability:.3g})]"
    p = [q for _, q in found]
    assert len(found) == 7 and p == sorted(p, reverse=True) and 0 < sum(p) <= 1
    logits = model.next_logits([model.encode(PROMPT).ids])[0]
    assert model.tokens_of(found[0][0])[0] == int(logits.argmax())
    assert sum(q for _, q in model.next_words(PROMPT, k=10**6)) == pytest.approx(1, abs=1e-4)


def test_an_intervention_does_not_change_the_model(model):
    intervention, before = some_intervention(model), model.next_words(PROMPT)
    singular, plural = (model.intervened(intervention, label) for label in ("singular", "plural"))
    assert before != singular.next_words(PROMPT) != plural.next_words(PROMPT) != before
    assert model.next_words(PROMPT) == before


def test_a_single_step_intervention_acts_at_its_cue(model):
    single = some_intervention(model, "single")
    found = {}
    for cue in ("doctor", 1, "1", "cars"):
        found[cue] = model.intervened(single, "plural", cue=cue).next_words(PROMPT)
    assert found["doctor"] == found[1] == found["1"] != found["cars"]
    with pytest.raises(PivotalError, match="no cue was given"):
        model.intervened(single, "plural")
    for cue in ("nurse", 5, -1):
        with pytest.raises(PivotalError, match="word of the prompt"):
            model.intervened(single, "plural", cue=cue).next_words(PROMPT)


def test_generated_texts_go_on_from_the_prompt(model):
    greedy = model.generate(PROMPT, words=4, temperature=0.0)
    assert greedy == model.generate(PROMPT, words=4, temperature=0.0, seed=1)
    drawn = model.generate(PROMPT, words=4, samples=3, seed=2)
    assert (
        drawn
        == model.generate(PROMPT, words=4, samples=3, seed=2)
        != model.generate(PROMPT, words=4, samples=3)
    )
    for text in (*greedy, *drawn):
        assert text.startswith(PROMPT + " ") and len(text.split()) == 9
        assert "<unk>" not in text
    # The first generated word is the likeliest that may be said.
    likeliest = [word for word, _ in model.next_words(PROMPT) if word != "<unk>"]
    assert greedy[0].split()[5] == likeliest[0]


def test_generating_under_an_intervention_edits_the_new_words_too(model):
    intervention = some_intervention(model)
    edited = model.intervened(intervention, "plural")
    text = edited.generate(PROMPT, words=3, temperature=0.0)[0]
    # Greedy text is what next_words gives when asked again with every word that has been said.
    for n in range(5, 8):
        said = text.split()
        asked = [word for word, _ in edited.next_words(" ".join(said[:n])) if word != "<unk>"]
        assert said[n] == asked[0]
    assert text != model.generate(PROMPT, words=3, temperature=0.0)[0]


def test_an_intervention_found_with_another_priming_is_refused(model):
    primed = load_model("wiki-lstm", device="cpu", priming="The doctor . <eos>")
    with pytest.raises(PivotalError, match="needs the priming that it was found with"):
        primed.intervened(some_intervention(model), "plural")
    edited = primed.intervened(some_intervention(model), "plural", any_model=True)
    assert torch.isfinite(edited.next_logits([primed.encode(PROMPT).ids])).all()
