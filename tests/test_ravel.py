"""The benchmark on RAVEL: its folder, its instances, and its scores on a model whose truth is known."""

import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.paths import SHARED, loaded
from torch import Tensor, nn

from pivotal import PivotalError
from pivotal.models import ModuleLM
from pivotal.units import Unit

COLOURS, SIZES = ("red", "green", "blue"), ("big", "small", "tiny")
ENTITIES = {f"the thing{i}": {"Color": COLOURS[i % 3], "Size": SIZES[i // 3 % 3]} for i in range(36)}
PROMPTS = {
    "Color": ["%s color", "so %s color", "now %s color"],
    "Size": ["%s size", "so %s size", "now %s size"],
}
SPLIT = {"%s": "train", "so": "val", "now": "test"}
WORDS = [
    *dict.fromkeys(" ".join([*ENTITIES, *PROMPTS["Color"], "size"]).replace("%s ", "").split()),
    *COLOURS,
    *SIZES,
]


class Planted(nn.Module):
    """An entity's last word has its colour in the units 0 to 2 and its size in the units 3 to 5. The word that asks for
    an attribute raises the words of that attribute. The output reads the sum over all words so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 8)
        self.output = nn.Linear(8, len(WORDS), bias=False)
        at = {word: i for i, word in enumerate(WORDS)}
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.output.weight.zero_()
            for name, has in ENTITIES.items():
                code = self.embedding.weight[at[name.split()[-1]]]
                code[COLOURS.index(has["Color"])] = code[3 + SIZES.index(has["Size"])] = 1.0
            self.embedding.weight[at["color"], 6] = self.embedding.weight[at["size"], 7] = 10.0
            for i, word in enumerate((*COLOURS, *SIZES)):
                self.output.weight[at[word], i] = 1.0
                self.output.weight[at[word], 6 + i // 3] = 1.0

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.embedding(ids).cumsum(1))


@pytest.fixture
def bench() -> ModuleType:
    return loaded("ravel", "benchmarks")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The planted entities in RAVEL's format, as the type verb."""
    prompts = [one for some in PROMPTS.values() for one in some]
    contents: dict[str, Any] = {
        "entity_attributes": ENTITIES,
        "attribute_to_prompts": PROMPTS,
        "entity_to_split": {name: ("train", "val", "test")[i // 9 % 3] for i, name in enumerate(ENTITIES)},
        "prompt_to_split": {one: SPLIT[one.split()[0]] for one in prompts},
    }
    for name, content in contents.items():
        (tmp_path / f"ravel_verb_{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


@pytest.fixture
def planted() -> ModuleLM:
    return ModuleLM("planted", Planted(), WORDS, {"resid.0": "embedding"})


def made(bench: ModuleType, folder: Path, model: ModuleLM) -> dict[str, list[Any]]:
    data = sys.modules["ravel_instances"]
    ravel, sizes = data.read(folder, "verb"), data.Sizes(least=0.5, train=64, test=32)
    right = {name: data.what_it_knows(model, ravel, name, sizes) for name in ravel.prompts}
    assert {name: len(some) for name, some in right.items()} == {"Color": 3, "Size": 3}
    return data.instances(model, ravel, right, sizes)


def test_instances_keep_the_published_splits(bench, folder, planted):
    those = made(bench, folder, planted)
    ravel = sys.modules["ravel_instances"].read(folder, "verb")
    for split, entities, prompts in (
        ("train", "train", "train"),
        ("entity", "test", "train"),
        ("prompt", "train", "test"),
    ):
        for one in those[split]:
            for side in (one.base, one.source):
                assert ravel.entity_split[side.entity] == entities
                assert ravel.prompt_split[side.prompt] == prompts
                assert planted.word(side.ids[side.place]) == side.entity.split()[-1]
            assert planted.word(one.own[0]) == ENTITIES[one.base.entity][one.attribute]
            assert planted.word(one.other[0]) == ENTITIES[one.source.entity][one.attribute]
            assert one.own != one.other


def test_scores_are_the_truth_of_a_planted_model(bench, folder, planted):
    """Exchanged are the units of the colour, of the size, all, and none that matters."""
    on = bench.Exchanges(planted, made(bench, folder, planted)["entity"], "Color")

    def scored(units: range) -> tuple[float, ...]:
        method = bench.of_units(planted, [Unit("resid.0", i) for i in units])
        found = bench.scores(on, on.hits(method(on)))
        return tuple(found[name][0] for name in ("disentangle", "cause", "isolate"))

    assert scored(range(3)) == (1, 1, 1)
    assert scored(range(3, 6)) == (0, 0, 0)
    assert scored(range(6)) == (0.5, 1, 0)
    assert scored(range(6, 8)) == (0.5, 0, 1)
    whole = on.hits(bench.along("resid.0", None)(on))
    assert (whole == on.hits(bench.of_units(planted, [Unit("resid.0", i) for i in range(8)])(on))).all()


def test_searches_and_multi_task_das_find_the_planted_units(bench, folder, planted):
    setup = bench.Setup(planted, "Color", 0, made(bench, folder, planted), updates=60, rate=0.03)
    names = ["full layer", "MDAS", "resid, isolating", "resid@means, isolating", "resid@das, isolating"]
    names.append("MDAS from class means")
    rows = {row["method"]: row for row in bench.rows_of(setup, names, [3])}
    assert rows["full layer"]["entity"]["disentangle"][0] == 0.5
    assert rows["resid, isolating"]["prompt"]["disentangle"][0] == 1
    assert rows["resid, isolating"]["dims"] == 3
    assert rows["resid@means, isolating"]["entity"]["disentangle"][0] == 1
    assert rows["MDAS"]["entity"]["disentangle"][0] > 0.9
    assert rows["resid@das, isolating"]["entity"]["disentangle"][0] > 0.9
    assert rows["MDAS from class means"]["entity"]["disentangle"][0] > 0.9
    assert rows["MDAS from class means"]["dims"] <= 3


def test_a_folder_with_missing_or_spoilt_files_is_refused(bench, folder, monkeypatch, capsys):
    def said(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["ravel.py", *words, "--work", str(folder / "work")])
        assert bench.main() == 2
        return capsys.readouterr().err

    assert "not 'verbs'. Did you mean 'verb'?" in said(str(folder), "planted", "verbs")
    splits = folder / "ravel_verb_prompt_to_split.json"
    splits.write_text(json.dumps({"%s color": "train"}), encoding="utf-8")
    assert "'so %s color' has None. Unpack data.tgz again" in said(str(folder), "planted", "verb")
    splits.write_text("{", encoding="utf-8")
    assert "ravel_verb_prompt_to_split.json is not JSON" in said(str(folder), "planted", "verb")
    splits.unlink()
    told = said(str(folder), "planted", "verb")
    assert "has no ravel_verb_prompt_to_split.json. Unpack data.tgz of github.com/explanare/ravel" in told
    assert not (folder / "work").exists()


@pytest.mark.skipif(not (SHARED / "data/ravel/data.tgz").is_file(), reason="RAVEL is not beside the clone")
@pytest.mark.parametrize("kind", ["city", "nobel_prize_winner", "occupation", "physical_object", "verb"])
def test_the_published_files_are_read(bench, tmp_path, kind):
    with tarfile.open(SHARED / "data/ravel/data.tgz") as published:
        published.extractall(tmp_path, filter="data")
    ravel = sys.modules["ravel_instances"].read(tmp_path / "data", kind)
    assert set(ravel.entity_split.values()) == {"train", "val", "test"}
    assert all("%s" in one for some in ravel.prompts.values() for one in some)
    assert all(ravel.prompts_of(attribute, "train") for attribute in ravel.prompts)
    with pytest.raises(PivotalError, match="holds 4 files"):
        sys.modules["ravel_instances"].read(tmp_path, kind)
