"""Access control: only pages of this server, opened with its token, on this machine.

The token is the first part of every path, because an event stream can send no headers of its own and cookies are shared
by all ports of a machine. Host is checked against names that lead here by a trick (DNS rebinding), and Origin against
pages of other sites.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests with another host, origin or token, and removes the token from the path.

    Whoever has the token is the user, so there are no limits on the size, the speed and the number of requests."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        rest = scope["path"][len(self._token) + 1 :]
        inner, app = {**scope, "path": rest, "raw_path": rest.encode()}, self._app
        if reason := self._refused(scope):
            status, sentence = reason
            app = JSONResponse({"error": sentence}, status, {"Connection": "close"})
        elif not rest:  # the page names its files relative to a folder
            app = RedirectResponse(f"/{self._token}/")
        await app(inner, receive, send_with_policy)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the reason, if the request may not be answered."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 403, "This server answers to 127.0.0.1 and localhost only."
        if any(origin not in self._origins for origin in origins):
            return 403, "Pages of other sites may not use this server."
        first = scope["path"][1:].partition("/")[0]
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            return 403, "The address needs the token that `pivotal serve` has printed."
        if len(scope["path"]) > _LONGEST_PATH:
            return 414, f"An address may have {_LONGEST_PATH} characters at most."
        return None
