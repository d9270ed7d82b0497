"""A checkpoint becomes a folder whose model computes what the original computed."""

import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pivotal import PivotalError, load_model
from pivotal.lm.import_checkpoint import import_checkpoint, read_model

Original = Callable[..., Any]

MODEL_PY = '''
from torch import nn

class RNNModel(nn.Module):
    """The layout of the checkpoints: the same attributes, in the same order."""

    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.0, tie_weights=False, bias=True):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ("LSTM", "GRU"):
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout, bias=bias)
        else:
            how = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=how, dropout=dropout, bias=bias)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])
'''

WORDS = ("<unk>", "the", "cat", "cats", "<eos>", "sleeps", "sleep", "near", "dogs")


@pytest.fixture
def original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A model of the class `model.RNNModel`, which can be found as long as the test lasts."""
    source = tmp_path / "written" / "model.py"
    source.parent.mkdir()
    source.write_text(MODEL_PY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("model", source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "model", module)
    spec.loader.exec_module(module)

    def make(rnn_type: str = "LSTM", nlayers: int = 2, **options: Any) -> Any:
        torch.manual_seed(0)
        sizes = {"ntoken": len(WORDS), "ninp": 4, "nhid": 4 if options.get("tie_weights") else 5}
        return module.RNNModel(rnn_type, nlayers=nlayers, **{**sizes, **options}).eval()

    return make


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return path


def save(what: Any, path: Path, zipped: bool) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it keeps the source of the class
        torch.save(what, path, _use_new_zipfile_serialization=zipped)
    return path


def logits_of(model: Any, ids: list[int]) -> torch.Tensor:
    """Of the word after each of the ids, read after `<eos>` from the zero state, as a folder's model does."""
    with torch.no_grad():
        return model(torch.tensor([[WORDS.index("<eos>")], *([i] for i in ids)]))[1:, 0]


@pytest.mark.parametrize("zipped", [False, True], ids=["legacy", "zip"])
@pytest.mark.parametrize(
    ("rnn_type", "options"),
    [
        ("LSTM", {}),
        ("LSTM", {"nlayers": 3, "tie_weights": True}),
        ("GRU", {"nlayers": 1, "tie_weights": True}),
        ("GRU", {"nlayers": 3, "bias": False}),
        ("RNN_TANH", {}),
    ],
)
def test_the_imported_model_is_the_original(
    original, vocabulary, tmp_path, monkeypatch, rnn_type, options, zipped
):
    there = original(rnn_type, **options)
    ids = [1, 2, 7, 1, 8]
    expected = logits_of(there, ids)
    checkpoint = save(there, tmp_path / "hidden5.pt", zipped)
    monkeypatch.delitem(sys.modules, "model")
    _, summary = import_checkpoint(checkpoint, vocabulary, tmp_path / "out")
    model = load_model(tmp_path / "out", device="cpu")
    found = model.next_logits([ids[: n + 1] for n in range(len(ids))])
    assert (found - expected).abs().max() < 1e-5
    assert len(model.sites) == options.get("nlayers", 2)
    tied = "decoder.weight" not in load_file(tmp_path / "out" / "model.safetensors")
    assert tied is options.get("tie_weights", False)
    assert summary in (tmp_path / "out" / "card.json").read_text()


@pytest.mark.parametrize("zipped", [False, True], ids=["legacy", "zip"])
@pytest.mark.parametrize("rnn_type", ["LSTM", "GRU"])
def test_a_state_dict_is_enough(original, tmp_path, rnn_type, zipped):
    there = original(rnn_type)
    cell, weights = read_model(save(there.state_dict(), tmp_path / "state.pt", zipped))
    assert cell == rnn_type.lower()
    assert weights.keys() == there.state_dict().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in there.state_dict().items())


def test_other_precisions_become_float32(original, tmp_path):
    there = original().double()
    _, weights = read_model(save(there, tmp_path / "double.pt", False))
    assert weights["encoder.weight"].dtype == torch.float32
    assert torch.equal(weights["encoder.weight"], there.encoder.weight.detach().float())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: o("RNN_RELU"), "must be LSTM or GRU or RNN_TANH, but in .* it is RNN_RELU"),
        (lambda o: o("RNN_TANH").state_dict(), "Of a plain RNN, save the whole model"),
        (lambda o: nn.Linear(2, 2), r"must hold an RNNModel .* holds a torch\.nn\.modules\.linear\.Linear"),
        (lambda o: nn.LSTM(2, 2, bidirectional=True).state_dict(), "there is also bias_hh_l0.* another kind"),
        (lambda o: {"encoder.weight": torch.zeros(2, 2)}, "but decoder.weight is missing"),
        (lambda o: {n: w for n, w in o("GRU", 3).state_dict().items() if not n.endswith("l1")}, "A layer"),
        (lambda o: {**o().state_dict(), "rnn.weight_hh_l0": torch.zeros(())}, "not a state_dict of an LSTM or GRU"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zipped", [False, True], ids=["legacy", "zip"])
def test_another_architecture_is_refused_by_name(original, tmp_path, make, message, zipped):
    path = save(make(original), tmp_path / "other.pt", zipped)
    with pytest.raises(PivotalError, match=message):
        read_model(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*WORDS, "more"), "has 9 rows, but .* has 10 lines"),
        (("a", "b", *WORDS[2:4], "c", *WORDS[5:]), "must have <eos>, before .* lacks it"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(original, tmp_path, words, message):
    checkpoint = save(original(), tmp_path / "model.pt", False)
    (tmp_path / "v.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    with pytest.raises(PivotalError, match=message):
        import_checkpoint(checkpoint, tmp_path / "v.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_closed_vocabulary_has_no_unknown_word(original, tmp_path):
    checkpoint = save(original(), tmp_path / "model.pt", False)
    (tmp_path / "v.txt").write_text("\n".join(("a", *WORDS[1:])) + "\n", encoding="utf-8")
    import_checkpoint(checkpoint, tmp_path / "v.txt", tmp_path / "out")
    model = load_model(str(tmp_path / "out"), device="cpu")
    assert model.vocabulary.unknown_word is None and not model.vocabulary.knows("<unk>")
    assert model.generate("the cat", words=3, temperature=0.0)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\0" * 257 + b"ustar  \0", b"PK\x03\x04" + b"\0" * 60])
def test_files_that_are_no_checkpoints(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(PivotalError, match="cannot be read as a PyTorch checkpoint"):
        read_model(tmp_path / "file")
