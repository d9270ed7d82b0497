"""The addresses of the live page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pivotal.errors import PivotalError, in_short
from pivotal.files import asset
from pivotal.models import list_models
from pivotal.questions.phenomena import phenomenon_names
from pivotal.records import serial
from pivotal.serve import idle_connections
from pivotal.serve.answers import predict, score
from pivotal.serve.guard import REPORT_POLICY, Guard, TooLarge, TooSlow
from pivotal.serve.live_search import LiveSearch
from pivotal.serve.model_queue import Busy, ModelQueue
from pivotal.serve.requests import OfRun, Paste, SentenceRequest, Start, UnitRequest
from pivotal.serve.runs import LiveRuns

T = TypeVar("T")

_ASSETS = {
    "page.css": ("report", "text/css"),
    "trace.css": ("report", "text/css"),
    "page.js": ("report", "text/javascript"),
    "live.css": ("serve", "text/css"),
    "live.js": ("serve", "text/javascript"),
}
"""The files that the page loads: their folder and type. No other file can be asked for by name."""
_LISTENERS = 8
"""The most pages that listen to a search at once."""


def application(
    runs: LiveRuns,
    search: LiveSearch,
    queue: ModelQueue,
    *,
    token: str,
    port: int,
    closing: Callable[[], bool],
    connections: Callable[[], Iterable[Any]],
    say: Callable[[str], None],
) -> ASGIApp:
    """The application. `closing` says whether the server is about to end, so that streams end too. `connections` are
    those of the server, of which the slow ones are closed. `say` receives what becomes of a search that is running when
    the server ends."""
    live = _Live(runs, search, queue, closing)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(idle_connections.watch(connections))
        yield
        watching.cancel()
        if search.running:
            say("Stopping the search that is running; it is being saved.")
        if told := await search.close():
            say(told)
        queue.close()

    routes = [
        Route("/", _page),
        Route("/assets/{name}", _asset),
        Route("/state", _answer(live.state)),
        Route("/open", _answer(live.open), methods=["POST"]),
        Route("/unit", _answer(live.unit), methods=["POST"]),
        Route("/look", _answer(live.look), methods=["POST"]),
        Route("/pairs", _answer(live.pairs), methods=["POST"]),
        Route("/runs/{run:int}/report.html", live.report),
        Route("/find", _answer(live.find), methods=["POST"]),
        Route("/find/cancel", _answer(live.cancel), methods=["POST"]),
        Route("/find/{number:int}/events", live.events),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_FAILURES)
    app.router.redirect_slashes = False  # it would lose the token
    return Guard(app, token=token, port=port)


class _Live:
    """What the addresses do."""

    def __init__(
        self, runs: LiveRuns, search: LiveSearch, queue: ModelQueue, closing: Callable[[], bool]
    ) -> None:
        self._runs, self._search, self._queue, self._closing = runs, search, queue, closing
        self._listeners = 0

    async def state(self, _: Request) -> Any:
        """The runs, the names for a new search, and the search that is running."""
        runs = await self._queue.take(self._runs.listed)
        running = {
            "number": self._search.number,
            "command": self._search.command,
            "running": self._search.running,
        }
        names = [name for name in phenomenon_names() if not name.endswith(":")]
        return {
            "runs": runs,
            "models": [name for name, _ in list_models()],
            "phenomena": names,
            "search": running if self._search.number else None,
        }

    async def open(self, request: Request) -> Any:
        asked = await _body(request, OfRun)
        return await self._queue.take(lambda: self._runs.opened(asked.run, asked.which))

    async def unit(self, request: Request) -> Any:
        asked = await _body(request, UnitRequest)
        return await self._queue.take(lambda: self._runs.unit(asked.run, asked.which, asked.unit))

    async def look(self, request: Request) -> Any:
        asked = await _body(request, SentenceRequest)
        return await self._queue.take(lambda: predict(self._runs.live(asked.run, asked.which), asked))

    async def pairs(self, request: Request) -> Any:
        asked = await _body(request, Paste)
        return await self._queue.take(lambda: score(self._runs.live(asked.run, asked.which), asked))

    async def report(self, request: Request) -> Response:
        try:
            path = self._runs.report(request.path_params["run"])
        except PivotalError as error:
            return _json({"error": str(error)}, 404)
        if path is None:
            return _json({"error": "This run has no report. `pivotal show RUN --page` writes it."}, 404)
        # It is sent in pieces: somebody else may have made a report larger than the memory.
        return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    async def find(self, request: Request) -> Any:
        number = await self._search.start(await _body(request, Start))
        return {"number": number, "command": self._search.command}

    async def cancel(self, request: Request) -> Any:
        await _body(request, dict)
        self._search.cancel()
        return {}

    async def events(self, request: Request) -> Response:
        """The course of a search as server-sent events. A browser that reconnects says what it has seen."""
        number = request.path_params["number"]
        if number != self._search.number or not number:
            return _json({"error": f"There is no search {number}."}, 404)
        if self._listeners >= _LISTENERS:
            return _json({"error": f"{_LISTENERS} pages are listening already. Close one."}, 503)
        seen = request.headers.get("last-event-id", "")
        first = int(seen) + 1 if seen.isascii() and seen.isdigit() and len(seen) < 10 else 0
        return StreamingResponse(self._stream(number, first), media_type="text/event-stream")

    async def _stream(self, number: int, first: int) -> AsyncIterator[str]:
        self._listeners += 1
        try:
            async for index, event in self._search.events(number, first):
                if self._closing():
                    return
                if event is None:
                    yield ": still there\n\n"
                    continue
                if event["kind"] == "done":
                    event = {**event, "run": self._runs.add(Path(event["path"]))}
                yield f"id: {index}\ndata: {json.dumps(event)}\n\n"
        finally:
            self._listeners -= 1


# -- requests and answers ---------------------------------------------------------------------------------------


def _answer(handle: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A route whose result is JSON. A mistake in the request becomes a sentence for the page."""

    async def route(request: Request) -> Response:
        try:
            return _json(await handle(request))
        except PivotalError as error:
            status = {Busy: 503, TooLarge: 413, TooSlow: 408}.get(type(error), 422)
            return _json({"error": str(error)}, status)
        except ClientDisconnect:  # nobody waits for an answer
            return Response(status_code=400)

    return route


async def _body(request: Request, kind: type[T]) -> T:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise PivotalError("A request is JSON and says so (Content-Type: application/json).")
    return serial.decode(await request.body(), kind, "The request", "")


def _json(content: Any, status: int = 200) -> Response:
    return Response(serial.encode(content, indent=0), status, media_type="application/json")


async def _failed(request: Request, error: Exception) -> Response:
    """What the page reads if the address, the method or the program itself is wrong."""
    status, sentence = {
        404: (404, f"There is no address {request.url.path}."),
        405: (405, f"{request.url.path} cannot be asked with {request.method}."),
    }.get(getattr(error, "status_code", 500), (500, f"The server failed: {in_short(error)}."))
    return _json({"error": sentence}, status)


_FAILURES = {404: _failed, 405: _failed, Exception: _failed}


async def _page(_: Request) -> Response:
    return Response(asset("serve", "live.html").read_bytes(), media_type="text/html")


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return _json({"error": f"There is no file {name!r}."}, 404)
    folder, kind = _ASSETS[name]
    return Response(asset(folder, name).read_bytes(), media_type=kind)
