"""Requests that no browser would send: each is refused with a sentence, and the server lives on."""

from __future__ import annotations

import http.client
import json
import logging
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.serve.asking import JSON, Client

from pivotal.serve import guard
from pivotal.serve.runs import LiveRuns
from pivotal.serve.server import LiveServer

REQUEST = "POST /{token}/open HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"


@contextmanager
def served(run: Path) -> Iterator[Client]:
    """A server of its own, for tests that change how patient it is."""
    server = LiveServer([str(run)])
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield Client(server.address)
    finally:
        server.stop()
        thread.join(120)
    assert not thread.is_alive()


def connected(client: Client, sent: str = "") -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", client.port), timeout=120)
    wire.sendall(sent.format(token=client.token, port=client.port).encode())
    return wire


def until_it_answers(client: Client) -> None:
    for _ in range(2000):
        # If this process is slow, its own connection may be one that the server closes as idle.
        with suppress(OSError, http.client.HTTPException):
            if client.raw("GET", f"/{client.token}/assets/page.css")[0].status == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not answer any more")


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", f"runs/{'9' * 5000}/report.html", 414, "500 characters at most"),
        ("GET", f"find/{'9' * 5000}/events", 414, "500 characters at most"),
        ("GET", f"find/{'9' * 400}/events", 404, "There is no search"),
        ("GET", "runs/0/%2e%2e/run.json", 404, "There is no address"),
        ("GET", "runs/0/%2e%2e%2f%2e%2e%2freport.html", 404, "There is no address"),
        ("GET", "runs//etc/passwd/report.html", 404, "There is no address"),
        ("GET", "assets/%00", 404, "There is no file"),
        ("GET", "assets/live.html", 404, "There is no file"),
        ("GET", "assets/..%2f..%2fpaper.json", 404, "There is no"),
        ("GET", "runs/0/run.json", 404, "There is no address"),
        ("GET", "runs/-1/report.html", 404, "There is no"),
        ("BREW", "state", 405, "cannot be asked with BREW"),
        ("DELETE", "open", 405, "cannot be asked with DELETE"),
        ("POST", "find", 422, "model cannot hold control characters"),
    ],
)
def test_what_there_is_not_gets_a_sentence(
    client: Client, method: str, path: str, status: int, said: str
) -> None:
    body = b'{"model": "pl\\u0000anted"}' if method == "POST" else None
    answer, content = client.raw(method, f"/{client.token}/{path}", body)
    assert answer.status == status and said in json.loads(content)["error"]


@pytest.mark.parametrize(
    "head",
    [
        "GET /{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "GET /{token}/state HTTP/1.0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        REQUEST + "Content-Length: -1\r\n\r\n",
        REQUEST + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n{{}}",
        REQUEST + "Content-Length: 99999999999999999999\r\n\r\n",
        REQUEST + "Transfer-Encoding: chunked, gzip\r\n\r\n",
        REQUEST + "Origin: http://127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n\r\n",
        REQUEST + f"X: {'x' * 100_000}\r\n\r\n",
        "\x00\r\n\r\n",
        "GET /%ff%fe HTTP/9.9\r\n\r\n",
    ],
)
def test_a_malformed_request_is_refused(client: Client, head: str) -> None:
    with connected(client, head) as wire:
        status = wire.recv(2000).split(b" ")[1]
    assert 400 <= int(status) < 502 and status != b"500"
    until_it_answers(client)


def test_a_body_that_never_ends_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(guard, "MOST_SECONDS", 0.2)
        with connected(client, REQUEST + "Content-Length: 10\r\n\r\n{{") as wire:
            assert b" 408 " in wire.recv(2000)
        with connected(client, REQUEST + "Content-Length: 10\r\n\r\n{{"):
            pass  # it goes away in the middle
    assert client.ask("open", {"run": 0})["run"] == 0


def test_clients_that_send_nothing_do_not_shut_others_out(client: Client) -> None:
    silent = [connected(client, sent) for sent in ("", "GET /{token}/st", "POST ") for _ in range(22)]
    until_it_answers(client)
    for wire in silent:
        wire.close()


def test_clients_that_do_not_read_do_not_shut_others_out(
    planted_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(guard, "MOST_REQUESTS", 3)
    run = Path(shutil.copytree(planted_run, tmp_path / "run"))
    with (run / "report.html").open("wb") as report:
        report.truncate(2**30)  # it takes no space on the disk, and must take no memory
    with served(run) as client:
        asked = "GET /{token}/runs/0/report.html HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        deaf = [connected(client, asked) for _ in range(3)]
        for wire in deaf:
            assert b" 200 " in wire.recv(100)
        until_it_answers(client)
        for wire in deaf:
            wire.close()


def test_malformed_requests_fill_no_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    server_log = logging.getLogger("uvicorn.error")
    server_log.addHandler(caplog.handler)
    for _ in range(10):
        with connected(client, "\x00\r\n\r\n") as wire:
            wire.recv(2000)
    server_log.removeHandler(caplog.handler)
    assert not caplog.records


def test_a_burst_of_clients_is_answered_or_told_to_wait(client: Client) -> None:
    def ask(_: int) -> tuple[int, bytes]:
        answer, content = client.raw("POST", f"/{client.token}/open", b'{"run": 0}')
        return answer.status, content

    with ThreadPoolExecutor(100) as clients:
        answers = list(clients.map(ask, range(100)))
    assert {status for status, _ in answers} <= {200, 503} and all(content for _, content in answers)
    until_it_answers(client)


def test_a_client_that_goes_away_is_no_fault(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    server_log = logging.getLogger("uvicorn.error")
    server_log.addHandler(caplog.handler)
    for _ in range(3):
        connected(client, REQUEST + "Content-Length: 10\r\n\r\n{{").close()
    until_it_answers(client)
    server_log.removeHandler(caplog.handler)
    assert caplog.records == []


def test_a_fault_of_the_server_is_told_and_ends_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(LiveRuns, "opened", broken)
        answer, content = client.raw("POST", f"/{client.token}/open", b'{"run": 0}', JSON)
    assert answer.status == 500 and "a fault" in json.loads(content)["error"]
    assert client.ask("open", {"run": 0})["run"] == 0
