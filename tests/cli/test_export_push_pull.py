"""`pivotal export`, `push` and `pull`, by folders and with a stand-in for the hub."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tests.exports.hub_server import Hub, serving
from tests.models.tiny import save_tiny
from tests.processes import Process, locked_elsewhere
from tests.processes import code as printed

from pivotal import Intervention, PivotalError, load_model
from pivotal.cli.export import _evidence
from pivotal.cli.run_argument import Saved
from pivotal.cli.shared_options import RunOptions
from pivotal.models.bases import Basis, stored_bases
from pivotal.units import Unit


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("push") / "tiny")


@pytest.fixture(scope="module")
def saved(model: Path) -> Path:
    """An intervention without a run, in a tiny model in a folder."""
    lm = load_model(model, device="cpu")
    units = (Unit("mlp.0", 3), Unit("mlp.1", 2))
    about = ("tiny", lm.fingerprint(), "number/agreement", "0")
    scores = {"flip_accuracy": 0.97, "interval": [0.95, 0.98], "kl": 0.25}
    found = Intervention(units, ("singular", "plural"), np.ones((2, 2)), "every", *about, scores=scores)
    return found.save(model.parent / "found")


def test_export_writes_a_folder(pivotal, model, saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pivotal("export", saved, "--to", "snippet", "--direction", "plural", "--model", model)
    assert done.code == 0, done.err
    (out,) = (tmp_path / "exports").iterdir()
    assert out.name.startswith("number-agreement-every-") and out.name.endswith("tiny-snippet")
    assert f"Written to exports/{out.name}" in done.out and "'plural'" in (out / "intervene.py").read_text()
    again = ("export", saved, "--to", "snippet", "--out", out, "--model", model)
    pivotal(*again).refused("holds an export", "--overwrite")
    told = pivotal(*again, "--overwrite", "--json").json
    assert told["folder"] == str(out) and told["directions"] == ["singular", "plural"]
    assert told["approximate"] == [] and told["target"] == "snippet"


def test_units_in_a_basis_are_exported_from_their_folder_alone(pivotal, model, saved, tmp_path):
    own = Intervention.load(saved)
    site, unit = "resid.1@pca", Unit("resid.1@pca", 2)
    width = next(s.coordinates for s in load_model(model, device="cpu").sites if s.name == "resid.1")
    bases = stored_bases({site: Basis.rotation("pca", torch.eye(width))}, (unit,))
    about = (own.model, own.model_fingerprint, own.phenomenon, "0")
    found = Intervention((unit,), own.directions, np.ones((2, 1)), "every", *about, bases=bases)
    found.save(tmp_path / "found")
    told = pivotal(
        *("export", tmp_path / "found", "--to", "nnsight", "--model", model),
        *("--out", tmp_path / "out", "--json"),
    ).json
    assert told["units"] == ["resid.1@pca:2"] and "bases.safetensors" in told["files"]


def test_what_export_and_push_refuse(pivotal, saved, tmp_path):
    out = ("--out", tmp_path / "out")
    pivotal("push", saved, "units", "--dry-run").refused("ORG/NAME", "'units'")
    pivotal("export", saved, "--to", "snipet", *out).refused("'snipet'", "Did you mean 'snippet'")
    pivotal("export", saved, "--to", "llama.cpp", *out).refused("Did you mean 'control-vector'")
    pivotal("export", saved, "--to", "peft", "--direction", "dual", *out).refused(
        "'dual'", "singular or plural"
    )
    assert not (tmp_path / "out").exists()


def test_a_dry_run_writes_the_folder_and_prints_the_card(pivotal, model, saved, tmp_path):
    out = tmp_path / "out"
    about = ("--base-model", "org/tiny", "--license", "mit", "--model", model, "--device", "cpu")
    done = pivotal("push", saved, "me/units", "--dry-run", "--out", out, *about)
    assert done.code == 0, done.err
    text = (out / "README.md").read_text()
    assert text.strip() in done.out and "nothing was uploaded" in done.out
    card = yaml.safe_load(text.split("---")[1])
    assert card["library_name"] == "pivotal" and card["license"] == "mit"
    assert (card["base_model"], card["base_model_relation"]) == ("org/tiny", "adapter")
    adapter = json.loads((out / "adapters" / "plural" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "org/tiny"
    assert str(model.parent) not in "".join(
        path.read_text() for path in out.rglob("*") if path.suffix in (".json", ".md")
    )
    pivotal("push", saved, "me/units", "--dry-run", "--out", out, *about).refused(
        "holds other files", "--out"
    )


def test_what_is_missing_from_a_card_is_told(pivotal, run_folder, tmp_path):
    """A run of a model that peft does not know, with its report."""
    told = pivotal("push", run_folder, "me/units", "--dry-run", "--out", tmp_path / "out", "--json")
    notes = " ".join(told.json["notes"])
    assert "--base-model" in notes and "--license" in notes
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert there == {"README.md", "card.json", "values.safetensors", "report.html"}
    assert re.search("303 held-out pairs.*\n\nSwitch: ", (tmp_path / "out" / "README.md").read_text())


def test_files_of_another_run_are_not_shared(own_run):
    """The run is replaced while the model is loaded."""
    read = Saved.read(str(own_run), RunOptions())
    units = read.intervention
    replace(units, values=-units.values).save(own_run / "interventions" / str(read.run))
    with pytest.raises(PivotalError, match="has changed meanwhile"):
        _evidence(read)


def test_a_folder_that_is_being_written_is_refused(pivotal, model, saved, tmp_path):
    out = ("--out", tmp_path / "out")
    with locked_elsewhere(tmp_path / "out"):
        pivotal("pull", saved, *out).refused("is working on the folder")
        pivotal("push", saved, "me/units", "--model", model, *out).refused("is working on the folder")
    assert not (tmp_path / "out").exists()


def test_pull_takes_a_folder(pivotal, saved, tmp_path):
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    Intervention.load(saved).save(theirs)
    (theirs / "evil.py").write_text("raise SystemExit")
    (theirs / "evil.pkl").write_bytes(b"\x80\x04.")
    assert pivotal("pull", theirs, "--out", out, "--json").json["commit"] is None
    assert {path.name for path in out.iterdir()} == {"card.json", "values.safetensors", "source.json"}
    assert Intervention.load(out) == Intervention.load(saved)
    assert pivotal("pull", theirs, "--out", out).code == 0  # the same files again
    Intervention.load(saved).without(0).save(theirs)
    pivotal("pull", theirs, "--out", out).refused("Nothing was changed", "--overwrite")
    assert pivotal("pull", theirs, "--out", out, "--overwrite").code == 0
    pivotal("pull", out, "--out", out).refused("Nothing was changed", "--overwrite")
    assert pivotal("pull", out, "--out", out, "--overwrite").code == 0  # into the folder that it comes from
    assert len(Intervention.load(out)) == 1


def test_from_python_with_folders(model, saved, tmp_path):
    units = Intervention.load(saved)
    assert Intervention.from_pretrained(saved) == units
    lm = load_model(model, device="cpu")
    with pytest.raises(PivotalError, match="named ORG/NAME"):
        units.push_to_hub("units", lm)
    with pytest.raises(PivotalError, match="belongs to the model that it was found in"):
        units.push_to_hub("me/units", load_model("planted"))
    assert units.export(lm, "snippet", tmp_path / "out", direction="plural").directions == ("plural",)
    for other, said in (
        ("planted", "needed, not 'planted'"),
        (load_model("planted"), "belongs to the model"),
    ):
        with pytest.raises(PivotalError, match=said):
            units.export(other, "snippet", tmp_path / "other")
    with pytest.raises(PivotalError, match=r"is for a repository, but .* is a folder"):
        Intervention.from_pretrained(saved, revision="main")


def test_what_pull_refuses(pivotal, saved, tmp_path):
    out = ("--out", tmp_path / "out")
    pivotal("pull", "no-such-folder", *out).refused("ORG/NAME")
    theirs = Intervention.load(saved).save(tmp_path / "theirs")
    (theirs / "certificate.json").write_text("{}")
    pivotal("pull", theirs, *out).refused("certificate.json")
    (theirs / "certificate.json").unlink()
    (theirs / "values.safetensors").unlink()
    pivotal("pull", theirs, *out).refused("values.safetensors")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file.txt").write_text("mine")
    pivotal("pull", saved, "--out", tmp_path / "mine", "--overwrite").refused("holds other files")


@pytest.mark.slow
def test_push_and_pull_with_a_hub(model, saved, tmp_path):
    """Processes of their own: huggingface_hub reads its settings when it is imported."""
    hub = Hub("me/units")
    with serving(hub):
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_TOKEN": "hf_test"}

        def run(*arguments: str | Path, code: int = 0) -> str:
            out, err = (ran := Process("pivotal", *arguments, env=settings, cwd=tmp_path)).communicate()
            assert ran.returncode == code, err
            return out if code == 0 else err

        said = run("push", saved, "me/units", "--model", model, "--device", "cpu", "--license", "mit")
        first = hub.newest
        assert first in said and "adapters/plural/adapter_model.safetensors" in hub.commits[first]
        assert "README.md" in hub.commits[first]
        evil = {**hub.commits[first], "evil.py": b"raise SystemExit", "evil.bin": b"\x80\x04."}
        second = hub.commit(evil)
        hub.asked.clear()
        told = json.loads(run("pull", "me/units", "--json"))
        assert told["commit"] == second
        fetched = {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line}
        assert fetched == {"card.json", "values.safetensors"}
        there = {path.name for path in (tmp_path / "interventions" / "me-units").iterdir()}
        assert there == {"card.json", "values.safetensors", "source.json"}
        assert f"at commit {second}" in run("pull", "me/units", "--revision", first, code=2)
        assert "Cannot take me/other, revision main" in run("pull", "me/other", code=2)
        hub.commit({**evil, "bases.safetensors": b"of other units"})
        single = replace(Intervention.load(saved), steps="single").save(tmp_path / "single")
        assert "no adapters" in run("push", single, "me/units", "--model", model, "--device", "cpu", "--json")
        assert not any(name.startswith(("adapters/", "bases")) for name in hub.commits[hub.newest])
        # The same in Python.
        program = (
            "import pivotal\n"
            f"model = pivotal.load_model({str(model)!r}, device='cpu')\n"
            f"units = pivotal.Intervention.load({str(saved)!r})\n"
            "print(units.push_to_hub('me/units', model, base_model='org/tiny', license='mit'))\n"
            "assert pivotal.Intervention.from_pretrained('me/units') == units\n"
            f"assert len(pivotal.Intervention.from_pretrained('me/units', revision={first!r})) == len(units)\n"
        )
        assert printed(program, env=settings).strip().endswith(f"/me/units/commit/{hub.newest}")
        card = yaml.safe_load(hub.commits[hub.newest]["README.md"].decode().split("---")[1])
        assert (card["base_model"], card["license"]) == ("org/tiny", "mit")
        second = hub.newest
    # The hub is gone: what was pulled before is in the cache.
    told = json.loads(run("pull", "me/units", "--revision", second, "--out", "again", "--json"))
    assert told["commit"] == second
    last = json.loads(run("pull", "me/units", "--offline", "--out", "last", "--json"))
    assert last["commit"] == second and last["files"] == told["files"]  # the newest that was downloaded
    assert "Without a network" in run("pull", "me/other", "--offline", code=2)
