"""Requests that no browser would send: each is refused with a sentence, and the server lives on."""

import json
import logging
import socket
from collections.abc import Iterator

import pytest
from tests.serve.asking import Client, served

from pivotal.serve.server import LiveServer

REQUEST = "POST /{token}/open HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def quiet(client: Client, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a client sends, the server answers the next one and writes nothing to its log."""
    server_log = logging.getLogger("uvicorn.error")
    server_log.addHandler(caplog.handler)
    yield
    assert client.ask("open", {"run": 0})["run"] == 0
    server_log.removeHandler(caplog.handler)
    assert not caplog.get_records("call")


def connected(client: Client, sent: str) -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", client.port), timeout=120)
    wire.sendall(sent.format(token=client.token, port=client.port).encode())
    return wire


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", f"runs/{'9' * 5000}/report.html", 414, "500 characters at most"),
        ("GET", f"find/{'9' * 5000}/events", 414, "500 characters at most"),
        ("GET", f"find/{'9' * 400}/events", 404, "There is no search"),
        ("GET", "runs/0/%2e%2e/run.json", 404, "There is no page"),
        ("GET", "runs/0/%2e%2e%2f%2e%2e%2freport.html", 404, "There is no page"),
        ("GET", "runs//etc/passwd/report.html", 404, "There is no page"),
        ("GET", "assets/%00", 404, "There is no file"),
        ("GET", "assets/live.html", 404, "There is no file"),
        ("GET", "assets/..%2f..%2fpaper.json", 404, "There is no"),
        ("GET", "runs/0/run.json", 404, "There is no page"),
        ("GET", "runs/-1/report.html", 404, "There is no"),
        ("BREW", "state", 405, "does not allow BREW"),
        ("DELETE", "open", 405, "does not allow DELETE"),
        ("POST", "find", 422, "model cannot hold control characters"),
    ],
)
def test_what_there_is_not_gets_a_sentence(client, method, path, status, said):
    body = b'{"model": "pl\\u0000anted"}' if method == "POST" else None
    answer, content = client.raw(method, f"/{client.token}/{path}", body)
    assert answer.status == status and said in json.loads(content)["error"]


@pytest.mark.parametrize(
    "head",
    [
        "GET /{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "GET /{token}/state HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        REQUEST + "Content-Length: -1\r\n\r\n",
        REQUEST + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n{{}}",
        REQUEST + "Transfer-Encoding: chunked, gzip\r\n\r\n",
        REQUEST + "Origin: http://127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n\r\n",
        REQUEST + f"X: {'x' * 100_000}\r\n\r\n", "\x00\r\n\r\n", "GET /%ff%fe HTTP/9.9\r\n\r\n",
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused(client, head):
    with connected(client, head) as wire:
        status = wire.recv(2000).split(b" ")[1]
    assert 400 <= int(status) < 502 and status != b"500"


def test_a_client_that_goes_away_or_sends_nothing_is_no_fault(client):
    for _ in range(3):
        connected(client, REQUEST + "Content-Length: 10\r\n\r\n{{").close()
    silent = [connected(client, sent) for sent in ("", "GET /{token}/st", "POST ") for _ in range(22)]
    assert client.ask("open", {"run": 0})["run"] == 0
    for wire in silent:
        wire.close()


def test_connections_beyond_the_limit_are_refused_without_a_line_in_the_log(planted_run, monkeypatch, caplog):
    monkeypatch.setattr("pivotal.serve.server._CONNECTIONS", 4)
    server = LiveServer([str(planted_run)])
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)  # a new server removes that of `quiet`
    with served(server) as crowded:
        idle = [connected(crowded, "") for _ in range(4)]
        for _ in range(3):
            with connected(crowded, "GET /{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n") as wire:
                assert b" 503 " in wire.recv(2000)
        for wire in idle:
            wire.close()
