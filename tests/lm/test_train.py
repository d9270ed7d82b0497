"""Training from text to model folder: stop and resume, refusals; no partial files. tests/attack kills trainings."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.lm.conftest import crash
from tests.onlooker import Onlooker

from pivotal import PivotalError, load_model
from pivotal.lm.assess import perplexity_of, pieces_of
from pivotal.lm.recipes import Settings, settings_of
from pivotal.lm.training import TrainingJob, train
from pivotal.lm.training_folder import CHECKPOINT, TrainingFolder
from pivotal.models import RecurrentLM

SLOW = pytest.mark.slow


def weights(*folders: Path) -> list[bytes]:
    return [(folder / "model.safetensors").read_bytes() for folder in folders]


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_trained_model_loads_and_has_learnt(learn, valid, tmp_path):
    """The perplexity of the card is that of the model as everybody else loads it."""
    (trained,) = learn(command="pivotal train-lm …", recipe="fast")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    model = load_model(trained.path, device="cpu")
    assert isinstance(model, RecurrentLM)
    card = json.loads((trained.path / "card.json").read_text())
    assert card["validation"]["perplexity"] == trained.perplexity < model.vocabulary_size / 4
    assert "LSTM of 1 x 16 units, trained on corpus.txt" in card["summary"]
    assert card["training"]["corpus"][0]["bytes"] > 0 and len(card["training"]["corpus"][0]["sha256"]) == 64
    assert card["training"]["settings"]["rate"] == 0.02 and card["seed"] == 0
    assert perplexity_of(model, pieces_of(valid)).all == pytest.approx(trained.perplexity, rel=1e-5)


@pytest.mark.parametrize(
    ("recipe", "stop", "error"),
    [
        ("fast", interrupt, KeyboardInterrupt),
        pytest.param("fast", crash, RuntimeError, marks=SLOW),
        pytest.param("gulordava", interrupt, KeyboardInterrupt, marks=SLOW),
    ],
)
def test_a_training_that_was_stopped_ends_in_the_same_weights(learn, tmp_path, stop, error, recipe):
    (whole,) = learn("whole", recipe=recipe, valid=None)
    with pytest.raises(error):
        learn(recipe=recipe, valid=None, watch=Onlooker("epoch 1:", stop), checkpoint_minutes=0.0)
    assert not (tmp_path / "model").exists() and (tmp_path / "model.training" / CHECKPOINT).is_file()
    (resumed,) = learn(recipe=recipe, valid=None)
    assert len(set(weights(whole.path, resumed.path))) == 1
    assert resumed.card["updates"] == whole.card["updates"]
    assert not (tmp_path / "model.training").exists()


@SLOW
def test_other_settings_in_the_same_place_are_refused(learn, tmp_path):
    with pytest.raises(RuntimeError):
        learn(watch=Onlooker("epoch 1:", crash), checkpoint_minutes=0.0)
    with pytest.raises(PivotalError, match=r"settings\.rate is 0\.02 there and 0\.01 here"):
        learn(given={"rate": 0.01})
    assert (tmp_path / "model.training" / CHECKPOINT).is_file()
    learn(given={"rate": 0.01}, overwrite=True)
    with pytest.raises(PivotalError, match="This training is finished"):
        learn(given={"rate": 0.01})
    for seeds in (1, 2):
        with pytest.raises(PivotalError, match="not from this training"):
            learn(given={"rate": 0.03}, seeds=seeds)


def test_foreign_files_are_never_touched(learn, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    for overwrite, seeds in ((False, 1), (True, 1), (True, 2)):
        watch = Onlooker()
        with pytest.raises(PivotalError, match=r"thesis\.tex|not from this training"):
            learn(overwrite=overwrite, seeds=seeds, watch=watch)
        assert watch.said == []  # it is seen before the training
    (tmp_path / "other.training").mkdir()
    (tmp_path / "other.training" / "thesis.tex").write_text("years of work")
    with pytest.raises(PivotalError, match="holds other files"):
        learn("other", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["thesis.tex"] * 2


@SLOW
@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1), (3, 2)])
def test_a_model_stays_until_it_is_replaced(learn, tmp_path, before, after):
    old = learn(given={"epochs": 1}, seeds=before)
    contents = weights(*(model.path for model in old))
    again: dict[str, Any] = {"given": {"rate": 0.01}, "seeds": after, "overwrite": True}
    with pytest.raises(RuntimeError):
        learn(watch=Onlooker("epoch 1:", crash), checkpoint_minutes=0.0, **again)
    assert weights(*(model.path for model in old)) == contents
    watch = Onlooker()
    new = learn(watch=watch, **again)  # the same command goes on
    assert any(text.startswith("Resuming after") for text in watch.said)
    assert [model.card["training"]["settings"]["rate"] for model in new] == [0.01] * after
    files = {"config.json", "model.safetensors", "vocab.txt", "card.json"}
    left = {path.name for path in (tmp_path / "model").iterdir()}
    assert left == (files if after == 1 else {f"seed-{i}" for i in range(after)})
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_bad_input_leaves_no_folder_around_the_one_to_come(learn, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    with pytest.raises(PivotalError, match="lower --batch"):
        learn("there/a/b/model", given={"batch": 100_000})
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    monkeypatch.chdir(tmp_path)
    for nameless in (".", ".."):
        with pytest.raises(PivotalError, match="has no name"):
            TrainingJob([tmp_path / "there"], nameless)


@SLOW
@pytest.mark.parametrize("seeds", [1, 2])
def test_a_kill_between_the_model_and_the_cleaning_up(learn, tmp_path, seeds, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(TrainingFolder, "remove", lambda self: None)
        first = learn(seeds=seeds, given={"epochs": 1})
    before = weights(*(model.path for model in first))
    assert (tmp_path / "model.training" / CHECKPOINT).is_file()
    again = learn(seeds=seeds, given={"epochs": 1})
    assert weights(*(model.path for model in again)) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@SLOW
def test_what_appears_in_the_meantime_is_not_overwritten(learn, tmp_path):
    def intrude() -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "thesis.tex").write_text("years of work")

    with pytest.raises(PivotalError, match="is not a trained model"):
        learn(watch=Onlooker("epoch 1:", intrude))
    assert (tmp_path / "model" / "thesis.tex").is_file()
    (tmp_path / "model").rename(tmp_path / "thesis")
    learn()


def test_two_at_once_do_not_train_one_model(learn, tmp_path):
    first = TrainingFolder(tmp_path / "model")
    with ThreadPoolExecutor(1) as other:
        other.submit(first.open, {}, overwrite=False).result()
        with pytest.raises(PivotalError, match="is working on the model"):
            learn()
        other.submit(first.close).result()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": ["missing.txt"]}, "missing.txt: there is no such file"),
        ({"corpus": ["empty.txt"]}, "has none"),
        ({"vocabulary": Path("words.txt")}, "but both are missing"),
        ({"settings": Settings(precision="fp16")}, "fp16 needs a GPU"),
        ({"seeds": 0}, "seeds must be 1 to 1,000, but it is 0"),
        ({"corpus": []}, "no corpus file was given"),
    ],
)
def test_bad_input_leaves_nothing_behind(corpus, tmp_path, options, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n")
    Path("words.txt").write_text("the\ncat\n")
    given = {"corpus": [corpus], "device": "cpu", **options}
    with pytest.raises(PivotalError, match=message):
        train(TrainingJob(given.pop("corpus"), tmp_path / "model", **given))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "words.txt"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recipe": "fastest"}, "Did you mean 'fast'"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"tied": True, "hidden": 5}, "Tied weights"),
        ({"vocabulary_size": 2}, "at least 3"),
    ],
)
def test_settings_that_cannot_be(given, message):
    with pytest.raises(PivotalError, match=message):
        settings_of(given.pop("recipe", "fast"), given)
