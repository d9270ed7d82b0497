"""Files as old PyTorch wrote them by its own quirks, and files that somebody wrote to do harm: none of them runs."""

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from pivotal import PivotalError
from pivotal.lm.import_checkpoint import read_model

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SYSTEM = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


class Global(NamedTuple):
    module: str
    name: str


class Call(NamedTuple):
    function: Any
    args: tuple[Any, ...]
    state: Any = None
    opcode: bytes = pickle.REDUCE


class Outside(NamedTuple):
    pid: tuple[Any, ...]


class Writer(pickle._Pickler):
    """Writes names, calls and persistent ids as they are told, whether or not there is anything behind them."""

    python_2 = False

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, Global):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.function)
            self.save(obj.args)
            self.write(obj.opcode)
            if obj.state is not None:
                self.save(obj.state)
                self.write(pickle.BUILD)
        elif isinstance(obj, Outside):
            self.save(obj.pid)
            self.write(pickle.BINPERSID)
        elif isinstance(obj, str) and self.python_2:
            self.write(pickle.SHORT_BINSTRING + bytes([len(obj)]) + obj.encode("latin-1"))
        else:
            super().save(obj, save_persistent_id)


def pickled(what: Any, python_2: bool = False) -> bytes:
    out = io.BytesIO()
    writer = Writer(out, 2)
    writer.python_2 = python_2
    writer.dump(what)
    return out.getvalue()


def legacy(path: Path, root: bytes, storages: dict[str, bytes]) -> Path:
    """The format before zip; `storages` are float32."""
    parts = [pickle.dumps(part, 2) for part in (MAGIC, PROTOCOL, SYSTEM)]
    parts += [root, pickle.dumps(list(storages), 2)]
    parts += [struct.pack("<q", len(numbers) // 4) + numbers for numbers in storages.values()]
    path.write_bytes(b"".join(parts))
    return path


# -- the quirks of PyTorch 0.3 --------------------------------------------------------------------------------------

RNN, HIDDEN, ROWS = Global("torch.nn.modules.rnn", "LSTM"), 3, 7
SHAPES = {
    "encoder.weight": (ROWS, 2), "rnn.weight_ih_l0": (4 * HIDDEN, 2),
    "rnn.weight_hh_l0": (4 * HIDDEN, HIDDEN), "rnn.bias_ih_l0": (4 * HIDDEN,),
    "rnn.bias_hh_l0": (4 * HIDDEN,), "decoder.weight": (ROWS, HIDDEN), "decoder.bias": (ROWS,),
}  # fmt: skip


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def rebuilt(name: str, *, size: int | None = None, shape: Any = None, stride: Any = None) -> Call:
    """`_rebuild_tensor` without its second version, of a storage that was on a GPU."""
    wanted = tensors()[name]
    pid = ("storage", Global("torch.cuda", "FloatStorage"), name, "cuda:0", size or wanted.numel(), None)
    args = (Outside(pid), 0, shape or tuple(wanted.shape), stride or tuple(wanted.stride()))
    return Call(Global("torch._utils", "_rebuild_tensor"), args)


def variable(name: str, tensor: Call | None = None) -> Call:
    """Before 0.4 a parameter was called with its tensor, then given (requires_grad, volatile, hooks)."""
    return Call(Global("torch.nn.parameter", "Parameter"), (tensor or rebuilt(name),), (True, False, None))


def parameter(name: str, tensor: Call | None = None) -> Call:
    hooks = Call(Global("collections", "OrderedDict"), ([],))
    return Call(Global("torch._utils", "_rebuild_parameter"), (tensor or rebuilt(name), True, hooks))


def module(kind: Global, parameters: dict[str, Any], **attributes: Any) -> Call:
    backend = Call(Global("torch.nn.backends.thnn", "_get_thnn_function_backend"), ())
    state = {"_backend": backend, "_parameters": parameters, "training": False, **attributes}
    source = "raise SystemExit('the source of a class is never run')"
    return Call(Outside(("module", kind, "rnn.py", source)), (), state, pickle.NEWOBJ)


def rnn_model(make: Callable[..., Call] = variable, **changes: Any) -> Call:
    """`changes` are parameters that are put in place of others, or attributes of the whole."""
    made = {name: changes.pop(name, None) or make(name) for name in SHAPES}
    leftover = Call(Global("torch.backends.cudnn.rnn", "Unserializable"), (), "<unserializable>")
    parts: dict[str, Any] = {"drop": module(Global("torch.nn.modules.dropout", "Dropout"), {}, p=0.2)}
    for part, kind, attributes in (
        ("encoder", Global("torch.nn.modules.sparse", "Embedding"), {"padding_idx": None}),
        ("rnn", RNN, {"mode": "LSTM", "_data_ptrs": [], "dropout_state": {"desc_0": leftover}}),
        ("decoder", Global("torch.nn.modules.linear", "Linear"), {}),
    ):
        own = {n.removeprefix(f"{part}."): p for n, p in made.items() if n.startswith(f"{part}.")}
        parts[part] = module(kind, own, **attributes)
    return module(Global("model", "RNNModel"), {}, **{"_modules": parts, "nhid": HIDDEN, **changes})


def numbers() -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors().items()}


@pytest.mark.parametrize("python_2", [False, True], ids=["python3", "python2"])
@pytest.mark.parametrize("make", [variable, parameter])
def test_the_quirks_of_old_checkpoints(tmp_path, make, python_2):
    cell, weights = read_model(legacy(tmp_path / "old.pt", pickled(rnn_model(make), python_2), numbers()))
    assert cell == "lstm"
    assert weights.keys() == SHAPES.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors().items())


def test_dictionaries_of_python_2_and_parts_of_storages(tmp_path):
    """OrderedDict as a call with its items; all tensors as views of one storage."""
    flat = torch.cat([tensor.flatten() for tensor in tensors().values()])
    items, start = [], 0
    for name, tensor in tensors().items():
        view = (f"view-{name}", start, tensor.numel())
        pid = ("storage", Global("torch", "FloatStorage"), "all", "cpu", flat.numel(), view)
        size = Call(Global("torch", "Size"), (tuple(tensor.shape),))
        args = (Outside(pid), 0, size, tuple(tensor.stride()), False, {})
        items.append([name, Call(Global("torch._utils", "_rebuild_tensor_v2"), args)])
        start += tensor.numel()
    root = pickled(Call(Global("collections", "OrderedDict"), (items,)), python_2=True)
    _, weights = read_model(legacy(tmp_path / "old.pt", root, {"all": flat.numpy().tobytes()}))
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors().items())


# -- files that want to do harm -------------------------------------------------------------------------------------


class Touch:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def touch(mark: Path, module: str = "os", name: str = "system") -> Call:
    return Call(Global(module, name), (f"touch {mark}",))


def stack_global(mark: Path) -> bytes:
    text = f"touch {mark}".encode()
    return b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(text)]) + text + b"\x85R."


def through_getattr(mark: Path) -> bytes:
    first = Call(Global("builtins", "getattr"), (Global("torch", "Size"), "__subclasses__"))
    return pickled(Call(first, (f"touch {mark}",)))


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    "reduce": lambda mark: pickle.dumps(Touch(mark), 2),
    "nested": lambda mark: pickle.dumps(OrderedDict(a=[{"b": (Touch(mark),)}]), 2),
    "inst": lambda mark: b"(S'touch " + str(mark).encode() + b"'\nios\nsystem\n.",
    "obj": lambda mark: b"(cos\nsystem\nS'touch " + str(mark).encode() + b"'\no.",
    "stack-global": stack_global,
    "dotted": lambda mark: pickled(touch(mark, "torch", "serialization.os.system")),
    "container": lambda mark: pickled(Call(Global("collections", "OrderedDict"), ([["a", touch(mark)]],))),
    "getattr": through_getattr,
    "state": lambda mark: pickled(rnn_model(hook=touch(mark))),
    "persistent-id": lambda mark: pickled(Outside(("module", touch(mark), "", ""))),
}


PLACES = ("root", "bare", "zip", "keys")
"""Where in a checkpoint the attack is."""


def hostile(path: Path, harm: bytes, where: str) -> Path:
    """A checkpoint with a pickle that does harm, in one of the formats of PyTorch."""
    if where == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", harm)
            archive.writestr("archive/version", "3\n")
    elif where == "keys":
        parts = [pickle.dumps(part, 2) for part in (MAGIC, PROTOCOL, SYSTEM)]
        path.write_bytes(b"".join([*parts, pickled(rnn_model()), harm]))
    elif where == "bare":
        path.write_bytes(harm)
    else:
        legacy(path, harm, numbers())
    return path


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("where", PLACES)
def test_a_hostile_file_is_refused_and_nothing_runs(tmp_path, attack, where):
    mark = tmp_path / "mark"
    path = hostile(tmp_path / "hostile.pt", ATTACKS[attack](mark), where)
    said = r"asks for .* No code was run|cannot be read as a PyTorch"
    with pytest.raises(PivotalError, match=said):
        read_model(path)
    assert not mark.exists()


def test_the_attacks_are_real(tmp_path):
    """What pickle itself makes of some of them: otherwise the tests above would show nothing."""
    for attack in ("reduce", "nested", "inst", "stack-global", "container"):
        mark = tmp_path / attack
        pickle.loads(ATTACKS[attack](mark))
        assert mark.exists(), attack


# -- files that lie -------------------------------------------------------------------------------------------------


def altered(**changes: Any) -> Call:
    """The model whose encoder is described with another size, shape or stride."""
    return rnn_model(**{"encoder.weight": variable("", rebuilt("encoder.weight", **changes))})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: altered(size=2**40), "cannot be read"),
        (lambda: altered(shape=(2**30, 2**30), stride=(0, 0)), "would take more memory"),
        (lambda: Outside(("storage", "FloatStorage", "0", "cpu", 4, None)), "cannot be read"),
        (lambda: rnn_model(former=rnn_model(), _modules=[]), "its model.RNNModel has no _modules"),
        (lambda: Call("os.system", ("true",)), "cannot be read"),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path, make, message):
    with pytest.raises(PivotalError, match=message):
        read_model(legacy(tmp_path / "lie.pt", pickled(make()), numbers()))


def test_a_storage_of_a_size_with_thousands_of_digits_is_refused(tmp_path):
    with pytest.raises(PivotalError, match="cannot be read"):
        read_model(hostile(tmp_path / "lie.pt", pickled(altered(size=10**5000)), "zip"))


@pytest.mark.parametrize("member", ["archive/constants.pkl", "archive/packed"])
def test_torchscript_and_compressed_archives_are_refused(tmp_path, member):
    """torch would run the first; a kilobyte of the second may unpack to gigabytes."""
    path = tmp_path / "state.pt"
    torch.save(tensors(), path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, b"\0" * 10**6)
    with pytest.raises(PivotalError, match="it is TorchScript, or compressed"):
        read_model(path)
