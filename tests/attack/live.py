"""Hostile requests to the live page: each is answered or refused with a sentence, and the server lives on."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.attack import mutations
from tests.attack.materials import Materials
from tests.attack.place import Place

PATHS = ("", "state", "assets/live.js", "runs/0/report.html", "find/1/events", "nowhere", "%2e%2e/run.json")
HEADERS = (
    *("Host", "Origin", "Content-Type", "Content-Length", "Transfer-Encoding", "Last-Event-ID", "Expect"),
    *("Connection", "Upgrade", "Range", "Cookie", "X-Forwarded-For"),
)
VALUES = (
    *("", "0", "-1", "99999999999999999999", "chunked", "gzip", "websocket", "close", "100-continue", "null"),
    *(
        "evil.example",
        "127.0.0.1",
        "http://evil.example",
        "bytes=0-",
        "bytes=9-1",
        "text/plain",
        "x" * 70_000,
    ),
)
ANSWERED = (200, 206, 307)


@dataclass(frozen=True)
class Asked:
    """A request before it is sent."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    trusted: bool = True
    """Whether it has the host, the origin and the token of the page. Any other request must be refused."""

    def wire(self) -> bytes:
        sent = dict(self.headers) | {"Content-Length": str(len(self.body))} if self.body else self.headers
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in dict(sent).items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + self.body


def sound(chance: random.Random, port: int, token: str) -> Asked:
    """A request as the page sends it. Searches are asked for without a phenomenon that exists: none is started."""
    unit = {"unit": "hidden.0:3", "values": [0.5, -0.5]}
    bodies: dict[str, dict[str, Any]] = {
        "open": {"run": 0, "which": None},
        "unit": {"run": 0, "unit": "hidden.0:3"},
        "look": {"run": 0, "units": [unit], "sentence": "The noun0a near", "words": ["verb0as", "verb0a"]},
        "pairs": {
            "run": 0,
            "units": [unit],
            "text": '{"prefix": "The noun0a", "cue": 1, "words": ["a", "b"]}',
        },
        "find": {"model": "planted", "phenomenon": "planted", "runs": 0},
        "find/cancel": {},
    }
    headers = (("Host", f"127.0.0.1:{port}"), ("Origin", f"http://127.0.0.1:{port}"))
    if chance.random() < 0.3:
        return Asked("GET", f"/{token}/{chance.choice(PATHS)}", headers)
    path, body = chance.choice(list(bodies.items()))
    kind = ("Content-Type", "application/json")
    return Asked("POST", f"/{token}/{path}", (*headers, kind), json.dumps(body).encode())


def spoilt(asked: Asked, chance: random.Random) -> bytes:
    """The bytes of a request with a spoilt body, method, path or header, or with spoilt bytes."""
    match chance.randrange(6):
        case 0 | 1 if asked.body and "find" not in asked.path:
            return replace(asked, body=mutations.json_text(asked.body, chance)[:300_000]).wire()
        case 2:
            return replace(
                asked, method=chance.choice(["BREW", "HEAD", "PUT", "TRACE", "get", "", "X" * 9000])
            ).wire()
        case 3:
            return replace(asked, path=asked.path + mutations.text(asked.path, chance)).wire()
        case 4:
            more = ((chance.choice(HEADERS), chance.choice(VALUES)),)
            return replace(asked, headers=(*asked.headers, *more)).wire()
    return mutations.raw(asked.wire(), chance)


def foreign(asked: Asked, chance: random.Random) -> bytes:
    """The bytes of a request of another site, or without the token."""
    token = asked.path.split("/")[1]
    match chance.randrange(3):
        case 0:
            other = ("Host", chance.choice(["evil.example", "127.0.0.1", "127.0.0.1.evil.example:80", ""]))
        case 1:
            other = ("Origin", chance.choice(["http://evil.example", "null", "https://127.0.0.1", "file://"]))
        case _:
            wrong = chance.choice(["", token[:-1], token + "x", token.swapcase(), "%00", ".", token[::-1]])
            return replace(asked, path=asked.path.replace(token, wrong, 1)).wire()
    return replace(asked, headers=(*asked.headers, other)).wire()


def attack(
    number: int, seed: int, materials: Materials, scratch: Path
) -> tuple[dict[str, list[str]], Counter[str]]:
    """Send `number` requests. Returns the failures, and how often each status was answered."""
    failures: dict[str, list[str]] = {}
    codes: Counter[str] = Counter()
    place = Place.made(scratch / "live")
    with served(place.copy(materials.run)) as (port, token), Faults.heard() as faults:
        for i in range(number):
            chance = random.Random(f"{seed}:live:{i}")
            asked, alien = sound(chance, port, token), chance.random() < 0.25
            sent = (foreign if alien else spoilt)(asked, chance)
            status, content = exchange(port, sent, chance)
            codes[str(status or "no answer")] += 1
            wrong = _judged(status, content, alien=alien) or faults.told()
            if not wrong and (i % 50 == 49 or i == number - 1):
                sane = Asked("GET", f"/{token}/state", (("Host", f"127.0.0.1:{port}"),)).wire()
                wrong = "" if exchange(port, sane)[0] == 200 else "the server does not answer any more"
            if wrong:
                failures.setdefault(wrong, []).append(f"{seed}:live:{i}  {sent[:200]!r}  {content[:200]!r}")
    if harm := place.harm():
        failures[harm] = [""]
    return failures, codes


def _judged(status: int, content: bytes, *, alien: bool) -> str:
    if status >= 500 and status != 503:
        return f"status {status}"
    if alien and status in ANSWERED:
        return "another site or a wrong token was answered"
    return f"{status} without a sentence" if status >= 400 and not content.strip() else ""


def exchange(port: int, sent: bytes, chance: random.Random | None = None) -> tuple[int, bytes]:
    """The status and the content of the answer; (0, b"") if the server closes the connection, or waits for more. With
    `chance`, clients do not wait long, and some go away before they have sent or read everything."""
    cut = len(sent) if chance is None or chance.random() < 0.9 else chance.randrange(len(sent) + 1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as wire:
            wire.sendall(sent[:cut])
            wire.settimeout(0.2 if chance else 20)
            answer = b"" if chance and chance.random() < 0.05 else wire.recv(2**16)
    except OSError:
        return 0, b""
    head, _, content = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), content or words[-1]


class Faults(logging.Handler):
    """Hears what the server says about faults of its own, which a client that has gone does not see."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._said: list[str] = []

    @staticmethod
    @contextmanager
    def heard() -> Iterator[Faults]:
        faults, loggers = Faults(), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
        for logger in loggers:
            logger.addHandler(faults)
            logger.setLevel(logging.ERROR)
        yield faults
        for logger in loggers:
            logger.removeHandler(faults)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else record.getMessage()
        self._said.append(f"a fault of the server: {type(error).__name__} {str(error)[:100]}")

    def told(self) -> str:
        """The first fault since the last call."""
        said, self._said = self._said, []
        return said[0] if said else ""


@contextmanager
def served(run: Path) -> Iterator[tuple[int, str]]:
    """A live page of a run on this machine: its port and its token."""
    from pivotal.serve.server import LiveServer

    server = LiveServer([str(run)])
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    address = urlsplit(server.address)
    try:
        yield address.port or 0, address.path.strip("/")
    finally:
        server.stop()
        thread.join(120)
