"""The service over HTTP: who asks, how much at once, and when a reply leaves.

A reply to a question leaves at a public time: so long after its turn has come, by how many values it asks for and how
many numbers it is written with. Its turn comes when the whole request is there and no other question of the run is
being answered, or waits for its own time. A clock that ran before would let a request that comes slowly, or waits, be
late by as long as the records took. Refusals that need no records leave at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from recoup._files import exclusive
from recoup.errors import FileInUseError
from recoup.serve import pages
from recoup.serve.bodies import read_body, read_key
from recoup.serve.limits import Limits, Meter
from recoup.serve.offer import Offer
from recoup.serve.operator import status
from recoup.serve.refusals import (
    Refusal,
    encoded,
    malformed,
    refusal_of,
    too_large,
    unavailable,
    unknown_run,
)
from recoup.serve.service import ANSWER_FIELDS, RUN_FIELDS, Asked, Service
from recoup.serve.store import Store
from recoup.serve.tokens import Kind, Token

_RUN_NAME: Final = re.compile("[0-9a-f]{32}")
_POLL: Final = 0.02  # seconds between two looks at a lock
_LOG: Final = logging.getLogger("recoup.serve")
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
Handler = Callable[[Request], Awaitable[Response]]


def create_app(offer: Offer, state: str | os.PathLike[str], limits: Limits | None = None) -> Starlette:
    """The ASGI application that serves one table.

    Args:
        offer: the table, its terms and its ledger.
        state: the folder that keeps tokens, runs and answers.
        limits: on what one token may ask for.

    Returns:
        An application for uvicorn, or another server of ASGI.

    Guarantees: what leaves are noisy answers that were paid for, public terms, and refusals that depend on nothing but
    those and the requests.
    """
    return _App(Service(offer, Store.opened(state), limits)).starlette()


class _App:
    def __init__(self, service: Service) -> None:
        self._service, self._meter = service, Meter(service.limits)
        self._counts: Counter[tuple[str, int]] = Counter()

    def starlette(self) -> Starlette:
        routes = [
            self._route("GET", "/health", self._health),
            self._route("GET", "/terms", self._terms),
            self._route("GET", "/runs", self._runs),
            self._route("POST", "/runs", self._begin),
            self._route("POST", "/runs/{run}/answer", self._answer),
            self._route("GET", "/runs/{run}/transcript", self._transcript),
            self._route("GET", "/metrics", self._metrics),
            self._route("GET", "/operator/status", self._status),
            self._route("GET", "/operator", self._operator_page),
            self._route("GET", "/", self._analyst_page),
        ]
        handlers: Any = {HTTPException: self._http_error}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False  # a redirection is not one of our replies
        return app

    def _route(self, method: str, path: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                reply = await handler(request)
            except ClientDisconnect:
                reply = _refused(malformed("The request did not arrive whole."))
            except Exception as error:
                refusal = refusal_of(error)
                if refusal.status >= 500:
                    cause = error.__cause__ or error
                    _LOG.error("%s %s failed: %s", method, path, type(cause).__name__)  # its words may quote a record
                reply = _refused(refusal)
            self._counts[f"{method} {path}", reply.status_code] += 1
            token = getattr(request.state, "token", None)
            who = "no token" if token is None else f"token {token.name}"
            _LOG.info("%s %s %s: %d", method, path, who, reply.status_code)
            return reply

        return Route(path, endpoint, methods=[method])

    async def _http_error(self, request: Request, error: HTTPException) -> Response:
        kinds = {404: ("NotFoundError", "There is nothing here."), 405: ("MethodNotAllowedError", "Not in this way.")}
        kind, words = kinds.get(error.status_code, ("MalformedRequestError", "This is not a request for a curator."))
        status = error.status_code if error.status_code in kinds else 400
        self._counts["other", status] += 1
        return _refused(Refusal(status, kind, words))

    # ---- who asks ----
    @asynccontextmanager
    async def _authorized(self, request: Request, kind: Kind = "analyst") -> AsyncIterator[Token]:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else ""
        token = await run_in_threadpool(self._service.token, given, kind)
        request.state.token = token
        with self._meter.one(token.id):
            yield token

    async def _body(self, request: Request, names: frozenset[str]) -> tuple[dict[str, Any], str]:
        limits = self._service.limits
        most = limits.body_bytes
        if (
            request.headers.get("content-length", "0").isdigit()
            and int(request.headers.get("content-length", "0")) > most
        ):
            raise too_large(f"A request may have {most} bytes")
        try:
            async with asyncio.timeout(limits.body_seconds):
                parts, size = [], 0
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large(f"A request may have {most} bytes")
                    parts.append(part)
        except TimeoutError:
            raise malformed("The request did not arrive in time.") from None
        return await run_in_threadpool(read_body, b"".join(parts), limits, names)

    # ---- analysts ----
    async def _terms(self, request: Request) -> Response:
        async with self._authorized(request) as token:
            return _json(encoded(await run_in_threadpool(self._service.terms, token)))

    async def _runs(self, request: Request) -> Response:
        async with self._authorized(request) as token:
            return _json(encoded(await run_in_threadpool(self._service.runs, token)))

    async def _begin(self, request: Request) -> Response:
        async with self._authorized(request) as token:
            key = read_key(request.headers.get("idempotency-key"))
            body, digest = await self._body(request, RUN_FIELDS)
            return _json(await run_in_threadpool(self._service.begin, token, key, body, digest), status=201)

    async def _transcript(self, request: Request) -> Response:
        async with self._authorized(request) as token:
            return _json(await run_in_threadpool(self._service.transcript, token, _run_name(request)))

    async def _answer(self, request: Request) -> Response:
        async with self._authorized(request) as token:
            key = read_key(request.headers.get("idempotency-key"))
            run = await run_in_threadpool(self._service.run, token, _run_name(request))
            body, digest = await self._body(request, ANSWER_FIELDS)
            question = await run_in_threadpool(self._service.read_question, body)
            seconds = self._service.offer.seconds(question.query)
            async with self._alone(run.name):
                leaves = time.monotonic() + seconds
                asked = Asked(token, run, key, digest, question, time.time() + seconds)
                try:
                    reply = _json(await run_in_threadpool(self._service.answer, asked))
                except Refusal as refusal:
                    # Of those that need no records, all leave at once; of the others, and of answers, none does.
                    if refusal.status != 503:
                        raise
                    await _until(leaves)
                    raise
                await _until(leaves)
                return reply

    @asynccontextmanager
    async def _alone(self, run: str) -> AsyncIterator[None]:
        """While nobody else answers a question of this run, in any worker; a lock that dies with its holder."""
        end = time.monotonic() + self._service.limits.lock_seconds
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(exclusive(self._service.store.locks / run))
                    break
                except FileInUseError:
                    if time.monotonic() > end:
                        raise unavailable() from None
                await asyncio.sleep(_POLL)
            yield

    # ---- operators ----
    async def _health(self, request: Request) -> Response:
        await run_in_threadpool(self._service.store.tokens)
        await run_in_threadpool(lambda: self._service.offer.ledger.identifier)
        return _json(encoded({"status": "ok"}))

    async def _metrics(self, request: Request) -> Response:
        async with self._authorized(request, "operator"):
            lines = ["# HELP recoup_requests_total Requests to this worker.", "# TYPE recoup_requests_total counter"]
            for (route, status_code), count in sorted(self._counts.items()):
                lines.append(f'recoup_requests_total{{route="{route}",status="{status_code}"}} {count}')
            return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4", headers=_HEADERS)

    async def _status(self, request: Request) -> Response:
        async with self._authorized(request, "operator"):
            return _json(encoded(await run_in_threadpool(status, self._service)))

    async def _operator_page(self, request: Request) -> Response:
        return _page(pages.operator())

    async def _analyst_page(self, request: Request) -> Response:
        return _page(pages.analyst())


async def _until(moment: float) -> None:
    if (rest := moment - time.monotonic()) > 0:
        await asyncio.sleep(rest)


def _run_name(request: Request) -> str:
    name = str(request.path_params["run"])
    if not _RUN_NAME.fullmatch(name):
        raise unknown_run()
    return name


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers=_HEADERS)


def _page(page: pages.Page) -> Response:
    headers = _HEADERS | {"content-security-policy": page.policy, "referrer-policy": "no-referrer"}
    return Response(page.text, media_type="text/html", headers=headers)


def _refused(refusal: Refusal) -> Response:
    headers = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
    return Response(refusal.body(), refusal.status, _HEADERS | headers, "application/json")
