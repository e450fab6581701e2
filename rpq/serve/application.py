"""The application: requests to jobs, what comes of them to responses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from rpq.errors import RpqError
from rpq.queries.query import Query
from rpq.serve import answer_formats
from rpq.serve.asked_queries import language_told, query_told
from rpq.serve.change_hub import Follower, Place
from rpq.serve.engine_jobs import NoSuchQuery, ServiceFailed
from rpq.serve.followed_changes import FollowedChanges, event_text, left
from rpq.serve.guards import Admission, Guarded
from rpq.serve.json_values import json_text, json_value
from rpq.serve.openapi_text import openapi
from rpq.serve.playback import Playback
from rpq.serve.posted_tuples import TYPES, read_posted
from rpq.serve.problems import Problem, problem_of
from rpq.serve.query_checks import QueryChecks
from rpq.serve.ready_kernels import ReadyKernels
from rpq.serve.service import Service
from rpq.serve.serving_figures import ServingFigures
from rpq.serve.told_witness import vertex_of, witness_told

Result = TypeVar("Result")
LOG = logging.getLogger("rpq.serve")

SMALL_BODY = 1 << 12
"""Bytes of a body that is read right away; larger ones in another thread."""

BODY_SECONDS = 120.0
"""So long a body may be on its way."""

_METHODS = ("GET", "HEAD", "DELETE", "POST", "PUT", "PATCH", "OPTIONS", "TRACE", "QUERY")

DEFAULT_ANSWERS, MOST_ANSWERS = 1000, 1_000_000


class _Text(PathConvertor):
    """Any text: a name may have line ends."""

    regex = r"[\s\S]*"


register_url_convertor("text", _Text())


class Application:
    """The routes over a service; `playback` where there is a file that is played."""

    def __init__(
        self,
        service: Service,
        *,
        admission: Admission,
        playback: Playback | None = None,
        kernels: ReadyKernels | None = None,
        checks: QueryChecks | None = None,
    ) -> None:
        self.service = service
        self._checks = QueryChecks() if checks is None else checks
        self._has_own_checks = checks is None
        self._kernels = ReadyKernels() if kernels is None else kernels
        self.playback = playback
        self.figures = ServingFigures(service)
        self._waiting_bytes = 0
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rpq-read")
        self._encoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-encode")
        self._compiler = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-compile")
        self._openapi = json_text(openapi(service.limits))
        page = files("rpq.serve") / "page"
        routes: list[BaseRoute] = [
            Route("/tuples", self._answering(self.post_tuples), methods=["POST"]),
            Route("/queries", self._answering(self.queries), methods=["GET", "POST"]),
            Route("/queries/{rest:text}", self._answering(self.of_query), methods=[*_METHODS]),
            Route("/check", self._answering(self.check), methods=["POST"]),
            Route("/changes", self.changes, methods=["GET"]),
            Route("/statistics", self._answering(self.statistics), methods=["GET"]),
            Route("/playback", self._answering(self.play), methods=["GET", "POST"]),
            Route("/healthz", self._answering(self.healthz), methods=["GET"]),
            Route("/readyz", self._answering(self.readyz), methods=["GET"]),
            Route("/metrics", self._answering(self.metrics), methods=["GET"]),
            Route("/openapi.json", self._answering(self.openapi_json), methods=["GET"]),
            Route("/", self._answering(self.index), methods=["GET"]),
        ]
        if page.is_dir():
            routes.append(Mount("/page", StaticFiles(directory=str(page)), name="page"))
        handlers = {HTTPException: _http_problem, 404: _http_problem, 405: _http_problem}
        self._page = page
        self._starlette = Starlette(routes=routes, exception_handlers=handlers)
        self._starlette.router.redirect_slashes = False
        self.asgi: ASGIApp = Guarded(self._starlette, admission)

    def close(self) -> None:
        """Let its threads end."""
        self._readers.shutdown(wait=False)
        self._encoder.shutdown(wait=False)
        self._compiler.shutdown(wait=False, cancel_futures=True)
        if self._has_own_checks:
            self._checks.close()

    def _answering(self, handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except Problem as problem:
                return refused(problem)
            except ClientDisconnect:
                return Response(status_code=400)
            except HTTPException:
                raise
            except Exception as error:
                if not isinstance(error, (RpqError, ValueError, OSError)):
                    LOG.exception("%s %s failed", request.method, request.url.path)
                return refused(problem_of(error))

        return answer

    # --- tuples ----------------------------------------------------------------------------------------------

    async def post_tuples(self, request: Request) -> Response:
        arrived = time.monotonic()
        self._see_that_it_works()
        type_ = _content_type(request)
        if type_ not in TYPES:
            expected = ", ".join(TYPES)
            raise Problem(415, "TypeRefused", f"tuples are not read from {type_ or 'no content type'}; expected {expected}")
        stream = request.query_params.get("stream")
        _known_parameters(request, "stream")
        async with self._body(request) as body:
            unit = self.service.defaults.time_unit
            if len(body) <= SMALL_BODY:
                columns, warnings = read_posted(body, type_, stream=stream, time_unit=unit)
            else:
                loop = asyncio.get_running_loop()
                columns, warnings = await loop.run_in_executor(
                    self._readers, lambda: read_posted(body, type_, stream=stream, time_unit=unit)
                )
            if columns is None:
                time_now, position = await self.service.call(lambda: (self.service.engine.time, self.service.position))
                return told({"tuples": 0, "late": 0, "time": json_value(time_now), "position": position})
            applied = await self.service.push(columns, arrived=arrived)
        content: dict[str, Any] = {
            "tuples": applied.tuples,
            "late": applied.late,
            "time": json_value(applied.time),
            "position": applied.position,
        }
        if applied.warnings or warnings:
            content["warnings"] = [*warnings, *applied.warnings]
        return told(content)

    def _see_that_it_works(self) -> None:
        if self.service.failure is not None:
            raise problem_of(ServiceFailed(self.service.failure))
        if self.service.is_stopping:
            raise Problem(503, "Stopping", "the server is stopping", None, {"Retry-After": "5"})
        if not self.service.is_alive:
            raise problem_of(ServiceFailed("the engine's thread has ended; the server has to be started anew"))

    @contextlib.asynccontextmanager
    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which must not be too large, nor compressed; it counts as waiting as long as it is held."""
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity"):
            raise Problem(415, "CodingRefused", f"bodies are not read in the coding {coding}; send them as they are")
        limits = self.service.limits
        too_large = Problem(413, "BodyTooLarge", f"the body has more than {limits.body_bytes:,} bytes; send it in parts")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limits.body_bytes:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS), asyncio.timeout(limits.request_seconds) as pause:
                    async for part in request.stream():
                        pause.reschedule(asyncio.get_running_loop().time() + limits.request_seconds)
                        parts.append(part)
                        size += len(part)
                        self._waiting_bytes += len(part)
                        if size > limits.body_bytes:
                            raise too_large
                        if self._waiting_bytes > limits.waiting_bytes:
                            message = "more tuples wait for the engine than may; send these again"
                            raise Problem(503, "TooMuchWaits", message, None, {"Retry-After": "1"})
            except TimeoutError:
                seconds = f"{BODY_SECONDS:.0f} seconds, or no part of it came in {limits.request_seconds:g}"
                message = f"the body was not there after {seconds}"
                raise Problem(408, "BodyTooSlow", message, None, {"Connection": "close"}) from None
            yield b"".join(parts)
        finally:
            self._waiting_bytes -= size

    async def _json(self, request: Request) -> Any:
        type_ = _content_type(request)
        if type_ != "application/json":
            raise Problem(415, "TypeRefused", f"expected application/json, not {type_ or 'no content type'}")
        async with self._body(request) as body:
            try:
                return json.loads(body, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                raise Problem(400, "NoJson", f"the body is no JSON: {error}") from error

    # --- queries ---------------------------------------------------------------------------------------------

    async def queries(self, request: Request) -> Response:
        _known_parameters(request)
        if request.method != "POST":
            return told({"queries": await self.figures.queries()})
        self._see_that_it_works()
        fields = await self._json(request)
        service = self.service
        query = await unless_gone(request, self._checks.compiled(fields, service.defaults, service.limits))
        start = fields.get("start") or "window"
        try:
            await self._see_to_kernels(query)
            answers = await self.service.call(
                lambda: self.service.register(fields, query, start=start), writes=True
            )
        except RpqError as error:
            raise problem_of(error, query.expression) from error
        return told(query_told(query, answers=answers), 201)

    async def _see_to_kernels(self, query: Query, *, witness: bool = False) -> None:
        """Let the engine find what it needs for a query: others should not wait until that is compiled."""
        integers = self.service.has_integers
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            self._compiler, lambda: self._kernels.see_to(query, integers=integers, witness=witness)
        )

    async def of_query(self, request: Request) -> Response:
        """What stands below `/queries/`: a name, in which a slash is written as %2F, and what is asked of it."""
        name, what = _name_and_what(request.scope)
        actions: dict[str, Callable[[Request, str], Awaitable[Response]]] = {
            "answers": self.answers,
            "witness": self.witness,
            "explain": self.explain,
        }
        allowed = ("GET", "HEAD", "DELETE") if what is None else ("GET", "HEAD")
        if request.method not in allowed:
            raise Problem(405, "MethodRefused", f"not with {request.method}", None, {"Allow": ", ".join(allowed)})
        if what is None:
            if request.method == "DELETE":
                self._see_that_it_works()
                _known_parameters(request)
                await self.service.call(lambda: self.service.drop(name), writes=True)
                return Response(status_code=204)
            _known_parameters(request)
            return told(await self.service.call(lambda: self._told(name)))
        if what not in actions:
            raise Problem(404, "NoSuchPath", f"there is no {what!r} of a query; expected {', '.join(actions)}")
        return await actions[what](request, name)

    def _told(self, name: str) -> dict[str, Any]:
        query = self.service.see_that_there_is(name)
        return query_told(query, answers=self.service.engine.statistics(name).answers_live)

    async def answers(self, request: Request, name: str) -> Response:
        _known_parameters(request, "limit", "format")
        limit = _whole_number(request, "limit", DEFAULT_ANSWERS, most=MOST_ANSWERS)
        format = request.query_params.get("format", "json")
        if format not in answer_formats.FORMATS:
            known = ", ".join(answer_formats.FORMATS)
            raise Problem(422, "BadParameter", f"format: expected one of {known}, not {format!r}", {"field": "format"})

        def read() -> answer_formats.AnswersRead:
            query = self.service.see_that_there_is(name)
            answers = self.service.engine.answers(name)
            return answer_formats.AnswersRead(
                columns=tuple(query.columns),
                answers=answers,
                limit=limit,
                time=self.service.engine.time,
                position=self.service.position,
            )

        found = await self.service.call(read)
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(self._readers, answer_formats.FORMATS[format].write, found)
        headers = {"X-Rpq-Total": str(len(found.answers)), "X-Rpq-Position": str(found.position)}
        return Response(body, media_type=answer_formats.FORMATS[format].media_type, headers=headers)

    async def witness(self, request: Request, name: str) -> Response:
        _known_parameters(request, "value")
        values = request.query_params.getlist("value")

        query = await self.service.call(lambda: self.service.see_that_there_is(name))
        if language_told(query) == "path":
            await self._see_to_kernels(query, witness=True)

        def find() -> dict[str, Any]:
            query = self.service.see_that_there_is(name)
            if len(values) != len(query.columns):
                columns = ", ".join(query.columns) or "no columns"
                message = f"value: an answer has the values of {columns}, {len(query.columns)} and not {len(values)}"
                raise Problem(422, "BadParameter", message, {"field": "value"})
            engine = self.service.engine
            answer = [vertex_of(value, is_integer=self.service.has_integers) for value in values]
            found = engine.witness(*answer, query=name)
            if found is None:
                raise Problem(404, "NoAnswer", f"({', '.join(values)}) is no answer of {name!r} now")
            return {**witness_told(found), "time": json_value(engine.time), "position": self.service.position}

        return told(await self.service.call(find))

    async def explain(self, request: Request, name: str) -> Response:
        _known_parameters(request)

        def find() -> tuple[Any, str | None]:
            query = self.service.see_that_there_is(name)
            running = None if language_told(query) == "path" else str(self.service.engine.explain(name))
            return query, running

        query, running = await self.service.call(find)
        about = await unless_gone(request, self._checks.explained(query, running, self.service.limits))
        return told(about._asdict())

    async def check(self, request: Request) -> Response:
        _known_parameters(request)
        fields = await self._json(request)
        service = self.service
        return told(await unless_gone(request, self._checks.checked(fields, service.defaults, service.limits)))

    # --- changes ---------------------------------------------------------------------------------------------

    async def changes(self, request: Request) -> ASGIApp:
        try:
            return await self._follow(request)
        except Problem as problem:
            return refused(problem)
        except RpqError as error:
            return refused(problem_of(error))

    async def _follow(self, request: Request) -> ASGIApp:
        _known_parameters(request, "query", "after")
        hub, limits = self.service.hub, self.service.limits
        wanted = frozenset(request.query_params.getlist("query")) or None
        text = request.headers.get("last-event-id") or request.query_params.get("after")
        after = None if text is None else Place.of(text)
        if text is not None and after is None:
            raise Problem(422, "BadParameter", f"after: {text!r} is no position, nor the id of an event", {"field": "after"})
        if len(hub.followers) >= limits.followers:
            raise Problem(
                429, "TooManyFollowers", f"{limits.followers:,} follow already, as many as may", None, {"Retry-After": "5"}
            )

        def see() -> Any:
            for name in wanted or ():
                self.service.see_that_there_is(name)
            return self.service.engine.time

        now = await self.service.call(see, even_if_failed=True)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        begin = event_text(
            "start", {"position": hub.position, "time": json_value(now)}, id=None if after else f"{hub.position}-{hub.run}"
        )

        def follow() -> Follower:
            return hub.follow(wanted, after)

        return FollowedChanges(hub, follow, self._encoder, begin)

    # --- the server itself -----------------------------------------------------------------------------------

    async def statistics(self, request: Request) -> Response:
        _known_parameters(request)
        return told(await self.figures.statistics())

    async def play(self, request: Request) -> Response:
        _known_parameters(request)
        if self.playback is None:
            raise Problem(404, "NoPlayback", "no file is played: start the server with --input FILE")
        if request.method == "POST":
            fields = await self._json(request)
            try:
                self.playback.change(fields)
            except ValueError as error:
                raise Problem(422, "BadPlayback", str(error)) from error
        return told(self.playback.told())

    async def healthz(self, request: Request) -> Response:
        if not self.service.is_alive and not self.service.is_stopping:
            raise Problem(503, "ServiceFailed", self.service.failure or "the engine's thread has ended")
        return told({"status": "alive"})

    async def readyz(self, request: Request) -> Response:
        self._see_that_it_works()
        for outage in (self.service.outage, self.service.checkpoint_outage):
            if outage is not None:
                headers = {"Retry-After": str(outage.retry_after)}
                raise Problem(503, "StorageUnavailable", outage.reason, None, headers)
        return told({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        _known_parameters(request)
        body, type_ = await self.figures.metrics()
        return Response(body, headers={"Content-Type": type_})

    async def openapi_json(self, request: Request) -> Response:
        return Response(self._openapi, media_type="application/json")

    async def index(self, request: Request) -> Response:
        page = self._page / "index.html"
        if not page.is_file():
            return HTMLResponse(
                "<!doctype html><title>rpq serve</title><p>This installation has no page. What the server does is told in "
                '<a href="/openapi.json">/openapi.json</a>.',
                status_code=200,
            )
        return HTMLResponse(page.read_text(encoding="utf-8"), headers={"Cache-Control": "no-cache"})


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what work gives; cancel it, and raise `ClientDisconnect`, when the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(left(request.receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def told(content: Any, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(json_text(content), status_code=status, media_type="application/json")


def refused(problem: Problem) -> Response:
    """A response that tells what is wrong."""
    response = told(problem.content(), problem.status)
    response.headers.update(problem.headers or {})
    return response


async def _http_problem(request: Request, error: Exception) -> Response:
    """What the routes do not know."""
    status = getattr(error, "status_code", 500)
    kinds = {404: ("NoSuchPath", f"there is nothing at {request.url.path}"), 405: ("MethodRefused", "not with this method")}
    type_, message = kinds.get(status, ("HttpError", getattr(error, "detail", "")))
    return refused(Problem(status, type_, f"{request.method}: {message}", None, getattr(error, "headers", None)))


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _known_parameters(request: Request, *known: str) -> None:
    """Refuse parameters that nobody looks at."""
    for name in request.query_params:
        if name not in known:
            expected = f"expected {', '.join(known)}" if known else "there are none here"
            raise Problem(422, "BadParameter", f"{name!r} is no parameter: {expected}", {"field": name})


def _whole_number(request: Request, name: str, default: int, *, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) > most:
        raise Problem(422, "BadParameter", f"{name}: expected a whole number from 0 to {most:,}", {"field": name})
    return int(text)


def _name_and_what(scope: Scope) -> tuple[str, str | None]:
    """The name of a query and what is asked of it, from the path as it was sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    root = scope.get("root_path", "").encode()
    parts = raw.partition(b"?")[0].removeprefix(root).split(b"/")[2:]
    try:
        words = [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise NoSuchQuery("the name of a query is text in UTF-8") from None
    if not words or not words[0] or len(words) > 2:
        raise NoSuchQuery("expected /queries/NAME or /queries/NAME/WHAT, with each / of the name written as %2F")
    return words[0], words[1] if len(words) > 1 else None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


