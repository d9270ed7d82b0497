"""Every export gives our logits in its own library."""

from __future__ import annotations

import importlib.util
import itertools
import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exports.conftest import ALL, FEATURES, INPUTS, LINEAR, Tiny, peer_python
from tests.exports.peer import __file__ as peer
from torch import Tensor

from pivotal.exports import Portable, export

Make = Callable[..., Tiny]
Units = tuple[tuple[str, int], ...]
CLOSE = 1e-5
SLOW, MORE = pytest.mark.slow, ("qwen3", "opt", "falcon")


def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()


@torch.no_grad()
def last_logits(model: Any, rows: list[list[int]]) -> Tensor:
    return torch.stack([model(input_ids=torch.tensor([row])).logits[0, -1] for row in rows])


def snippet(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("intervene", folder / "intervene.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", ["llama", "gpt2", *(pytest.param(one, marks=SLOW) for one in MORE)])
@pytest.mark.parametrize(("direction", "units"), [("one", INPUTS), ("two", INPUTS), ("one", LINEAR)])
def test_the_adapter_of_peft(tiny: Make, family: str, direction: str, units: Units, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = tiny(family)
    found = model.intervention(units)
    export(Portable.of(model.lm, found), "peft", tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of projections without a bias
        adapted = peft.PeftModel.from_pretrained(loaded(model.folder), tmp_path / "out" / direction)
    ours = model.logits(found, direction)
    assert (last_logits(adapted, model.rows()) - ours).abs().max() < CLOSE
    with adapted.disable_adapter():
        assert (last_logits(adapted, model.rows()) - ours).abs().max() > 0.1


def test_an_adapter_merges_into_projections_with_a_bias(tiny: Make, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = tiny("gpt2")
    found = model.intervention()
    export(Portable.of(model.lm, found, direction="two"), "peft", tmp_path / "out")
    merged = peft.PeftModel.from_pretrained(loaded(model.folder), tmp_path / "out" / "two").merge_and_unload()
    assert (last_logits(merged, model.rows()) - model.logits(found, "two")).abs().max() < CLOSE
    assert not (tmp_path / "out" / "one").exists()


@pytest.mark.parametrize(
    ("family", "units"),
    [*itertools.product(("llama", "gpt2"), (INPUTS, LINEAR)), ("qwen3", (("attn.1", 2), ("head.2", 1)))],
)
def test_the_folder_of_transformers(tiny: Make, family: str, units: Units, tmp_path: Path) -> None:
    """Llama gets biases for all its projections, GPT-2 has them, and Qwen3 has a setting for attention only."""
    model = tiny(family)
    found = model.intervention(units)
    export(Portable.of(model.lm, found), "transformers", tmp_path / "out")
    for direction in found.directions:
        baked = loaded(tmp_path / "out" / direction)
        assert (last_logits(baked, model.rows()) - model.logits(found, direction)).abs().max() < CLOSE
    from transformers import AutoTokenizer

    read = AutoTokenizer.from_pretrained(tmp_path / "out" / "one")("The doctors")["input_ids"]
    assert read == list(model.lm.encode("The doctors").ids)
    modes = {path.stat().st_mode for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert len(modes) == 1  # whoever can read one file of the folder can read all of them


@pytest.mark.parametrize(
    ("family", "bos"), [("llama", True), ("gpt2", False), ("opt", True), ("gemma2", False)]
)
@pytest.mark.parametrize(
    ("units", "cue"),
    [(INPUTS, None), (ALL, None), (ALL, 1), (LINEAR, None), (FEATURES, None), (FEATURES, 1)],
)
def test_the_snippet(
    tiny: Make, family: str, bos: bool, units: Units, cue: int | None, tmp_path: Path
) -> None:
    model = tiny(family, bos=bos)
    found = model.intervention(units, steps="every" if cue is None else "single")
    export(Portable.of(model.lm, found), "snippet", tmp_path / "out")
    network, code = loaded(model.folder), snippet(tmp_path / "out")
    before = last_logits(network, model.rows())
    for direction in found.directions:
        with code.intervene(network, direction, position=cue):
            theirs = last_logits(network, model.rows())
        assert (theirs - model.logits(found, direction, cue)).abs().max() < CLOSE
    assert torch.equal(last_logits(network, model.rows()), before)  # every hook is removed
    with pytest.raises(ValueError, match="position"), code.intervene(network, "one", None if cue else 1):
        pass


@pytest.mark.parametrize("cue", [None, 2])
def test_the_snippet_continues_a_text_with_a_cache(tiny: Make, cue: int | None, tmp_path: Path) -> None:
    """With a cache, a model sees one new token at a time; positions are counted from the start of the text."""
    model = tiny("llama", bos=True)
    found = model.intervention(ALL, steps="every" if cue is None else "single")
    export(Portable.of(model.lm, found), "snippet", tmp_path / "out")
    network, row = loaded(model.folder), torch.tensor([model.rows()[1]])

    def scores(cache: bool) -> Tensor:
        told = {"max_new_tokens": 5, "do_sample": False, "return_dict_in_generate": True}
        return torch.stack(network.generate(row, use_cache=cache, output_scores=True, **told).scores)

    with snippet(tmp_path / "out").intervene(network, "two", position=cue):
        fast, slow = scores(True), scores(False)
    assert (fast - slow).abs().max() < CLOSE
    assert (fast[0] - scores(True)[0]).abs().max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("target", ["pyvene", "nnsight", "transformer-lens"])
def test_code_for_other_libraries(target: str, tiny: Make, tmp_path: Path) -> None:
    """Each library runs all cases in one process of its own environment."""
    python = peer_python(target)
    cases, ours = [], []
    for family, bos in (("llama", True), ("gpt2", False)):
        model = tiny(family, bos=bos)
        for units, cue in ((INPUTS, None), (ALL, None), (ALL, 1), (FEATURES, None), (FEATURES, 1)):
            found = model.intervention(units, steps="every" if cue is None else "single")
            folder = tmp_path / f"{family}-{len(cases)}"
            export(Portable.of(model.lm, found), target, folder)
            for direction in found.directions:
                names = {"target": target, "folder": str(folder), "model": str(model.folder)}
                cases.append({**names, "direction": direction, "rows": model.rows()})
                cases[-1]["positions"] = None if cue is None else [cue] * len(model.rows())
                ours.append(model.logits(found, direction, cue))
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    command = [python, peer, tmp_path / "cases.json", tmp_path / "out.npz"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    theirs = np.load(tmp_path / "out.npz")
    for number, (case, expected) in enumerate(zip(cases, ours, strict=True)):
        worst = float((torch.tensor(theirs[f"arr_{number}"]) - expected).abs().max())
        assert worst < CLOSE, (case["folder"], case["direction"], case["positions"], worst)
