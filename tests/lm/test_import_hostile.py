"""Files as old PyTorch wrote them by its own quirks, and files that somebody wrote to do harm: none of them runs."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from pivotal.errors import PivotalError
from pivotal.lm.foreign_checkpoint import BadPickle, Made, read_pickle
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


class Writer(pickle._Pickler):  # type: ignore[name-defined]
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
    "encoder.weight": (ROWS, 2),
    "rnn.weight_ih_l0": (4 * HIDDEN, 2),
    "rnn.weight_hh_l0": (4 * HIDDEN, HIDDEN),
    "rnn.bias_ih_l0": (4 * HIDDEN,),
    "rnn.bias_hh_l0": (4 * HIDDEN,),
    "decoder.weight": (ROWS, HIDDEN),
    "decoder.bias": (ROWS,),
}


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
def test_the_quirks_of_old_checkpoints(tmp_path: Path, make: Callable[..., Call], python_2: bool) -> None:
    cell, weights = read_model(legacy(tmp_path / "old.pt", pickled(rnn_model(make), python_2), numbers()))
    assert cell == "lstm"
    assert weights.keys() == SHAPES.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors().items())


def test_dictionaries_of_python_2_and_parts_of_storages(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("where", ["root", "bare", "zip", "keys"])
def test_a_hostile_file_is_refused_and_nothing_runs(tmp_path: Path, attack: str, where: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "hostile.pt"
    harm = ATTACKS[attack](mark)
    if where == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", harm)
    elif where == "keys":
        parts = [pickle.dumps(part, 2) for part in (MAGIC, PROTOCOL, SYSTEM)]
        path.write_bytes(b"".join([*parts, pickled(rnn_model()), harm]))
    elif where == "bare":
        path.write_bytes(harm)
    else:
        legacy(path, harm, numbers())
    with pytest.raises(PivotalError, match=r"asks for .* No code was run|must be a complete checkpoint"):
        read_model(path)
    assert not mark.exists()


def test_the_attacks_are_real(tmp_path: Path) -> None:
    """What pickle itself makes of some of them: otherwise the tests above would show nothing."""
    for attack in ("reduce", "nested", "inst", "stack-global", "container"):
        mark = tmp_path / attack
        pickle.loads(ATTACKS[attack](mark))
        assert mark.exists(), attack


# -- files that lie -------------------------------------------------------------------------------------------------

FLOATS = Global("torch", "FloatStorage")


def altered(name: str = "encoder.weight", **changes: Any) -> Call:
    """The model whose tensor is described with some other size, shape or stride."""
    return rnn_model(**{name: variable("", rebuilt("encoder.weight", **changes))})


LIES: list[tuple[Callable[[], Any], str]] = [
    (lambda: altered(size=2**40), "it ends too early, or has a wrong count of numbers"),
    (lambda: altered(shape=(2**39, 2**39), stride=(0, 0)), "does not fit into its 14 numbers"),
    (lambda: altered(stride=(2, -1)), "the shape of a tensor is not a shape"),
    (lambda: altered("decoder.weight", size=20), "describes its storage encoder.weight in two ways"),
    (lambda: Outside(("storage", "FloatStorage", "0", "cpu", 4, None)), "describes a storage wrongly"),
    (lambda: Outside(("storage", FLOATS, "0", "cpu", 4, ("v", 2, 4))), "a part of a storage wrongly"),
    (lambda: Outside(("weights", 1)), "something that is not a storage"),
    (lambda: rnn_model(former=rnn_model(), _modules=[]), "its model.RNNModel has no _modules"),
    (lambda: Call("os.system", ("true",)), "damaged"),
]


def test_a_few_numbers_do_not_become_many(tmp_path: Path) -> None:
    """Every layer a view of one storage: copied, they would be so many times what the file has."""
    hidden, layers = 16, 30
    numbers = torch.zeros(4 * hidden, hidden)
    shared = {"encoder.weight": torch.zeros(5, hidden), "decoder.weight": torch.zeros(5, hidden)}
    shared |= {f"rnn.weight_{side}_l{i}": numbers for side in ("ih", "hh") for i in range(layers)}
    for zipped in (False, True):
        torch.save(shared, tmp_path / "flood.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(PivotalError, match="its tensors share numbers"):
            read_model(tmp_path / "flood.pt")
    single = {**shared, **{name: numbers.clone() for name in shared if name.startswith("rnn.")}}
    torch.save({**single, "decoder.weight": single["encoder.weight"]}, tmp_path / "tied.pt")
    _, weights = read_model(tmp_path / "tied.pt")
    assert weights["decoder.weight"] is weights["encoder.weight"]


@pytest.mark.parametrize(("make", "message"), LIES)
def test_a_file_that_lies_is_refused(tmp_path: Path, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(PivotalError, match=message):
        read_model(legacy(tmp_path / "lie.pt", pickled(make()), numbers()))


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    whole = legacy(tmp_path / "whole.pt", pickled(rnn_model()), numbers()).read_bytes()
    read_model(tmp_path / "whole.pt")
    for length in random.Random(0).sample(range(1, len(whole)), 60):
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        with pytest.raises(PivotalError):
            read_model(tmp_path / "cut.pt")


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of texts that the damage made
@pytest.mark.parametrize("zipped", [False, True], ids=["legacy", "zip"])
def test_a_damaged_file_is_refused_or_read_but_never_breaks_anything(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "whole.pt"
    if zipped:
        torch.save(tensors(), path)
    else:
        legacy(path, pickled(rnn_model()), numbers())
    whole, rng = path.read_bytes(), random.Random(1)
    outcomes = set()
    for _ in range(100):
        damaged = bytearray(whole)
        for place in rng.sample(range(len(whole)), rng.randint(1, 4)):
            damaged[place] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            read_model(path)
            outcomes.add("read")
        except PivotalError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("member", ["archive/data.pkl", "../data.pkl", "/etc/data.pkl"])
def test_a_zip_file_is_never_unpacked(tmp_path: Path, member: str) -> None:
    path = tmp_path / "inside" / "state.pt"
    path.parent.mkdir()
    torch.save(tensors(), path)
    with zipfile.ZipFile(path) as archive:
        content = {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}
    folder = member.removesuffix("data.pkl")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(folder + name, data)
    before = sorted(tmp_path.rglob("*"))
    assert torch.equal(read_model(path)[1]["encoder.weight"], tensors()["encoder.weight"])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_packed_zip_file_is_refused(tmp_path: Path) -> None:
    """A kilobyte may unpack into gigabytes."""
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + b"N0" * 10**6 + b"N.")
    with pytest.raises(PivotalError, match="its members are compressed"):
        read_model(tmp_path / "bomb.pt")


# -- the reading of pickles by itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_read_as_pickle_reads_them(protocol: int) -> None:
    shared = [1.5, -3, 2**70, "ü", "", True, None]
    value = {"a": shared, "b": (shared, (), (1,), (1, 2), (1, 2, 3, 4)), "c": {}, 5: "x" * 300}
    content = pickle.dumps(value, protocol)
    stream = io.BytesIO(content + b"more")
    found = read_pickle(stream)
    assert found == value and found["b"][0] is found["a"]
    assert stream.tell() == len(content)


def test_a_storage_of_absurd_size_is_refused(tmp_path: Path) -> None:
    """Python does not convert such a number to decimals, so that no message can state it."""
    wanted = {"encoder.weight": variable("", rebuilt("encoder.weight", size=10**5000))}
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickled(rnn_model(**wanted)))
    for path in (tmp_path / "zip.pt", legacy(tmp_path / "old.pt", pickled(rnn_model(**wanted)), numbers())):
        with pytest.raises(PivotalError, match="it has a number of 16,610 bits, which no checkpoint needs"):
            read_model(path)


def test_a_call_is_kept_and_not_made() -> None:
    made = read_pickle(io.BytesIO(pickle.dumps(Touch(Path("x")), 2)), lambda name: True)
    assert isinstance(made, Made)
    assert (made.name, made.args) == ("posix.system", ("touch x",))


LIST = b"](" + b"K\x01K\x02\x86" * 5000 + b"eq\x01"
"""A list of 5,000 pairs, number 1 of the memo."""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "damaged") for data in (b"", b"N", b".", b"t.", b"(N0.", b"h\x05.", b"NNa.", b"}])s.")),
        *((data, "damaged") for data in (b"NNR.", b"NN\x93.", b"\x8e" + b"\xff" * 7 + b"\x7f")),
        (b"NQ.", "refers to something outside"),
        (b"\x82\x01.", "instruction EXT1"),
        (b"Nr\xff\xff\xff\x7f.", "numbers more values than any checkpoint"),
        (b"N0" * 11_000 + b"N.", "more instructions than any checkpoint"),
        (LIST + b"0ccollections\nOrderedDict\nq\x02h\x01\x85R0h\x02h\x01\x85R" * 5 + b".", "larger dict"),
    ],
)
def test_broken_pickles(data: bytes, message: str) -> None:
    with pytest.raises(BadPickle, match=message):
        read_pickle(io.BytesIO(data), lambda name: name == "collections.OrderedDict")


def test_deep_tuples_do_not_end_the_interpreter() -> None:
    """The hash of a key needs a C stack as deep as its nesting."""
    assert len(read_pickle(io.BytesIO(b"})" + b"\x85" * 19_000 + b"Ns."))) == 1
