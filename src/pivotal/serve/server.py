"""Start and end the server of the live page."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import uvicorn

from pivotal.errors import PivotalError
from pivotal.serve.app import application
from pivotal.serve.runs import LiveRuns
from pivotal.serve.search import LiveSearch
from pivotal.stopping import signals

HOST = "127.0.0.1"
_CONNECTIONS = 512
"""The most connections at once, most of them idle."""
_LAST_ANSWERS = 3
"""Seconds that open requests have when the server ends."""


@dataclass
class LiveServer:
    """A server that listens on a port of this machine, and answers once it is run."""

    runs: Sequence[str] = ()
    """Runs, and folders of runs; without any, the runs in the folder `root`."""
    root: str = "runs"
    port: int = 0
    """0 takes any free port."""
    device: str | None = None
    say: Callable[[str], None] = lambda text: None
    """Receives what happens when the server ends."""
    _server: uvicorn.Server = field(init=False)
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        runs = LiveRuns(self.runs, self.root, self.device)
        self._socket = _listen(self.port)
        self.port = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        self.address = f"http://{HOST}:{self.port}/{token}/"
        app = application(
            runs,
            LiveSearch(self.device),
            token=token,
            port=self.port,
            closing=lambda: self._server.should_exit,
            say=self.say,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,  # paths hold the token
                log_level="error",  # whoever sends malformed requests could fill a log with warnings
                lifespan="on",
                loop="asyncio",
                http="h11",
                ws="none",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=_LAST_ANSWERS,
            )
        )

    def run(self) -> None:
        """Answer until a signal comes or `stop` is called. A search that is running is saved."""
        with signals(lambda *_: self.stop()), closing(self._socket):
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End the server after the requests at hand."""
        self._server.should_exit = True


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        reason = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror
        raise PivotalError(f"Port {port} cannot be used: {reason}. Name another --port, or 0.") from None
    return listening
