"""Folders of transformers with a broken file, which the message names, and what is kept of a GGUF file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.models.tiny import PREFIXES, drawn, random_model, save_tiny, tokenizer
from tests.stored_json import changed
from transformers import AutoModelForCausalLM, AutoTokenizer

from pivotal import PivotalError, load_model
from pivotal.models import TransformersLM
from pivotal.models.transformers.gguf import converted, digest, untied, wants_bos


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("whole"))


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def claiming(**settings: object) -> Callable[[Path], object]:
    """Change config.json alone."""
    return lambda folder: changed(folder / "config.json", **settings)


def with_a_nan(folder: Path) -> None:
    model = random_model("llama")
    model.model.layers[1].mlp.down_proj.weight.data[3, 5] = float("nan")
    model.save_pretrained(folder)


def with_code(folder: Path) -> None:
    """A model with its own code; the code would leave a file if it ran."""
    classes = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.LM"}
    claiming(model_type="strange", auto_map=classes)(folder)
    code = f"open({str(folder / 'ran')!r}, 'w')\nclass Config: pass\nclass LM: pass\n"
    (folder / "code.py").write_text(code)


def no_tokenizer(folder: Path) -> None:
    for path in folder.glob("token*"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, r"cannot be loaded as a causal language model \(SafetensorError.*Download missing"),
        (claiming(num_hidden_layers=2**64), "states 18,446,744,073,709,551,616 layers"),
        (claiming(intermediate_size=32), r"cannot be loaded as a causal language model.*[Mm]ismatch"),
        (with_a_nan, r"Some weights in model\.layers\.1\.mlp\.down_proj\.weight of .* are not finite"),
        (with_code, r"needs Python code that comes with the model, and pivotal never runs"),
        (no_tokenizer, "tokenizer of tiny cannot be read"),
        (lambda f: (f / "tokenizer.json").write_text("{oh"), "tokenizer of tiny cannot be read"),
        (lambda f: (f / "config.json").write_text("{oh"), r"config\.json must be JSON"),
    ],
)
def test_a_broken_file_is_named(whole, spoil, said, tmp_path):
    spoil(shutil.copytree(whole, tmp_path / "tiny"))
    with pytest.raises(PivotalError, match=said):
        load_model(tmp_path / "tiny")
    assert not (tmp_path / "tiny" / "ran").exists()


def test_a_gguf_file_that_is_none(tmp_path):
    (tmp_path / "tiny.gguf").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(PivotalError, match=r"tiny\.gguf cannot be read as a causal language model"):
        load_model(tmp_path / "tiny.gguf")
    assert not list((tmp_path / "home" / "converted").glob("*")), "nothing half-made is left behind"
    with pytest.raises(PivotalError, match="no file"):
        load_model(tmp_path / "absent.gguf")


def test_priming_that_the_model_cannot_read():
    with pytest.raises(PivotalError, match="The priming text 'zzz' is not in the model's words"):
        TransformersLM("llama", random_model("llama"), tokenizer(), priming="zzz")


def test_a_tokenizer_without_its_token_for_unknown_words(whole, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    words = json.loads((folder / "tokenizer.json").read_text())["model"]
    changed(folder / "tokenizer.json", model={**words, "unk_token": "gone"})
    model = load_model(str(folder))
    assert len(model.encode("The doctor").ids) == 2
    for ask in (model.encode, model.tokens_of):
        with pytest.raises(PivotalError, match="the tokenizer cannot read it"):
            ask("The zebra")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))


def test_a_digest_is_found_once_as_long_as_its_file_stays_the_same(tmp_path):
    file = tmp_path / "weights"
    file.write_text("old")
    before = digest(file)
    (note,) = (tmp_path / "home" / "digests").iterdir()
    for known, expected in (("f" * 64, "f" * 64), ("spoilt", before)):
        note.write_text(known)
        assert digest(file) == expected
    file.write_text("new")
    os.utime(file, ns=(0, 0))
    assert digest(file) != before


def test_a_folder_is_converted_once_and_anew_if_it_is_of_an_older_form(tmp_path, capsys, monkeypatch):
    gguf = tmp_path / "model.gguf"
    gguf.write_text("weights")
    calls = 0

    def convert(_: Path, folder: Path) -> None:
        nonlocal calls
        calls += 1
        (folder / "config.json").write_text(str(calls))

    monkeypatch.setattr("pivotal.models.transformers.gguf._convert", convert)
    folder = converted(gguf)
    assert converted(gguf) == folder and calls == 1
    said = capsys.readouterr().err
    assert said.count("Converting model.gguf") == said.count("Converted model.gguf in") == 1
    for file in folder.iterdir():
        if file.name != "config.json":
            file.unlink()
    assert (converted(gguf) / "config.json").read_text() == "2"


def test_a_folder_that_another_process_has_finished_first_stays(tmp_path, monkeypatch):
    """The other process may be reading it."""
    gguf = tmp_path / "model.gguf"
    gguf.write_text("weights")

    began = 0

    def convert(_: Path, folder: Path) -> None:
        nonlocal began
        began += 1
        (folder / "config.json").write_text(str(began))
        if began == 1:
            converted(gguf)  # the other process, while this one is still at work

    monkeypatch.setattr("pivotal.models.transformers.gguf._convert", convert)
    assert (converted(gguf) / "config.json").read_text() == "2"


def test_of_weights_with_two_names_the_embedding_is_kept(tmp_path):
    """Then nothing is missing when the folder is loaded, and nothing is drawn at random."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model = random_model("llama", tie_word_embeddings=True)
    kept = untied(model.state_dict())
    assert set(model.state_dict()) - set(kept) == {"lm_head.weight"}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    for (name, ours), theirs in zip(model.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
    assert set(untied(random_model("llama").state_dict())) == set(random_model("llama").state_dict())


@pytest.mark.parametrize("otherwise", [False, True])
def test_bos_is_read_where_llama_cpp_reads_it(tmp_path, otherwise):
    header = b"GGUF\0\0tokenizer.ggml.model\x08\0\0\0\x05\0\0\0\0\0\0\0"
    for kind, usual in ((b"llama", True), (b"gpt-2", otherwise)):
        for said, expected in ((b"", usual), (b"\0", False), (b"\1", True)):
            key = b"tokenizer.ggml.add_bos_token\x07\0\0\0" if said else b""
            (tmp_path / "a.gguf").write_bytes(header + kind + key + said + b"weights")
            assert wants_bos(tmp_path / "a.gguf", otherwise) == expected


def test_units_of_a_model_in_memory_are_used_in_its_folder(tmp_path):
    folder = save_tiny(tmp_path / "tiny")
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    inside = load_model(torch.compile(network), AutoTokenizer.from_pretrained(folder), name="mine")
    found, loaded = drawn(inside, "mlp"), load_model(folder)
    assert loaded.fingerprint() != inside.fingerprint()
    edited = loaded.intervened(found, direction="plural")
    assert edited.next_words(PREFIXES[0]) == inside.intervened(found, direction="plural").next_words(
        PREFIXES[0]
    )
    with_files = drawn(load_model(folder), "mlp")
    assert loaded.intervened(with_files, direction="plural").intervention == with_files
    with torch.no_grad():
        next(network.parameters())[0, 0] += 1
    other = load_model(network, loaded.tokenizer, name="mine")
    with pytest.raises(PivotalError, match="belongs to the model that it was found in"):
        load_model(folder).intervened(drawn(other, "mlp"), direction="plural")
