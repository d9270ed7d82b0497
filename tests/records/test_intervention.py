"""The frozen result: what it refuses to be, and what survives a disk."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.stored_json import changed

from pivotal import Intervention, PivotalError
from pivotal.units import Unit

GOOD = Intervention(
    units=(Unit("hidden.0", 4), Unit("hidden.1", 125)),
    directions=("singular", "plural"),
    values=np.array([[0.25, -1.0], [1 / 3, 0.5]]),
    active=np.array([[True, True], [False, True]]),
    steps="single",
    model="wiki-lstm",
    model_fingerprint="abc",
    phenomenon="number-agreement",
    data_fingerprint="def",
    scores={"flip_accuracy": 0.9, "interval": [0.8, 1.0], "note": "größer"},
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return GOOD.save(tmp_path / "deep" / "folder")


# -- what it is --


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": (), "values": np.zeros((2, 0))}, "at least one unit, but its mask is empty"),
        ({"values": np.zeros((2, 3))}, r"a value per direction and unit, \(2, 2\), but .* shape \(2, 3\)"),
        ({"active": np.ones((1, 2), dtype=bool)}, r"the mask \(1, 2\)"),
        ({"values": np.array([[0, np.nan], [0, 0]])}, "must be finite"),
        ({"steps": "sometimes"}, "Steps are single or every, not 'sometimes'"),
    ],
)
def test_what_is_no_intervention_is_refused(changes, message):
    with pytest.raises(PivotalError, match=message):
        replace(GOOD, **changes)


def test_it_is_frozen_and_keeps_no_view_of_what_it_was_made_from():
    values = np.zeros((2, 2))
    made = replace(GOOD, values=values)
    values[:] = 7
    assert (made.values == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        made.values[0, 0] = 1


def test_equality_sees_every_part():
    assert replace(GOOD) == GOOD
    changes: list[dict[str, Any]] = [
        {"values": GOOD.values + 1},
        {"active": ~GOOD.active},
        {"steps": "every"},
    ]
    for change in (*changes, {"model_fingerprint": "x"}, {"units": GOOD.units[::-1]}):
        assert replace(GOOD, **change) != GOOD


def test_directions_have_names():
    assert [GOOD.direction(label) for label in ("singular", "plural")] == [0, 1]
    with pytest.raises(PivotalError, match=r"flips to singular or plural, not to 'plurl'.*mean 'plural'"):
        GOOD.direction("plurl")
    with pytest.raises(PivotalError, match="plural"):
        GOOD.direction(0)


def test_without_lets_go_of_one_unit():
    less = GOOD.without(0)
    assert less.units == GOOD.units[1:] and less.values.tolist() == [[-1.0], [0.5]] and less.active.all()
    with pytest.raises(PivotalError, match="mask is empty"):
        less.without(0)


def test_it_belongs_to_its_model():
    GOOD.check_model("renamed", "abc")
    with pytest.raises(PivotalError, match=r"found in, wiki-lstm \(abc\), but this model is other \(xyz\)"):
        GOOD.check_model("other", "xyz")
    GOOD.check_model("other", "xyz", any_model=True)
    with pytest.raises(PivotalError, match=r"the model's default.*with the same --priming"):
        GOOD.check_model("same weights", "abc+1234")


# -- on disk --


@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_survive_the_disk_in_whatever_order_memory_has_them(tmp_path, order):
    made = replace(GOOD, values=np.array(GOOD.values, order=order), active=np.array(GOOD.active, order=order))
    assert Intervention.load(made.save(tmp_path)) == GOOD


def test_save_then_load_gives_the_same(saved):
    assert Intervention.load(saved) == GOOD
    assert sorted(path.name for path in saved.iterdir()) == ["card.json", "values.safetensors"]
    replace(GOOD, steps="every").save(saved)
    assert Intervention.load(saved).steps == "every"


def truncate(folder: Path) -> None:
    path = folder / "values.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


def card(**changes: Any) -> Any:
    return lambda folder: changed(folder / "card.json", **changes)


UNIT = {"site": "hidden.0", "index": 4}


def of_eight_gigabytes(folder: Path) -> None:
    """A sparse file: it takes no space on the disk, but would not fit into the memory."""
    values = {"dtype": "F32", "shape": [2, 10**9], "data_offsets": [0, 8 * 10**9]}
    active = {"dtype": "U8", "shape": [2, 2], "data_offsets": [8 * 10**9, 8 * 10**9 + 4]}
    header = json.dumps({"values": values, "active": active}).encode()
    with (folder / "values.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 8 * 10**9 + 4)


def foreign(**tensors: np.ndarray) -> Any:
    return lambda folder: save_file(tensors, folder / "values.safetensors")


ACTIVE = np.ones((2, 2), dtype=np.uint8)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "is damaged.*Copy it again"),
        (lambda f: (f / "values.safetensors").unlink(), "values.safetensors is missing"),
        (foreign(weight=np.zeros(3)), "but they are .*weight"),
        (foreign(values=np.zeros((2, 9)), active=ACTIVE), r"arrays of the shapes .*\[2, 9\]"),
        (lambda f: (f / "card.json").unlink(), "there is no .*card.json"),
        (lambda f: (f / "card.json").write_text('{"format": '), "must be JSON"),
        (card(format="pivotal-intervention-9"), "format cannot be 'pivotal-intervention-9'"),
        (card(units=None), r"card\.json: units is missing"),
        (card(directions=["singular"] * 2), "directions must differ, but both are"),
        (card(units=[UNIT, UNIT]), r"has each unit once, but hidden\.0:4 occurs more often"),
        (card(units=[UNIT, {**UNIT, "index": -1}]), r"units\[1\]\.index: expected `int` >= 0"),
        (of_eight_gigabytes, r"but they are .*\[2, 1000000000\]"),
        (card(steps="sometimes"), "steps cannot be 'sometimes'"),
    ],
)  # fmt: skip
def test_a_damaged_folder_is_refused_with_the_reason(saved, damage, message):
    damage(saved)
    with pytest.raises(PivotalError, match=message):
        Intervention.load(saved)


def test_a_reader_does_not_mix_two_states_of_a_folder(saved):
    """The card is written last: before that, the arrays of the new state stand beside the card of the old one."""
    card = (saved / "card.json").read_text()
    for other in (replace(GOOD, values=-GOOD.values), replace(GOOD, active=~GOOD.active)):
        other.save(saved)
        (saved / "card.json").write_text(card)
        with pytest.raises(PivotalError, match="does not belong to the card beside it"):
            Intervention.load(saved)
    changed(saved / "card.json", fingerprint=None)
    Intervention.load(saved)  # an older card


def test_a_card_states_a_size_only_where_a_unit_has_several_coordinates(tmp_path):
    head = replace(GOOD, units=(GOOD.units[0], Unit("head.1", 2, 3)), values=np.ones((2, 4)))
    rows = json.loads((head.save(tmp_path) / "card.json").read_text(encoding="utf-8"))["units"]
    assert [row.get("size") for row in rows] == [None, 3]
    assert Intervention.load(tmp_path) == head


def test_a_save_that_dies_leaves_no_card(tmp_path, monkeypatch):
    """The card comes last: a folder that has one is whole."""
    monkeypatch.setattr("pivotal.records.serial.encode", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        GOOD.save(tmp_path)
    assert not (tmp_path / "card.json").exists()
    with pytest.raises(PivotalError, match="there is no"):
        Intervention.load(tmp_path)
