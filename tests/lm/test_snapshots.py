"""Snapshots: taken once and at the right step, loadable, small, the same after a kill; bad input is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lm.conftest import crash
from tests.onlooker import Onlooker

from pivotal import PivotalError, load_model
from pivotal.lm.assess import perplexity_of, pieces_of
from pivotal.lm.model_folders import short_number, snapshot_tokens
from pivotal.models import RecurrentLM

STEP = 160
"""Tokens per update, except for the last one of an epoch."""


def card(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "card.json").read_text()))


def snapshots(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("*/model.safetensors")}


@pytest.mark.slow
def test_a_snapshot_is_a_small_model_with_a_card(learn, valid, tmp_path):
    given = {"hidden": 64, "embedding": 64}
    (plain,) = learn("plain", given=given)
    (trained,) = learn(snapshots="1000, 3K", given=given)
    kept = tmp_path / "model.snapshots"
    assert sorted(path.name for path in kept.iterdir()) == ["model-1K", "model-3K"]
    final = (trained.path / "model.safetensors").read_bytes()
    assert final == (plain.path / "model.safetensors").read_bytes(), "a snapshot changes nothing"
    for name, asked in (("model-1K", 1000), ("model-3K", 3000)):
        said = card(kept / name)
        assert said["tokens"]["read"] == -(-asked // STEP) * STEP == said["updates"] * STEP
        assert said["snapshot"]["asked"] == asked and "cosine" in said["snapshot"]["note"]
        assert said["seed"] == 0 and 0 <= said["seconds"] <= trained.card["seconds"]
        model = load_model(kept / name, device="cpu")
        assert isinstance(model, RecurrentLM) and model.name == name
        measured = perplexity_of(model, pieces_of(valid)).all
        assert measured == pytest.approx(said["validation"]["perplexity"], rel=0.03)
        assert (kept / name / "model.safetensors").stat().st_size < 0.35 * len(final)
    points = trained.card["snapshots"]
    assert [point["asked"] for point in points] == [1000, 3000]
    assert points[0]["perplexity"] > points[1]["perplexity"] > trained.perplexity


@pytest.mark.slow
def test_a_seed_is_the_same_alone_and_in_company(learn, tmp_path):
    learn("two", seeds=2, seed=3, snapshots=[1000])
    learn("alone", seed=4, snapshots=[1000])
    both, alone = snapshots(tmp_path / "two.snapshots"), snapshots(tmp_path / "alone.snapshots")
    assert sorted(both) == ["seed-3-1K", "seed-4-1K"]
    assert both["seed-4-1K"] == alone["alone-1K"] != both["seed-3-1K"]
    final = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("two/seed-4", "alone")]
    assert final[0] == final[1]


@pytest.mark.parametrize(
    ("cell", "recipe"), [("lstm", "fast"), pytest.param("gru", "gulordava", marks=pytest.mark.slow)]
)
def test_a_crash_right_after_a_snapshot(learn, tmp_path, cell, recipe):
    """The checkpoint does not know of the snapshot, which is taken again; one that it knows of is not."""
    job: dict[str, Any] = {"snapshots": "500,2K,5K", "recipe": recipe, "given": {"cell": cell}}
    learn("whole", **job)
    with pytest.raises(RuntimeError):
        learn(watch=Onlooker("snapshot at 2K", crash), checkpoint_minutes=0.0, **job)
    first, second = (f"model-{name}" for name in ("500", "2K"))
    during, kept = tmp_path / "model.training" / "snapshots", tmp_path / "model.snapshots"
    before = [(during / name).stat().st_mtime_ns for name in (first, second)]
    with pytest.raises(PivotalError, match="holds another training"):
        learn(**{**job, "snapshots": "500"})
    learn(**job)
    after = [(kept / name).stat().st_mtime_ns for name in (first, second)]
    assert after[0] == before[0] and after[1] > before[1]
    weights = [snapshots(tmp_path / f"{name}.snapshots").values() for name in ("model", "whole")]
    assert len(weights[0]) == 3 and set(weights[0]) == set(weights[1])
    final = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("model", "whole")]
    assert final[0] == final[1]


@pytest.mark.slow
def test_what_is_there_already(learn, tmp_path):
    kept = tmp_path / "model.snapshots"
    learn(snapshots="1K,2K")
    with pytest.raises(PivotalError, match="not from this training"):
        learn(snapshots="1K", given={"rate": 0.01})
    learn(snapshots="2K,3K", given={"rate": 0.01}, overwrite=True)
    assert sorted(path.name for path in kept.iterdir()) == ["model-2K", "model-3K"]
    assert {card(path)["training"]["settings"]["rate"] for path in kept.iterdir()} == {0.01}
    (kept / "thesis.tex").write_text("years of work")
    with pytest.raises(PivotalError, match=r"thesis\.tex is not a trained model"):
        learn(snapshots="1K", overwrite=True)
    assert (kept / "model-2K").is_dir() and (kept / "thesis.tex").is_file()


@pytest.mark.parametrize("numbers", ["10M,junk", "10M,,20M", "0.0015K", "0", "20M,10M"])
def test_numbers_that_are_refused(numbers):
    with pytest.raises(PivotalError, match=f"increasing numbers, .* not '{numbers}'"):
        snapshot_tokens(numbers)


def test_a_snapshot_beyond_the_training_leaves_nothing_behind(learn, tmp_path):
    with pytest.raises(PivotalError, match="fewer than the snapshot at 1,000,000,000"):
        learn(snapshots="1K,1B")
    assert not list(tmp_path.iterdir())


def test_numbers_of_tokens():
    assert snapshot_tokens("500, 10k,1.5M,1B") == (500, 10_000, 1_500_000, 10**9)
    assert snapshot_tokens("") == snapshot_tokens([]) == ()
    assert [short_number(n) for n in (999, 1000, 1_500_000, 10**9)] == ["999", "1K", "1500K", "1B"]
