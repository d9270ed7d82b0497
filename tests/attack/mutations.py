"""Ways to spoil a file: as bytes, as lines, as JSON, as YAML, as safetensors and as a zip archive.

Every function takes a `random.Random`, so that a seed repeats it.
"""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from copy import deepcopy
from typing import Any

TEXTS = (
    *("", " ", "\n", "\t", "x", "none", "null", "nan", "true", "-1", "0", "1e999", "0x10", "١٢٣", "½"),
    *("\x1b]0;owned\x07\x1b[2J", "\x9b31m", "\u202ered", "\x00", "\ud83d\ude00", "e\u0301" * 50, "\ufeff"),
    *("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "'\"><svg onload=alert(1)>"),
    *('=HYPERLINK("http://x")', "| a | b |", "\\input{x}", "%s%n{0}", "{{7*7}}", "$(touch owned)", "`id`"),
    *("../../../../etc/passwd", "/etc/passwd", "/dev/zero", "/dev/null", "C:\\CON", "~", ".", "..", "//x/y"),
    *("hf:nobody/nothing", "nobody/nothing", "planted", "planted:9" + "9" * 30, "a" * 300),
    *("a" * 100_000, "é" * 5000),
)
"""Texts that some program has once tripped over."""

SMALL = (0, 1, 2, 3, 5, 9, -1)

WHOLE = (
    *(0, 1, 2, 3, 7, -1, -2, 255, 256, 2**16, 2**31 - 1, 2**31, 2**53),
    *(2**63 - 1, 2**63, -(2**63), 2**64, 10**30),
)
NUMBERS = (*WHOLE, 0.5, -0.5, 1e-320, 1e300, -1e300, 1e999, -1e999, float("nan"))

Spoil = Callable[[bytes, random.Random], bytes]


def value(chance: random.Random) -> Any:
    """A JSON value that a field rarely expects."""
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice(NUMBERS)
    if kind < 6:
        return chance.choice(TEXTS)
    if kind == 6:
        return chance.choice([None, True, False, [], {}, [[]], [None], {"": None}])
    return deep(chance.choice([3, 60, 400]), chance)


def deep(levels: int, chance: random.Random) -> Any:
    made: Any = chance.choice([0, "x", None])
    for _ in range(levels):
        made = [made] if chance.random() < 0.5 else {"a": made}
    return made


# -- bytes ------------------------------------------------------------------------------------------------------------


def raw(data: bytes, chance: random.Random) -> bytes:
    """Bytes that are flipped, cut, doubled, moved, or replaced."""
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        match chance.randrange(9):
            case 0 if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[end:]
            case 3:
                data = data[:end] + data[at:end][:10_000] * chance.choice([1, 2, 50]) + data[end:]
            case 4:
                data = data[:at] + chance.randbytes(chance.choice([1, 2, 8, 300])) + data[at:]
            case 5:
                data = data[:at] + bytes(end - at) + data[end:]
            case 6:
                data = data[:at] + chance.choice(TEXTS).encode("utf-8", "surrogatepass") + data[end:]
            case 7:
                data = chance.choice(
                    [b"", b"\n", b"\0" * 100, b"\xff\xfe", b"\xef\xbb\xbf" + data, b"[" * 100_000]
                )
            case _:
                data = data.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n\n", b"\xc2\x85", b""]))
    return data


def encoded(data: bytes, chance: random.Random) -> bytes:
    """The same text in another encoding, with or without its mark, whole or cut, or compressed."""
    text = data.decode("utf-8", "replace")
    code = chance.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7", "cp037", "gzip"])
    made = gzip.compress(data, mtime=0) if code == "gzip" else text.encode(code, "replace")
    return made[: len(made) - chance.choice([0, 0, 1, 3])]


def text(given: str, chance: random.Random) -> str:
    """An argument that is spoilt, without the characters that no argument can have."""
    made = raw(given.encode(), chance).decode("utf-8", "replace").replace("\0", "")
    return made[:5000]


def lines(data: bytes, chance: random.Random) -> bytes:
    """Lines that are dropped, doubled, swapped, emptied, or given another field."""
    rows = data.split(b"\n")
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(rows))
        match chance.randrange(7):
            case 0:
                del rows[at : at + chance.choice([1, 1, len(rows)])]
            case 1:
                rows[at:at] = [rows[at]] * chance.choice([1, 30])
            case 2:
                other = chance.randrange(len(rows))
                rows[at], rows[other] = rows[other], rows[at]
            case 3:
                rows[at] = chance.choice(TEXTS).encode("utf-8", "surrogatepass")
            case 4:
                mark = chance.choice([b",", b"\t", b" ", b'"', b"{", b"}", b":"])
                rows[at] = rows[at].replace(mark, chance.choice([b"", mark * 2, b";"]), 1)
            case 5:
                words = rows[at].split(b" ")
                words[chance.randrange(len(words))] = chance.choice(TEXTS).encode("utf-8", "surrogatepass")
                rows[at] = b" ".join(words)
            case _:
                rows[at] = b" ".join([rows[at][:200]] * chance.choice([2, 300]))
        rows = rows or [b""]
    return b"\n".join(rows)


# -- structures -------------------------------------------------------------------------------------------------------


def tree(content: Any, chance: random.Random) -> Any:
    """JSON content with one or more of its parts replaced, removed, added, moved or nested."""
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        holder, key = _spot(content, chance)
        if holder is None:
            return value(chance)
        match chance.randrange(10):
            case 0 | 1 | 2:
                holder[key] = value(chance)
            case 7 | 8 | 9:
                holder[key] = alike(holder[key], chance)
            case 3:
                del holder[key]
            case 4:
                if isinstance(holder, dict):
                    holder[chance.choice(TEXTS)] = value(chance)
                else:
                    holder[key:key] = [holder[key]] * chance.choice([1, 2, 200])
            case 5:
                other, its = _spot(content, chance)
                # Copies, because one of the two may lie inside the other, and JSON cannot hold itself.
                holder[key], other[its] = deepcopy(other[its]), deepcopy(holder[key])
            case _:
                holder[key] = chance.choice([[holder[key]], {"a": holder[key]}, str(holder[key])[:1000]])
    return content


def alike(old: Any, chance: random.Random) -> Any:
    """Another value of the same type, which the types of a record do not refuse."""
    match old:
        case bool():
            return not old
        case int():
            return chance.choice([*SMALL, *WHOLE, old + 1, -old])
        case float():
            return chance.choice([n for n in NUMBERS if isinstance(n, float)])
        case str():
            return chance.choice([*TEXTS, old + "x", old[:-1], old.upper()])
        case list() if old:
            cut = chance.randrange(len(old) + 1)
            return chance.choice([old[:cut], old[cut:], old[::-1], old * 2, [], [*old, old[0]]])
        case dict() if old:
            name = chance.choice(list(old))
            rest = {key: item for key, item in old.items() if key != name}
            return chance.choice([rest, {**rest, name + "x": old[name]}, {name: old[name]}, {}])
    return value(chance)


def _spot(content: Any, chance: random.Random) -> tuple[Any, Any]:
    """A (container, key) in nested JSON, by a walk that may stop at any level; (None, None) if there is none."""
    holder = key = None
    while isinstance(content, dict | list) and content and (holder is None or chance.random() < 0.75):
        holder, key = (
            content,
            chance.choice(list(content) if isinstance(content, dict) else range(len(content))),
        )
        content = holder[key]
    return holder, key


def json_text(data: bytes, chance: random.Random) -> bytes:
    """A JSON file with a spoilt structure, or sometimes with spoilt bytes."""
    if chance.random() < 0.25:
        return raw(data, chance)
    text = json.dumps(tree(json.loads(data), chance))
    if chance.random() < 0.05:
        text = chance.choice(
            [text * 2, "[" * 50_000, text[: len(text) // 2], '{"a":1,' * 3000, text.replace('"', "'", 1)]
        )
    return text.encode("utf-8", "surrogatepass")


def json_lines(data: bytes, chance: random.Random) -> bytes:
    """A file of JSON lines: one line with a spoilt structure, or spoilt lines."""
    rows = data.splitlines(keepends=True)
    if not rows or chance.random() < 0.4:
        return chance.choice([raw, lines])(data, chance)
    at = chance.randrange(len(rows))
    try:
        rows[at] = json_text(rows[at], chance) + b"\n"
    except ValueError:
        rows[at] = raw(rows[at], chance)
    return b"".join(rows)


def yaml_text(data: bytes, chance: random.Random) -> bytes:
    """A recipe with a spoilt structure, with YAML of a kind that no recipe needs, or with spoilt bytes."""
    import yaml

    choice = chance.random()
    if choice < 0.25:
        return chance.choice([raw, lines])(data, chance)
    if choice < 0.4:
        return data + chance.choice(_YAML)
    try:
        return yaml.safe_dump(tree(yaml.safe_load(data), chance), allow_unicode=True).encode(
            "utf-8", "surrogatepass"
        )
    except (RecursionError, yaml.YAMLError):
        return raw(data, chance)


_YAML = (
    b"\nabout: !!python/object/apply:os.system ['touch owned']\n", b"\nabout: !!python/name:os.system\n",
    b"\nabout: !!binary aGk=\n", b"\nabout: !!bool maybe\n", b"\nabout: &a [*a]\n", b"\nabout: &a {b: *a}\n",
    b"\n<<: {name: y}\n", b"\n? [1, 2]\n: 3\n", b"\nseed: 99999999999999999999999999\n",
    b"\nseed: 2001-13-45\n", b"\nseed: 190:20:30\n", b"\n--- {}\n--- {}\n", b"\nabout: |\n" + b" x\n" * 5000,
    b"\nx: " + b"[" * 3000, b"\nx: " + b"{a: " * 1000,
    b"\na: &a [x]\nb: &b [%b]\nc: &c [%b]\nd: [%b]\n" % (b"*a, " * 300, b"*b, " * 300, b"*c, " * 300),
)  # fmt: skip


# -- binary containers ----------------------------------------------------------------------------------------------


def safetensors(data: bytes, chance: random.Random) -> bytes:
    """A safetensors file whose header says something else than its numbers, or with spoilt bytes."""
    size = int.from_bytes(data[:8], "little")
    if chance.random() < 0.3:
        return raw(data, chance)
    if chance.random() < 0.1:
        return chance.choice([0, size + 1, 2**40, 2**64 - 1]).to_bytes(8, "little") + data[8:]
    header = json.dumps(tree(json.loads(data[8 : 8 + size]), chance)).encode("utf-8", "surrogatepass")
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def archive(data: bytes, chance: random.Random) -> bytes:
    """A zip archive, as torch writes, with a spoilt, missing, renamed or additional member."""
    if chance.random() < 0.3:
        return raw(data, chance)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        members = old.namelist()
        chosen = chance.choice(members)
        for name in members:
            content, kind = old.read(name), zipfile.ZIP_STORED
            if name == chosen:
                match chance.randrange(5):
                    case 0:
                        continue
                    case 1:
                        name = chance.choice(
                            ["../owned", "/tmp/owned", name.upper(), "data.pkl", "x" * 60_000]
                        )
                    case 2:
                        kind = zipfile.ZIP_DEFLATED
                    case 3:
                        content = bytes(chance.choice([0, 1, 10**6]))
                    case _:
                        content = raw(content, chance)
            new.writestr(name, content, kind)
    return out.getvalue()
