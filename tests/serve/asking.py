"""A client of the live page that can also send what a browser would never send."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Client:
    """Asks a server at its address."""

    address: str

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def token(self) -> str:
        return urlsplit(self.address).path.strip("/")

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = JSON
    ) -> tuple[HTTPResponse, bytes]:
        """The answer to a path from the root, whatever its status."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def ask(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The content of an answer, as the page asks for it."""
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        answer, content = self.raw(method, f"/{self.token}/{path}", sent)
        assert answer.status == status, content
        return json.loads(content)

    def refusal(self, path: str, body: Any) -> str:
        """The sentence with which a request is refused."""
        return str(self.ask(path, body, status=422)["error"])


@contextmanager
def served(server: Any) -> Iterator[Client]:
    """Run a live server in a thread of its own within the block."""
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Client(server.address)
    finally:
        server.stop()
        thread.join(120)
    assert not thread.is_alive()
