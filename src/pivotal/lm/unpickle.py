"""Read a pickle without running it.

A pickle is a program whose instructions import names and call them. This module interprets the instructions on a stack
of plain values. It never imports, calls or sets attributes: a name becomes a `Name`, and a call becomes a `Made` that
records the name and the arguments. Names that are not admitted raise an error, and so do instructions that checkpoints
do not use. The caller decides what a `Made` means.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from io import BytesIO
from mmap import mmap
from typing import IO, Any, cast

_MOST = 200_000
"""Limit on instructions and on dictionary items. The checkpoint of a recurrent model has a few thousand."""

_BITS = 128

_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True, slots=True)
class Name:
    """A name that the pickle imports."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Made:
    """Stands for the result of calling `name` with `args`, and for the state set on it afterwards."""

    name: Name
    args: tuple[Any, ...]
    state: Any = None


class BadPickle(Exception):
    """The pickle is broken, or does something that no checkpoint does."""


class NotAdmitted(BadPickle):
    """The pickle imports a name that is not admitted."""


def read_pickle(
    stream: BytesIO | mmap,
    admitted: Callable[[Name], bool] = lambda name: False,
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The value of the pickle at the current position of the stream, which is moved past it.

    `persistent` resolves persistent ids, with which torch refers to storages outside the pickle. Only the two types of
    streams named here are safe: they do not allocate memory for lengths beyond the end of the data.
    """
    machine = _Machine(admitted, persistent)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(cast(IO[bytes], stream))):
            if count > _MOST:
                raise BadPickle("it has more instructions than any checkpoint")
            if opcode.name == "STOP":
                return machine.pop()
            machine.follow(opcode.name, argument)
    except (ValueError, LookupError, TypeError, OverflowError, MemoryError) as error:
        raise BadPickle(f"its pickle is damaged ({str(error) or type(error).__name__})") from None
    raise BadPickle("it has no end")


class _Machine:
    """The stack and the memo of a pickle. A mark is stored as the height of the stack when it was set."""

    def __init__(self, admitted: Callable[[Name], bool], persistent: Callable[[Any], Any] | None) -> None:
        self._admitted = admitted
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._filled = 0

    def follow(self, opcode: str, argument: Any) -> None:
        if opcode in _VALUES:
            # No message could print a longer number: Python refuses to convert one to decimals.
            if isinstance(argument, int) and argument.bit_length() > _BITS:
                raise BadPickle(
                    f"it has a number of {argument.bit_length():,} bits, which no checkpoint needs"
                )
            self._stack.append(argument)
        elif opcode in _CONSTANTS:
            self._stack.append(_CONSTANTS[opcode])
        elif opcode in _TUPLES:
            items = [self.pop() for _ in range(_TUPLES[opcode])]
            self._stack.append(tuple(reversed(items)))
        elif opcode in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif opcode in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._top()
        else:
            instruction = getattr(self, f"_op_{opcode.lower()}", None)
            if instruction is None:
                raise BadPickle(f"it uses the instruction {opcode}, which no checkpoint needs")
            instruction(argument)

    def pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise BadPickle("it takes more values from its stack than it put there")
        return self._stack.pop()

    def _top(self, kind: type | None = None) -> Any:
        top = self.pop()
        self._stack.append(top)
        if kind is not None and not isinstance(top, kind):
            raise BadPickle(f"it fills a {kind.__name__}, but finds a {type(top).__name__}")
        return top

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise BadPickle("it goes back to a mark that it never set")
        height = self._marks.pop()
        items = self._stack[height:]
        del self._stack[height:]
        return items

    # -- one method per instruction -----------------------------------------------------------------------------

    def _op_proto(self, argument: Any) -> None:
        pass

    def _op_frame(self, argument: Any) -> None:
        pass

    def _op_mark(self, argument: Any) -> None:
        self._marks.append(len(self._stack))

    def _op_pop(self, argument: Any) -> None:
        self.pop()

    def _op_pop_mark(self, argument: Any) -> None:
        self._since_mark()

    def _op_memoize(self, argument: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def _op_empty_list(self, argument: Any) -> None:
        self._stack.append([])

    def _op_empty_dict(self, argument: Any) -> None:
        self._stack.append({})

    def _op_empty_set(self, argument: Any) -> None:
        # Modules keep the names of some buffers in a set, which is not needed here.
        self._stack.append([])

    def _op_tuple(self, argument: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _op_list(self, argument: Any) -> None:
        self._stack.append(self._since_mark())

    def _op_dict(self, argument: Any) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._fill(items)

    def _op_append(self, argument: Any) -> None:
        item = self.pop()
        self._top(list).append(item)

    def _op_appends(self, argument: Any) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _op_additems(self, argument: Any) -> None:
        self._op_appends(argument)

    def _op_setitem(self, argument: Any) -> None:
        value, key = self.pop(), self.pop()
        self._fill([key, value])

    def _op_setitems(self, argument: Any) -> None:
        self._fill(self._since_mark())

    def _fill(self, items: list[Any]) -> None:
        self._filled += len(items)
        if self._filled > _MOST:
            raise BadPickle("it has larger dictionaries than any checkpoint")
        self._top(dict).update(zip(_keys(items[::2]), items[1::2], strict=True))

    def _op_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._import(module, name)

    def _op_stack_global(self, argument: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise BadPickle("it imports something whose name is not a string")
        self._import(module, name)

    def _import(self, module: str, name: str) -> None:
        wanted = Name(module, name)
        if not self._admitted(wanted):
            raise NotAdmitted(str(wanted))
        self._stack.append(wanted)

    def _op_reduce(self, argument: Any) -> None:
        args, name = self.pop(), self.pop()
        if not isinstance(name, Name) or not isinstance(args, tuple):
            raise BadPickle(f"it calls a {type(name).__name__}")
        if name == Name("collections", "OrderedDict"):
            self._stack.append({})
            for pair in args[0] if args else ():
                self._fill(list(pair))
        else:
            self._stack.append(Made(name, args))

    def _op_newobj(self, argument: Any) -> None:
        self._op_reduce(argument)

    def _op_build(self, argument: Any) -> None:
        state = self.pop()
        top = self._top()
        if isinstance(top, Made):
            top.state = state
        elif not isinstance(top, dict):  # attributes of an OrderedDict are not needed
            raise BadPickle(f"it gives a state to a {type(top).__name__}")

    def _op_binpersid(self, argument: Any) -> None:
        if self._persistent is None:
            raise BadPickle("it refers to something outside the pickle")
        self._stack.append(self._persistent(self.pop()))


def _keys(keys: Collection[Any]) -> Collection[Any]:
    """Accept only strings and integers: hashing a deeply nested tuple would overflow the interpreter's stack."""
    for key in keys:
        if not isinstance(key, str | int):
            raise BadPickle(f"it uses a {type(key).__name__} as a key")
    return keys
