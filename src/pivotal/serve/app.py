"""The addresses of the live page, and the one thread in which models compute its answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
from pivotal.serve.answers import predict, score
from pivotal.serve.guard import REPORT_POLICY, Guard
from pivotal.serve.requests import OfRun, Paste, SentenceRequest, Start, UnitRequest
from pivotal.serve.runs import LiveRuns
from pivotal.serve.search import LiveSearch

T = TypeVar("T")

_ASSETS = {
    "page.css": ("report", "text/css"),
    "page.js": ("report", "text/javascript"),
    "trace.css": ("report", "text/css"),
    "live.css": ("serve", "text/css"),
    "live.js": ("serve", "text/javascript"),
}
"""The files that the page loads: their folder and type. No other file is served by name."""
_COMPUTED: dict[str, tuple[type[OfRun], Callable[[LiveRuns, Any], Any]]] = {
    "/open": (OfRun, lambda runs, asked: runs.opened(asked.run, asked.which)),
    "/unit": (UnitRequest, lambda runs, asked: runs.unit(asked.run, asked.which, asked.unit)),
    "/look": (SentenceRequest, lambda runs, asked: predict(runs.live(asked.run, asked.which), asked)),
    "/pairs": (Paste, lambda runs, asked: score(runs.live(asked.run, asked.which), asked)),
}
"""What a model computes: the request, and the function that answers it."""


def application(
    runs: LiveRuns,
    search: LiveSearch,
    *,
    token: str,
    port: int,
    closing: Callable[[], bool],
    say: Callable[[str], None],
) -> ASGIApp:
    """The application. `closing` says whether the server is about to end, so that streams end too. `say` receives what
    becomes of a search that is running when the server ends."""
    page = _LivePage(runs, search, closing, say)
    app = Starlette(routes=page.routes(), lifespan=page.lifespan, exception_handlers=_FAILURES)
    app.router.redirect_slashes = False  # it would lose the token
    return Guard(app, token=token, port=port)


@dataclass(frozen=True)
class _LivePage:
    """The handlers of the addresses that need the runs or the search."""

    runs: LiveRuns
    search: LiveSearch
    closing: Callable[[], bool]
    say: Callable[[str], None]
    # Everything that touches a model runs in one thread, in the order of arrival. A model keeps caches, and a second
    # computation at the same time would only make both slower.
    model_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "model"))

    def routes(self) -> list[Route]:
        return [
            Route("/", _page),
            Route("/assets/{name}", _asset),
            Route("/state", _answer(self.state)),
            *(Route(path, self.computed(*how), methods=["POST"]) for path, how in _COMPUTED.items()),
            Route("/runs/{run:int}/report.html", self.report),
            Route("/find", _answer(self.find), methods=["POST"]),
            Route("/find/cancel", _answer(self.cancel), methods=["POST"]),
            Route("/find/{number:int}/events", self.events),
        ]

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        if self.search.running:
            self.say("Stopping the search and saving it.")
        if told := await self.search.close():
            self.say(told)
        self.model_thread.shutdown(wait=False, cancel_futures=True)

    async def compute(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.model_thread, function)

    def computed(
        self, kind: type[OfRun], of: Callable[[LiveRuns, Any], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Any:
            asked = await _body(request, kind)
            return await self.compute(lambda: of(self.runs, asked))

        return _answer(answer)

    async def state(self, _: Request) -> Any:
        """The runs, the names for a new search, and the search that is running."""
        search = self.search
        running = {"number": search.number, "command": search.command, "running": search.running}
        return {
            "runs": await self.compute(self.runs.listed),
            "compared": self.runs.compared,
            "models": [name for name, _ in list_models()],
            "phenomena": [name for name in phenomenon_names() if not name.endswith(":")],
            "search": running if search.number else None,
        }

    async def report(self, request: Request) -> Response:
        try:
            path = self.runs.report(request.path_params["run"])
        except PivotalError as error:
            return _json({"error": str(error)}, 404)
        if path is None:
            return _json({"error": "This run has no report. `pivotal show RUN --page` writes it."}, 404)
        # It is sent in pieces: somebody else may have made a report larger than the memory.
        return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    async def find(self, request: Request) -> Any:
        number = await self.search.start(await _body(request, Start))
        return {"number": number, "command": self.search.command}

    async def cancel(self, request: Request) -> Any:
        await _body(request, dict)
        self.search.cancel()
        return {}

    async def events(self, request: Request) -> Response:
        """The course of a search as server-sent events. A browser that reconnects says what it has seen."""
        number, seen = request.path_params["number"], request.headers.get("last-event-id", "")
        if number != self.search.number or not number:
            return _json({"error": f"There is no search {number}."}, 404)
        first = int(seen) + 1 if re.fullmatch("[0-9]{1,9}", seen) else 0
        return StreamingResponse(self.stream(number, first), media_type="text/event-stream")

    async def stream(self, number: int, first: int) -> AsyncIterator[str]:
        async for index, event in self.search.events(number, first):
            if self.closing():
                return
            if event is None:
                yield ": still there\n\n"
                continue
            if event["kind"] == "done":
                event = {**event, "run": self.runs.add(Path(event["path"]))}
            yield f"id: {index}\ndata: {json.dumps(event)}\n\n"


# -- requests and answers ---------------------------------------------------------------------------------------


def _answer(handle: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A route whose result is JSON. A mistake in the request becomes a sentence for the page."""

    async def route(request: Request) -> Response:
        try:
            return _json(await handle(request))
        except PivotalError as error:
            return _json({"error": str(error)}, 422)
        except (ClientDisconnect, asyncio.CancelledError):  # the page or the server ends
            return Response(status_code=503)

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
        404: (404, f"There is no page {request.url.path}."),
        405: (405, f"{request.url.path} does not allow {request.method}."),
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
