"""Every export gives our logits in its own library; what a folder holds, what is refused, and texts that stay data."""

import ast
import importlib.util
import itertools
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from tests.exports.conftest import ALL, FEATURES, INPUTS, LINEAR, Tiny, peer_python
from tests.exports.with_llama_cpp import in_peer
from torch import Tensor

from pivotal import Intervention, PivotalError, load_model
from pivotal.exports import TARGETS, Portable, export, write_files
from pivotal.models import TransformersLM
from pivotal.records.exported import ExportRecord
from pivotal.records.serial import read
from pivotal.units import Unit

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
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", ["llama", "gpt2", *(pytest.param(one, marks=SLOW) for one in MORE)])
@pytest.mark.parametrize(("direction", "units"), [("one", INPUTS), ("two", INPUTS), ("one", LINEAR)])
def test_the_adapter_of_peft(tiny, family, direction, units, tmp_path):
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


def test_an_adapter_merges_into_projections_with_a_bias(tiny, tmp_path):
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
def test_the_folder_of_transformers(tiny, family, units, tmp_path):
    """Llama gets biases for all its projections, GPT-2 has them, and Qwen3 has a setting for attention only. Weights
    may be where accelerate keeps them until their use."""
    model = tiny(family)
    found = model.intervention(units)
    export(Portable.of(model.lm, found), "transformers", tmp_path / "out")
    elsewhere = TransformersLM("tiny", cpu_offload(loaded(model.folder)), model.lm.tokenizer)
    export(Portable.of(elsewhere, found), "transformers", tmp_path / "again")
    for folder, direction in itertools.product(("out", "again"), found.directions):
        baked = loaded(tmp_path / folder / direction)
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
def test_the_snippet(tiny, family, bos, units, cue, tmp_path):
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
def test_the_snippet_continues_a_text_with_a_cache(tiny, cue, tmp_path):
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
def test_code_for_other_libraries(target, tiny, tmp_path):
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
    theirs = in_peer(python, "peer.py", tmp_path, cases)
    for case, found, expected in zip(cases, theirs, ours, strict=True):
        worst = float((torch.tensor(found) - expected).abs().max())
        assert worst < CLOSE, (case["folder"], case["direction"], case["positions"], worst)


CODE = ("nnsight", "pyvene", "snippet", "transformer-lens")
WEIGHTS = ("peft", "transformers")


@pytest.mark.parametrize("target", [*CODE, *WEIGHTS])
def test_a_folder_says_what_it_holds(tiny, target, tmp_path, monkeypatch):
    model = tiny("gpt2")
    found = model.intervention()
    record = export(Portable.of(model.lm, found), target, out := tmp_path / "deep" / "out")
    assert read(out / "export.json", ExportRecord) == record
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == set(record.files) >= {"README.md", "export.json"}
    text = (out / "README.md").read_text()
    assert record.approximate == () and "Exact: the logits are those of pivotal" in text
    assert model.lm.fingerprint() in text and "| head.2:1 |" in text and "not set" in text
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]  # no partial folder is left
    assert "your model object" not in text
    monkeypatch.setattr(model.lm, "in_memory", True)
    for unnamed, cure in ((False, "use your model object instead of"), (True, "Use your model object")):
        (folder := tmp_path / str(unnamed)).mkdir()
        write_files(replace(Portable.of(model.lm, found), in_memory=unnamed), TARGETS.get(target)(), folder)
        assert cure in (text := (folder / "README.md").read_text())
    assert ("model = ...  # your model" in text) == (target in ("peft", "pyvene", "snippet"))


@pytest.mark.parametrize("target", [*CODE, *WEIGHTS])
@pytest.mark.parametrize(("bos", "priming"), [(False, None), (True, None), (False, "<s>"), (True, "")])
def test_the_code_of_a_folder_reads_a_text_as_pivotal_does(target, bos, priming, tiny, tmp_path):
    """The tokenizer may not add what the model reads before a sentence, and may add what it does not read."""
    model = tiny("gpt2", bos=bos)
    lm = load_model(model.folder, priming=priming, device="cpu")
    found = replace(model.intervention(), model_fingerprint=lm.fingerprint())
    export(Portable.of(lm, found), target, tmp_path / "out")
    said = re.search(r"tokenizer\((.*), return_tensors='pt'\)", (tmp_path / "out" / "README.md").read_text())
    assert said is not None and "Your text" in said[1]
    read = eval(f"tokenizer({said[1]})", {"tokenizer": lm.tokenizer})["input_ids"]
    text = lm.tokenizer("Your text", add_special_tokens=False)["input_ids"]
    assert read == [*lm.vocabulary.priming, *text]


def test_an_export_is_replaced_only_if_asked_to(tiny, tmp_path):
    both = Portable.of(tiny("gpt2").lm, tiny("gpt2").intervention())
    export(both, "peft", tmp_path / "out")
    with pytest.raises(PivotalError, match="--overwrite"):
        export(both, "snippet", tmp_path / "out")
    export(both, "snippet", tmp_path / "out", overwrite=True)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["README.md", "export.json", "intervene.py"]
    (tmp_path / "out" / "mine.txt").write_text("mine")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "mine.txt").write_text("mine")
    for folder in ("out", "theirs"):
        with pytest.raises(PivotalError, match=r"holds other files \(mine\.txt\)"):
            export(both, "peft", tmp_path / folder, overwrite=True)


@pytest.mark.parametrize("target", WEIGHTS)
def test_what_weights_cannot_express(tiny, target, tmp_path):
    model = tiny("llama")
    with pytest.raises(PivotalError, match=r"resid\.0 is the output of a block.*snippet"):
        export(Portable.of(model.lm, model.intervention(ALL)), target, tmp_path / "out")
    with pytest.raises(PivotalError, match=r"single-step intervention one word.*snippet"):
        export(Portable.of(model.lm, model.intervention(steps="single")), target, tmp_path / "out")
    features = Portable.of(model.lm, model.intervention(FEATURES))
    with pytest.raises(PivotalError, match=r"those of mlp\.0@sae are not\. Use snippet or pyvene"):
        export(features, target, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_a_basis_of_another_model_is_refused(tiny):
    model = tiny("gpt2")
    found = model.intervention((("resid.0@pca", 1),))
    (stored,) = found.bases.values()
    moved = Intervention((Unit("mlp.0@pca", 1),), *_rest(found), bases={"mlp.0@pca": stored})
    with pytest.raises(PivotalError, match=r"mlp\.0@pca has the width 16"):
        Portable.of(model.lm, moved)


@pytest.mark.parametrize("target", WEIGHTS)
def test_weights_also_change_what_is_read_before_a_sentence(tiny, target, tmp_path):
    model = tiny("llama", bos=True)
    record = export(Portable.of(model.lm, model.intervention()), target, tmp_path / "out")
    assert len(record.approximate) == 1
    assert "reads `<s>` before every sentence. pivotal does not edit this text" in record.approximate[0]
    assert record.approximate[0] in (tmp_path / "out" / "README.md").read_text()


def test_a_model_without_a_setting_for_biases(tiny, tmp_path):
    model = tiny("gemma2")
    with pytest.raises(PivotalError, match=r"no bias in .*mlp\.down_proj\..*peft"):
        export(Portable.of(model.lm, model.intervention(INPUTS)), "transformers", tmp_path / "out")


def test_sites_that_a_library_has_no_hooks_for(tiny, tmp_path):
    model = tiny("mamba")
    found = model.intervention((("mixer.0", 1), ("resid.0", 2)))
    with pytest.raises(PivotalError, match=r"no hook point for mixer.0.*nnsight"):
        export(Portable.of(model.lm, found), "transformer-lens", tmp_path / "out")
    export(Portable.of(model.lm, found), "snippet", tmp_path / "out")


def test_models_and_units_that_cannot_be_exported(tiny):
    planted = load_model("planted")
    found = planted.intervention({"hidden.0:0": (1.0, 1.0)}, ("one", "two"))
    with pytest.raises(PivotalError, match=r"Only Transformers models can be exported.*`pivotal generate`"):
        Portable.of(planted, found)
    model = tiny("gpt2")
    with pytest.raises(PivotalError, match=r"'mlp.9' matches none"):
        Portable.of(model.lm, Intervention((Unit("mlp.9", 0),), *_rest(found)))
    half = Intervention((Unit("mlp.0", 0),), *_rest(found), active=np.array([[True], [False]]))
    assert Portable.of(model.lm, half, direction="one").directions == ("one",)
    with pytest.raises(PivotalError, match=r"No unit is set to flip to two.*--direction one"):
        Portable.of(model.lm, half)
    with pytest.raises(PivotalError, match="'three'"):
        Portable.of(model.lm, half, direction="three")


def _rest(found: Intervention) -> tuple[object, ...]:
    """All but the one unit."""
    return (found.directions, np.ones((2, 1)), "every", "tiny", "0", "number", "0")


def test_a_local_base_is_named_in_full(tiny, tmp_path, monkeypatch):
    """An export is used in its own folder, from which a relative path leads nowhere. Of a folder in pivotal's cache,
    the README names the file that it was made from."""
    model, cached = tiny("gpt2"), tmp_path / "converted" / "tiny.Q4_0-0123456789abcdef"
    (tmp_path / "my model").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model.lm.network, "name_or_path", "my model", raising=False)
    assert Portable.of(model.lm, model.intervention()).base == str(tmp_path / "my model")
    assert Portable.of(model.lm, model.intervention(), base="org/model").base == "org/model"
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path))
    portable = Portable.of(model.lm, model.intervention(), base=str(cached))
    export(replace(portable, verdict="Nudge: | they break the model."), "snippet", tmp_path / "out")
    said = (tmp_path / "out" / "README.md").read_text()
    assert "the copy of tiny.Q4_0.gguf in float32" in said and "\nNudge:   they break the model." in said


HOSTILE = ('"""\nimport os; os.abort()\n', "../../x'); import os; os.abort() #`]```\n# {0}")


@pytest.mark.parametrize("target", [*CODE, *WEIGHTS])
def test_labels_of_a_stranger_stay_data(tiny, target, tmp_path):
    model = tiny("gpt2")
    found = model.intervention(labels=HOSTILE)
    export(Portable.of(model.lm, found, base=HOSTILE[1]), target, tmp_path / "out")
    for path in (tmp_path / "out").glob("*.py"):
        tree = ast.parse(path.read_text())
        assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
        (edits,) = (node.value for node in assigned if getattr(node.targets[0], "id", "") == "EDITS")
        assert set(ast.literal_eval(edits)) == set(HOSTILE)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        assert "os" not in {name.name for node in imports for name in node.names}
    text = (tmp_path / "out" / "README.md").read_text()
    assert text.count("```") % 2 == 0 and "\nimport os" not in text
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
