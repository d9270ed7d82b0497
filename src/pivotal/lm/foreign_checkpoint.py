"""Read files of `torch.save` without running any code: the zip format, and the older one of PyTorch 0.2 to 1.5.

Both contain a pickle that describes the tensors, and the storages as raw numbers. Every length in a file is compared
with the bytes that are there before memory is allocated.

A pickle is a program whose instructions import names and call them. Before anything is loaded, the instructions are
listed, and numbers and counts that would exhaust the memory or the stack of the interpreter are refused. Then Python's
own unpickler loads it, but no name is imported. A name that is admitted becomes a class of its own, whose objects only
keep the arguments of the call. The caller decides what they mean.

`torch.load(weights_only=True)` is no alternative: it does not read modules as PyTorch 0.3 pickled them, and it
allocates what a file asks for.
"""

from __future__ import annotations

import math
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, cast

import torch
from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import check_plain

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_TENSORS = {"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"}
_PARAMETERS = {
    "torch._utils._rebuild_parameter",
    "torch.nn.parameter.Parameter",
    "torch.autograd.variable.Variable",
}
_FAMILIAR = {
    *_TENSORS,
    *_PARAMETERS,
    *("collections.OrderedDict", "torch.Size", "builtins.set", "__builtin__.set"),
    # These occur in modules pickled by PyTorch 0.x.
    *("torch.nn.backends.thnn._get_thnn_function_backend", "torch.backends.cudnn.rnn.Unserializable"),
    *(f"{home}.{kind}" for home in ("torch", "torch.cuda") for kind in _STORAGES),
}


_MOST, _BITS = 20_000, 128
"""Limits on instructions and dictionary items, and on the size of a number. The checkpoint of a recurrent model has a
few thousand instructions. A tuple of 20,000 levels can still be hashed."""

_ZIP_DAMAGE = (
    *(zipfile.BadZipFile, EOFError, ValueError, RuntimeError, struct.error, OverflowError),
    NotImplementedError,
)
_DAMAGE = (
    *(pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(MemoryError, EOFError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class _Storage:
    """`size` numbers of the storage named `key`, from index `start`."""

    key: str
    dtype: torch.dtype
    start: int
    size: int

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class ForeignCheckpoint:
    """The content of a file. Objects are `Made`; `tensor` converts one to numbers."""

    def __init__(self, root: Any, read: Callable[[str], Tensor]) -> None:
        self.root = root
        self._read = read
        self._storages: dict[str, Tensor] = {}

    def tensor(self, what: Any) -> Tensor:
        """The tensor described by a parameter, a variable or a rebuilt tensor."""
        while isinstance(what, Made) and what.name in _PARAMETERS:
            what = what.args[0] if what.args else None
        if not isinstance(what, Made) or what.name not in _TENSORS or len(what.args) < 4:
            raise BadPickle("it has something else where a tensor is expected")
        storage, offset, size, stride = what.args[:4]
        shape, steps = _shape(size), _shape(stride)
        if not isinstance(storage, _Storage) or type(offset) is not int or len(shape) != len(steps):
            raise BadPickle("it describes a tensor wrongly")
        count = math.prod(shape)
        last = offset + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if count else offset
        # A stride of 0 gives more elements than numbers: harmless as a view, but a copy could exhaust the memory.
        if not 0 <= offset <= last < storage.size + (count == 0) or count > storage.size:
            raise BadPickle(f"a tensor of the shape {shape} does not fit into its {storage.size} numbers")
        if storage.key not in self._storages:
            self._storages[storage.key] = self._read(storage.key)
        return self._storages[storage.key].as_strided(shape, steps, storage.start + offset)


@contextmanager
def open_checkpoint(path: Path, classes: Callable[[str], bool]) -> Iterator[ForeignCheckpoint]:
    """The content of a file, valid inside the `with` block; `classes` says which classes it may contain.

    Raises PivotalError if the file is broken or hostile, also when this is only found inside the block.
    """

    def admitted(name: str) -> bool:
        return name in _FAMILIAR or classes(name)

    check_plain(path)
    try:
        if not path.stat().st_size:
            raise BadPickle("it is empty")
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            if data[257:262] == b"ustar":
                raise BadPickle("it is a tar file of PyTorch 0.1: load it and save it with a newer version")
            if data[:4] == b"PK\x03\x04":
                yield _zip(_Members(file, len(data)), admitted)
            else:
                yield _legacy(data, admitted)
    except NotAdmitted as error:
        raise PivotalError(
            f"{path} asks for {error}, which no recurrent language model needs: it is another kind of model, or a "
            "file that tries to run code. No code was run. Give a checkpoint of an RNNModel, or its state_dict."
        ) from None
    except BadPickle as error:
        raise PivotalError(f"{path} must be a complete checkpoint of PyTorch, but {error}.") from None
    except _ZIP_DAMAGE as error:
        raise PivotalError(
            f"{path} must be a complete checkpoint of PyTorch, but its zip structure is broken ({error})."
        ) from None
    except OSError as error:
        raise PivotalError(f"{path} cannot be read ({error.strerror}). Give a checkpoint.") from None


# -- the old format: several pickles, then the storages --------------------------------------------------------------


def _legacy(data: mmap, admitted: Callable[[str], bool]) -> ForeignCheckpoint:
    if read_pickle(data) != _MAGIC:
        raise BadPickle("it begins with another pickle")
    protocol, system = read_pickle(data), read_pickle(data)
    if protocol != _PROTOCOL or not isinstance(system, dict):
        raise BadPickle("it is of an unknown version")
    if system.get("little_endian") is not True:
        raise BadPickle("its numbers are not little-endian")
    whole: dict[str, _Storage] = {}
    root = read_pickle(data, admitted, lambda pid: _persistent(pid, whole))
    keys = read_pickle(data)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BadPickle("its list of storages is not a list of names")
    if sorted(keys) != sorted(whole):
        raise BadPickle("it lists other storages than it uses")
    places: dict[str, slice] = {}
    at = data.tell()
    for key in keys:
        size = int.from_bytes(data[at : at + 8], "little")
        places[key] = slice(at + 8, at + 8 + whole[key].nbytes)
        at = places[key].stop
        if size != whole[key].size or at > len(data):
            raise BadPickle("it ends too early, or has a wrong count of numbers")
    return ForeignCheckpoint(root, lambda key: _numbers(data[places[key]], whole[key]))


# -- the zip format ------------------------------------------------------------------------------------------------


def _zip(members: _Members, admitted: Callable[[str], bool]) -> ForeignCheckpoint:
    pickles = [name for name in members.names if name.split("/")[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise BadPickle(f"it is a zip file with {len(pickles)} members named data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in members.names and members.read(f"{folder}byteorder") != b"little":
        raise BadPickle("its numbers are not little-endian")
    whole: dict[str, _Storage] = {}
    pickle = BytesIO(members.read(pickles[0]))
    root = read_pickle(pickle, admitted, lambda pid: _persistent(pid, whole))
    return ForeignCheckpoint(root, lambda key: _numbers(members.read(f"{folder}data/{key}"), whole[key]))


class _Members:
    """The members of a zip file, read by name and never extracted to disk.

    Compressed or overlapping members are refused: they could expand to far more than the size of the file.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._left = size
        self._archive = zipfile.ZipFile(file)
        self.names = set(self._archive.namelist())

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise BadPickle(f"it lacks its member {name}")
        info = self._archive.getinfo(name)
        self._left -= info.file_size
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or self._left < 0:
            raise BadPickle("its members are compressed or overlap, which PyTorch never does")
        return self._archive.read(info)


# -- both ----------------------------------------------------------------------------------------------------------


def _persistent(pid: Any, whole: dict[str, _Storage]) -> Any:
    """Resolve ('storage', type, key, location, size[, view]) or ('module', class, file, source).

    The source is not read. The location (cpu, cuda:0) is ignored: numbers are read into main memory.
    """
    kind = pid[0] if isinstance(pid, tuple) and pid else None
    if kind == "module" and len(pid) == 4 and _is_name(pid[1]):
        return pid[1]
    if kind != "storage" or len(pid) not in (5, 6):
        raise BadPickle("it refers to something that is not a storage")
    name, key, size, view = pid[1], pid[2], pid[4], pid[5] if len(pid) == 6 else None
    dtype = _STORAGES.get(name.name.rpartition(".")[2]) if _is_name(name) else None
    if dtype is None or not isinstance(key, str) or type(size) is not int or size < 0:
        raise BadPickle("it describes a storage wrongly")
    storage = _Storage(key, dtype, 0, size)
    if whole.setdefault(key, storage) != storage:
        raise BadPickle(f"it describes its storage {key} in two ways")
    if view is None:
        return storage
    start, length = view[1:] if isinstance(view, tuple) and len(view) == 3 else (None, None)
    if type(start) is not int or type(length) is not int or not 0 <= start <= start + length <= size:
        raise BadPickle("it describes a part of a storage wrongly")
    return _Storage(key, storage.dtype, start, length)


def _is_name(what: Any) -> bool:
    return isinstance(what, type) and issubclass(what, Made)


def _shape(what: Any) -> tuple[int, ...]:
    """A tuple, or a torch.Size made of one."""
    if isinstance(what, Made) and what.name == "torch.Size" and len(what.args) == 1:
        what = what.args[0]
    if not isinstance(what, tuple | list) or len(what) > 4:
        raise BadPickle("the shape of a tensor is not a shape")
    if not all(type(n) is int and 0 <= n < 2**40 for n in what):
        raise BadPickle("the shape of a tensor is not a shape")
    return tuple(what)


def _numbers(found: bytes, storage: _Storage) -> Tensor:
    if len(found) != storage.nbytes:
        raise BadPickle(f"its storage {storage.key} does not have the size that it states")
    if not found:
        return torch.empty(0, dtype=storage.dtype)
    return torch.frombuffer(bytearray(found), dtype=storage.dtype)


# -- pickles ----------------------------------------------------------------------------------------------------------


class BadPickle(Exception):
    """The pickle is broken, or does something that no checkpoint does."""


class NotAdmitted(BadPickle):
    """The pickle imports a name that is not admitted."""


class Made:
    """Stands for the result of calling a name. Each name has a subclass."""

    name: ClassVar[str]
    """Module and name, such as `torch.nn.modules.linear.Linear`."""
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> Made:
        made = object.__new__(cls)
        made.args, made.state = args, None
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


def read_pickle(
    stream: BytesIO | mmap,
    admitted: Callable[[str], bool] = lambda name: False,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The value of the pickle at the current position of the stream, which is moved past it.

    `persistent` resolves persistent ids, with which torch refers to storages outside the pickle. Only the two types of
    streams named here are safe: they do not allocate memory for lengths beyond the end of the data.
    """
    start = stream.tell()
    try:
        _check_instructions(stream)
        content = stream[start : stream.tell()] if isinstance(stream, mmap) else stream.getvalue()[start:]
        return _Reader(content, admitted, persistent).load()
    except _DAMAGE as error:
        raise BadPickle(f"its pickle is damaged ({str(error) or type(error).__name__})") from None


def _check_instructions(stream: BytesIO | mmap) -> None:
    for count, (opcode, argument, _) in enumerate(pickletools.genops(cast(IO[bytes], stream))):
        if opcode.name.startswith("EXT"):  # a class of the extension registry, whose name is not asked for
            raise BadPickle(f"it uses the instruction {opcode.name}, which no checkpoint needs")
        if count > _MOST:
            raise BadPickle("it has more instructions than any checkpoint")
        # No message could print a longer number: Python refuses to convert one to decimals.
        if isinstance(argument, int) and argument.bit_length() > _BITS:
            raise BadPickle(f"it has a number of {argument.bit_length():,} bits, which no checkpoint needs")
        if "PUT" in opcode.name and int(argument or 0) > _MOST:  # the unpickler allocates a memo of this size
            raise BadPickle("it numbers more values than any checkpoint")


class _Reader(pickle.Unpickler):
    def __init__(
        self, content: bytes, admitted: Callable[[str], bool], persistent: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(BytesIO(content), encoding="latin-1")
        self._admitted, self._persistent = admitted, persistent
        self._names: dict[str, type] = {"collections.OrderedDict": _bounded_dict()}

    def find_class(self, module: str, name: str) -> type:
        full = f"{module}.{name}"
        if not self._admitted(full):
            raise NotAdmitted(full)
        return self._names.setdefault(full, type("Made", (Made,), {"name": full}))

    def persistent_load(self, pid: Any) -> Any:
        if self._persistent is None:
            raise BadPickle("it refers to something outside the pickle")
        return self._persistent(pid)


def _bounded_dict() -> type:
    """Stands for OrderedDict in one pickle, where all of them together have a limited number of items: a short file
    could call it many times with one long list."""
    left = [_MOST]

    class Dict(dict[Any, Any]):
        def __init__(self, items: Iterable[Any] = ()) -> None:
            items = list(items)
            left[0] -= len(items)
            if left[0] < 0:
                raise BadPickle("it has larger dictionaries than any checkpoint")
            super().__init__(items)

    return Dict
