"""Hostile pickles: checkpoints that would run something, or fill the memory, if anybody believed them.

Each is given to every reader of checkpoints: `import-lm`, a run that is resumed, a training that is resumed, and the
weights of a transformer. A pickle that runs leaves a file named `owned`.
"""

from __future__ import annotations

import io
import pickle
import random
import resource
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.attack.command import ended, fork
from tests.attack.materials import RESUME, Materials, train
from tests.attack.place import Place

TOUCH = "touch owned"

GADGETS: tuple[tuple[str, str, tuple[object, ...]], ...] = (
    ("os", "system", (TOUCH,)),
    ("posix", "system", (TOUCH,)),
    ("subprocess", "Popen", (["touch", "owned"],)),
    ("subprocess", "check_output", (["touch", "owned"],)),
    ("builtins", "eval", ("open('owned', 'w')",)),
    ("builtins", "exec", ("open('owned', 'w')",)),
    ("builtins", "open", ("owned", "w")),
    ("io", "open", ("owned", "w")),
    ("pathlib", "Path", ("owned",)),
    ("runpy", "run_path", ("owned.py",)),
    ("importlib", "import_module", ("antigravity",)),
    ("builtins", "__import__", ("this",)),
    ("builtins", "getattr", ("x", "format")),
    ("builtins", "compile", ("open('owned','w')", "x", "exec")),
    ("code", "interact", ()),
    ("pickle", "loads", (b"cos\nsystem\n(S'touch owned'\ntR.",)),
    ("torch", "load", ("owned.pt",)),
    ("torch.hub", "load", ("x/y", "z")),
    ("torch.serialization", "load", ("owned.pt",)),
    ("torch.storage", "_load_from_bytes", (b"cos\nsystem\n(S'touch owned'\ntR.",)),
    ("torch._utils", "_rebuild_tensor_v2", (None, 0, (10**6, 10**6), (1, 1), False, None)),
    ("torch._utils", "_rebuild_parameter", (None, True, {})),
    ("torch.nn.modules.module", "Module", ()),
    ("numpy", "fromfile", ("/etc/passwd",)),
    ("numpy.core.multiarray", "_reconstruct", (None, (0,), b"b")),
    ("numpy", "ones", ((10**6, 10**6),)),
    ("builtins", "bytearray", (10**11,)),
    ("builtins", "range", (10**18,)),
    ("builtins", "list", (range(3),)),
    ("_codecs", "encode", ("x" * 1000, "utf-16")),
    ("collections", "OrderedDict", ([("a", 1)],)),
    ("copyreg", "_reconstructor", (object, object, None)),
    ("functools", "partial", (print, "owned")),
    ("operator", "attrgetter", ("a.b",)),
    ("ctypes", "CDLL", ("libc.so.6",)),
    ("socket", "create_connection", (("127.0.0.1", 1),)),
    ("webbrowser", "open", ("http://127.0.0.1:1",)),
    ("pivotal.cli.main", "main", ()),
)


def program(chance: random.Random) -> bytes:
    """A pickle that calls one of the gadgets by one of the ways to call, deep or flat, alone or in a dictionary."""
    module, name, args = chance.choice(GADGETS)
    try:
        given = pickle.dumps(args, 2)[2:-1]
    except (pickle.PicklingError, TypeError, AttributeError):
        given = b")"
    called = f"c{module}\n{name}\n".encode()
    call = chance.choice(
        [
            called + given + b"R",
            b"(" + called + b"S'touch owned'\no",
            f"(S'touch owned'\ni{module}\n{name}\n".encode(),
            called + given + b"\x81",
            _short(module) + _short(name) + b"\x93" + given + b"R",
            called + b")\x81}X\x04\x00\x00\x00evilK\x01sb",
        ]
    )  # fmt: skip
    wrapped = chance.choice(
        [
            lambda c: c,
            lambda c: b"}X\x06\x00\x00\x00recordq\x00" + c + b"s",
            lambda c: b"](" + c * 3 + b"e",
            lambda c: c + b"0" + b"}",
            lambda c: b"(" * 500 + c + b"t" * 500,
            lambda c: b"]" + b"2" * 500 + c,
            lambda c: b"\x8d" + (2**40).to_bytes(8, "little") + c,
            lambda c: c + b"\x8e" + (2**62).to_bytes(8, "little"),
            lambda c: b"r" + (2**31 - 1).to_bytes(4, "little") + c,
        ]
    )(call)
    return b"\x80" + bytes([chance.choice([2, 3, 4])]) + wrapped + b"."


def _short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def checkpoint(chance: random.Random) -> bytes:
    """A hostile pickle in one of the containers of PyTorch, sometimes with bombs beside it."""
    made = program(chance)
    kind = chance.randrange(5)
    if kind == 0:
        return made
    if kind == 1:  # the format before zip
        parts = [pickle.dumps(one, 2) for one in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
        return b"".join(parts) + made
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        new.writestr("archive/data.pkl", made)
        new.writestr("archive/version", "3\n")
        new.writestr("archive/byteorder", "little")
        if kind == 3:
            new.writestr("archive/data/0", bytes(200_000_000), zipfile.ZIP_DEFLATED)
        if kind == 4:
            new.writestr("archive/constants.pkl", program(chance))
            new.writestr("archive/code/__torch__.py", "open('owned', 'w')")
    return out.getvalue()


Reader = Callable[[Materials, Place, bytes], tuple[str, ...]]


def _import(m: Materials, place: Place, data: bytes) -> tuple[str, ...]:
    (place.path / "evil.pt").write_bytes(data)
    new = str(place.path / "new")
    return ("import-lm", str(place.path / "evil.pt"), "--vocabulary", str(m.root / "vocab.txt"), "--out", new)


def _resume(m: Materials, place: Place, data: bytes) -> tuple[str, ...]:
    run = place.copy(m.stopped[0])
    (run / "checkpoint.pt").write_bytes(data)
    return ("find", "planted", str(m.pairs), *RESUME, "--out", str(run))


def _training(m: Materials, place: Place, data: bytes) -> tuple[str, ...]:
    """A training folder with its plan; the checkpoint is somebody else's."""
    out = place.path / "model"
    shutil.copytree(m.begun, out.with_name("model.training"))
    (out.with_name("model.training") / "checkpoint.pt").write_bytes(data)
    return train(m.corpus, out)


def _weights(m: Materials, place: Place, data: bytes) -> tuple[str, ...]:
    folder = place.copy(m.transformer)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(data)
    return ("evaluate", str(m.run), "--model", str(folder), "--any-model")


READERS: dict[str, Reader] = {
    "import-lm": _import,
    "a run that is resumed": _resume,
    "a training that is resumed": _training,
    "the weights of a transformer": _weights,
}


MOST_MEMORY = 500
"""Megabytes that a reader may use, torch itself included."""


def attack(
    number: int, seed: int, materials: Materials, scratch: Path
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Give `number` hostile pickles to the readers in turn. Returns the failures, and the pickles of each reader.

    Each reader runs in a process of its own, so that its memory can be told."""
    assert materials.checkpoint and materials.stopped and materials.begun and materials.transformer
    failures: dict[str, list[str]] = {}
    met = dict.fromkeys(READERS, 0)
    for i in range(number):
        name = list(READERS)[i % len(READERS)]
        met[name] += 1
        place = Place.made(scratch / "pickle")
        arguments = READERS[name](materials, place, checkpoint(random.Random(f"{seed}:pickle:{i}")))
        done = ended(fork(arguments))
        wrong = done.failure or ("" if done.code == 2 else f"exit code {done.code} of {name}")
        if wrong := place.harm() or wrong:
            failures.setdefault(wrong, []).append(f"{seed}:pickle:{i}  {name}  [{done.err[-200:]}]")
        place.remove()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"  most memory of a reader: {memory} MB")
    if memory > MOST_MEMORY and number >= 20:  # the materials take more in the tests
        failures[f"{memory} MB of memory"] = ["the largest of all readers"]
    return failures, met
