"""Access control: only pages of this server, opened with its token, on this machine.

The token is the first part of every path, because an event stream can send no headers of its own and cookies are shared
by all ports of a machine. Host is checked against names that lead here by a trick (DNS rebinding), and Origin against
pages of other sites.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable

from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pivotal.errors import PivotalError

MOST_BYTES = 128 * 1024
"""The most bytes of a request."""
MOST_SECONDS = 20.0
"""The most seconds in which the body of a request must arrive, and in which a client must read a part of the answer."""
MOST_REQUESTS = 64
"""The most requests that are answered at once."""
_LONGEST_PATH = 500
"""The most characters of a path. Python refuses to read a number of some thousand digits."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the live page may load and do."""

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The same for a report. A run folder may come from somebody else: its page gets an origin of its own, without access
to this server."""

_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


class TooLarge(PivotalError):
    """A request has more bytes than it may have."""

    def __init__(self) -> None:
        super().__init__(f"A request may have {MOST_BYTES:,} bytes at most.")


class TooSlow(PivotalError):
    """The body of a request did not arrive in time."""

    def __init__(self) -> None:
        super().__init__(f"A request must arrive within {MOST_SECONDS:g} seconds.")


class Guard:
    """Refuses requests with another host, origin or token, large or slow ones, and too many at once. It removes the
    token from the path."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in _HEADERS if h[0] not in there)]
            await asyncio.wait_for(send(message), MOST_SECONDS)

        if reason := self._refused(scope):
            status, sentence = reason
            refusal = JSONResponse({"error": sentence}, status, {"Connection": "close"})
            await refusal(scope, receive, send_in_time)
            return
        rest = scope["path"][len(self._token) + 1 :]
        if not rest:  # the page names its files relative to a folder
            await RedirectResponse(f"/{self._token}/")(scope, receive, send_in_time)
            return
        inner = {**scope, "path": rest, "raw_path": rest.encode()}
        self._answering += 1
        try:
            await self._app(inner, _limited(receive), send_in_time)
        except asyncio.TimeoutError:  # the client does not read: uvicorn closes the connection
            return
        finally:
            self._answering -= 1

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the reason, if the request may not be answered."""
        headers = scope["headers"]
        hosts, origins = _all(headers, b"host"), _all(headers, b"origin")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 403, "This server answers to 127.0.0.1 and localhost only."
        if any(origin not in self._origins for origin in origins):
            return 403, "Pages of other sites may not use this server."
        first = scope["path"][1:].partition("/")[0]
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            return 403, "The address needs the token that `pivotal serve` has printed."
        if len(scope["path"]) > _LONGEST_PATH:
            return 414, f"An address may have {_LONGEST_PATH} characters at most."
        if any(not n.isdigit() or int(n[:20]) > MOST_BYTES for n in _all(headers, b"content-length")):
            return 413, str(TooLarge())
        if self._answering >= MOST_REQUESTS:
            return 503, f"{MOST_REQUESTS} requests are being answered already. Try again in a moment."
        return None


def _all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body that states no length, and the seconds until it is complete."""
    so_far, complete = 0, False
    began = asyncio.get_running_loop().time()

    async def counted() -> Message:
        nonlocal so_far, complete
        if complete:  # what comes now is the end of the connection
            return await receive()
        left = began + MOST_SECONDS - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), max(left, 0.0))
        except asyncio.TimeoutError:
            raise TooSlow from None
        so_far += len(message.get("body", b""))
        if so_far > MOST_BYTES:
            raise TooLarge
        complete = not message.get("more_body", False)
        return message

    return counted
