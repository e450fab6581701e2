"""The web application: its handlers turn requests into jobs of the engine, and their results into responses."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Collection, Coroutine, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from msgspec import UNSET, Raw
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from rpq.engine.warmup import warm_up
from rpq.errors import RpqError
from rpq.language.kinds import kernels_of
from rpq.language.query import Query
from rpq.language.sparql.query import SparqlQuery
from rpq.readers.rdf.rdf_syntax import SYNTAX_OF_TYPE
from rpq.rows.table_formats import MessageTemplate
from rpq.rows.typed_columns import kinds_of
from rpq.serve import models
from rpq.serve.changes import ChangePosition, FollowedChanges, RowText, encode_rows, event_text, wait_for_disconnect
from rpq.serve.feeds import Playback
from rpq.serve.logs import RequestIds, audit
from rpq.serve.models import json_text, json_value
from rpq.serve.operations import ROLES_KEY, TEXT, Admission, GuardedApplication, Operation, OperationTable
from rpq.serve.query_checks import QueryChecks
from rpq.serve.requests import (
    ARROW,
    KEY_HEADER,
    MAX_KEY,
    NODE_SCHEMAS,
    NODE_TYPES,
    TUPLE_SCHEMAS,
    TUPLE_TYPES,
    PostKey,
    Problem,
    RequestBodies,
    ServiceFailed,
    content_type,
    describe_query,
    json_response,
    problem_of,
    problem_response,
    read_node_body,
    read_tuple_body,
)
from rpq.serve.responses import FORMATS, AnswersRead, ServingFigures, edges_of, vertex_of, witness_model
from rpq.serve.service import Service
from rpq.stream.gc_pause import gc_paused

Result = TypeVar("Result")
LOG = logging.getLogger("rpq.serve")

MAX_NULLS = 256
"""The maximum number of ways in which the empty values of an answer are read as nulls."""

MAX_MESSAGE = 1000
"""The maximum length of the text that a follower requests for each row."""

MAX_ASKED = 1000
"""The number of searches whose expressions are known to compile within the limit."""

BUSY_SECONDS = 10.0
"""Seconds for which the engine may be busy with one step before the server is no longer ready."""

SMALL_BODY = 1 << 12
"""The size in bytes up to which JSON and CSV are parsed at once; other bodies are parsed in another thread."""

if TYPE_CHECKING:
    from rpq.rows.changes import Changes

AUDITED = {"POST /queries": "register", "DELETE /queries/{name}": "drop"}
"""The operations that the log has with the roles of their clients."""

KEY_PARAMETER: models.Json = {
    "name": KEY_HEADER,
    "in": "header",
    "description": "A text that no other post has, so that this one is applied once, however often it is sent.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
}

OPERATIONS = OperationTable()
operation = OPERATIONS.add


class Application:
    """The routes of a service; `playback` is None unless the input is files, and `backups` is the folder for backups."""

    def __init__(
        self,
        service: Service,
        *,
        admission: Admission,
        playback: Playback | None = None,
        kernels: KernelCompiler | None = None,
        checks: QueryChecks | None = None,
        backups: str | None = None,
    ) -> None:
        self.service = service
        self._backups = backups
        self._checks = QueryChecks() if checks is None else checks
        self._has_own_checks = checks is None
        self._kernels = KernelCompiler() if kernels is None else kernels
        self._asked: dict[Any, dict[str, Any]] = {}  # the options of searches whose expressions were compiled
        self.playback = playback
        self.figures = ServingFigures(service)
        self.bodies = RequestBodies(service.limits)
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rpq-read")
        self._encoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-encode")
        self._compiler = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-compile")
        page = files("rpq.serve") / "page"
        routes: list[BaseRoute] = [*OPERATIONS.routes(self._answer)]
        if page.is_dir():
            routes.append(Mount("/page", StaticFiles(directory=str(page)), name="page"))
        self._page = page
        self._starlette = Starlette(routes=routes, exception_handlers={HTTPException: _http_problem})
        self._starlette.router.redirect_slashes = False
        self.guard = GuardedApplication(self._route_by_raw_path, admission)
        self.asgi: ASGIApp = RequestIds(self.guard)

    def close(self) -> None:
        """Shut down the threads of the application."""
        self._readers.shutdown(wait=False)
        self._encoder.shutdown(wait=False)
        self._compiler.shutdown(wait=False, cancel_futures=True)
        if self._has_own_checks:
            self._checks.close()

    @cached_property
    def _document(self) -> bytes:
        """The content of `/openapi.json`."""
        return json_text(OPERATIONS.document(self.service.limits))

    async def _route_by_raw_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route by the path as it was sent, since a name may contain a slash, written as %2F."""
        if scope["type"] == "http" and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].partition(b"?")[0].decode("latin-1")}
        await self._starlette(scope, receive, send)

    async def _answer(self, operation: Operation, request: Request) -> ASGIApp:
        outcome = "unknown: the client has disconnected"
        try:
            response = await operation.handler(self, *operation.arguments(request))
            outcome = "done"
            return response
        except ClientDisconnect:
            return Response(status_code=400)
        except HTTPException:
            raise
        except Exception as error:
            problem = problem_of(error)
            outcome = f"{problem.status} {problem.type}"
            if problem.status == 500 and not isinstance(error, RpqError):
                LOG.exception("%s %s failed", request.method, request.url.path)
            return problem_response(problem)
        finally:
            if (action := AUDITED.get(f"{operation.method} {operation.path}")) is not None:
                roles = ",".join(sorted(request.scope.get(ROLES_KEY, ())))
                by = f"a token for {roles}" if self.guard.admission.tokens else "anyone"
                query = getattr(request.state, "query", None) or unquote(request.path_params.get("name", "")) or None
                audit(action, query, by=by, outcome=outcome)

    # --- tuples ----------------------------------------------------------------------------------------------

    @operation(
        "POST /tuples",
        "Apply tuples in the order of the body.",
        role="write",
        description="When the response arrives, the tuples have been applied and, if the server has a checkpoint, are on "
        "disk. If a body is invalid, none of its tuples is applied. A body has at most {limits.body_bytes:,} bytes.",
        parameters=models.PostedStream,
        more_parameters=(KEY_PARAMETER,),
        takes=TUPLE_SCHEMAS,
        gives=models.Applied,
        refusals=(507,),
    )
    async def post_tuples(self, request: Request, parameters: models.PostedStream) -> Response:
        arrived = time.monotonic()
        self._check_service()
        type_ = _content_type_among(request, TUPLE_TYPES, "tuples")
        stream = parameters.stream
        async with self.bodies.read(request) as body:
            key = PostKey.of(request, body)
            unit = self.service.defaults.time_unit
            read = partial(read_tuple_body, stream=stream, time_unit=unit, further=self.service.further_columns)
            read = partial(read, documents=self.service.documents, timestamp=parameters.timestamp)
            read = partial(read, rules=self.service.rules, names=self.service.names)
            read = partial(read, renamed=parameters.columns, label=parameters.label)
            read = partial(read, key=key, most_bytes=self.service.limits.waiting_bytes)
            if len(body) <= SMALL_BODY and type_ not in (*ARROW, *SYNTAX_OF_TYPE):  # which can expand
                columns, warnings, size = read(body, type_)
            else:
                loop = asyncio.get_running_loop()
                columns, warnings, size = await loop.run_in_executor(self._readers, lambda: read(body, type_))
            if columns is None:
                time_now, position = await self.service.call(lambda: (self.service.engine.time, self.service.position))
                return json_response(models.Applied(tuples=0, late=0, time=json_value(time_now), position=position))
            with self.bodies.hold(size):
                applied = await self.service.push(columns, arrived=arrived, key=key)
        return json_response(
            models.Applied(
                tuples=applied.tuples,
                late=applied.late,
                time=json_value(applied.time),
                position=applied.position,
                warnings=[*warnings, *applied.warnings] or UNSET,
            )
        )

    @operation(
        "POST /nodes",
        "Apply records of nodes, with their labels and properties, in the order of the body.",
        role="write",
        description="An object names only its keys: + (the default op) adds labels and sets properties, of which null takes "
        "one away, = takes all other facts away, and - all. If a body is invalid, none of its records is applied.",
        more_parameters=(KEY_PARAMETER,),
        takes=NODE_SCHEMAS,
        gives=models.AppliedNodes,
        refusals=(507,),
    )
    async def post_nodes(self, request: Request) -> Response:
        arrived = time.monotonic()
        self._check_service()
        type_ = _content_type_among(request, NODE_TYPES, "nodes")
        service = self.service
        async with self.bodies.read(request) as body:
            key = PostKey.of(request, body)
            read = partial(read_node_body, body, type_, time_unit=service.defaults.time_unit, names=service.names)
            read = partial(read, most_bytes=service.limits.waiting_bytes)
            columns, _, size = await asyncio.get_running_loop().run_in_executor(self._readers, read)
            if columns is None:
                time_now, position = await service.call(lambda: (service.engine.time, service.position))
                return json_response(models.AppliedNodes(records=0, time=json_value(time_now), position=position))
            with self.bodies.hold(size):
                applied = await service.push(service.with_vertices(columns), arrived=arrived, key=key)
        return json_response(
            models.AppliedNodes(records=applied.tuples, time=json_value(applied.time), position=applied.position)
        )

    @operation("GET /nodes/{name}", "Return the facts of a node.", gives=models.Node)
    async def get_node(self, request: Request, name: str) -> Response:
        def find() -> models.Node:
            self.service.require_engine()
            engine = self.service.engine
            node = engine.node(vertex_of(name, is_integer=self.service.has_integers))
            if node is None:
                raise Problem(404, "NoSuchNode", f"there is no record of a node {name!r}")
            return models.Node(
                name=json_value(node.name),
                labels=list(node.labels),
                properties={one: json_value(value) for one, value in node.properties.items()},
                time=json_value(engine.time),
                position=self.service.position,
            )

        return json_response(await self.service.call(find))

    def _check_service(self) -> None:
        if self.service.failure is not None:
            raise problem_of(ServiceFailed(self.service.failure))
        if self.service.is_stopping:
            raise Problem(503, "Stopping", "the server is stopping", None, {"Retry-After": "5"})
        if not self.service.is_alive:
            raise problem_of(ServiceFailed("the engine's thread has ended; restart the server"))

    # --- queries ---------------------------------------------------------------------------------------------

    @operation("GET /queries", "List all queries.", gives=models.Queries)
    async def list_queries(self, request: Request) -> Response:
        return json_response(await self.figures.queries())

    @operation(
        "POST /queries",
        "Register a query.",
        role="register",
        description="At most {limits.queries:,} queries can be registered.",
        takes=models.QueryRequest,
        gives=models.Query,
        status=201,
        refusals=(409, 429, 507),
    )
    async def register_query(self, request: Request) -> Response:
        self._check_service()
        fields = await self.bodies.json(request)
        service = self.service
        query = await ignore_disconnect(request, self._checks.compile(fields, service.defaults, service.limits))
        request.state.query = query.name
        service.defaults.check_budget(query)
        start = fields.get("start") or "window"
        try:
            await self._compile_kernels(query)
            answers = await self.service.call(
                lambda: self.service.register(fields, query, start=start), writes=True
            )
        except RpqError as error:
            raise problem_of(error, query.expression) from error
        return json_response(describe_query(query, answers=answers), 201)

    async def _compile_kernels(self, query: Query, *, witness: bool = False) -> None:
        """Compile the kernels of a query outside the engine's thread, so that other requests do not wait."""
        integers = self.service.has_integers
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            self._compiler, lambda: self._kernels.compile(query, integers=integers, witness=witness)
        )

    @operation("GET /queries/{name}", "Describe a query.", gives=models.Query)
    async def get_query(self, request: Request, name: str) -> Response:
        return json_response(await self.service.call(lambda: self._describe(name)))

    @operation("DELETE /queries/{name}", "Drop a query.", status=204, role="register", refusals=(507,))
    async def drop_query(self, request: Request, name: str) -> Response:
        self._check_service()
        await self.service.drop_at_once(name)
        return Response(status_code=204)

    def _describe(self, name: str) -> models.Query:
        query = self.service.find_query(name)
        return describe_query(query, answers=self.service.engine.statistics(name).answers_live)

    @operation(
        "GET /queries/{name}/answers",
        "Return current answers of a query.",
        description="Each response is exact at its position. If all answers are read in parts, with the `cursor` of each "
        "response as `after` of the next, an answer that holds meanwhile is in exactly one of them.",
        parameters=models.AnswersParameters,
        gives={"application/json": models.Answers, "text/csv": TEXT, "application/vnd.apache.arrow.stream": {}},
        headers={
            "X-Rpq-Total": {"description": "The number of answers.", "schema": {"type": "integer", "minimum": 0}},
            "X-Rpq-Position": {"description": "The position of the answers.", "schema": {"type": "integer", "minimum": 0}},
            "X-Rpq-Cursor": {"description": "The place of the next answers, if any.", "schema": {"type": "string"}},
        },
    )
    async def get_answers(self, request: Request, name: str, parameters: models.AnswersParameters) -> Response:
        format = FORMATS[parameters.format]

        def read() -> AnswersRead:
            query = self.service.find_query(name)
            engine, after = self.service.engine, parameters.after
            source, target = (
                None if end is None else vertex_of(end, is_integer=self.service.has_integers)
                for end in (parameters.source, parameters.target)
            )
            answers = engine.answers(name, source=source, target=target, limit=parameters.limit, after=after)
            is_whole = (source, target, after, answers.cursor) == (None, None, None, None)
            return AnswersRead(
                columns=tuple(query.columns),
                answers=answers,
                total=len(answers) if is_whole else engine.statistics(name).answers_live,
                time=engine.time,
                position=self.service.position,
            )

        found = await self.service.call(read)
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(self._readers, format.write, found)
        headers = {f"X-Rpq-{name.capitalize()}": value for name, value in found.about.items()}
        return Response(body, media_type=format.media_type, headers=headers)

    @operation(
        "GET /queries/{name}/witness",
        "Return the edges behind an answer: those of a path, or those that match the atoms of a pattern or of MATCH.",
        parameters=models.WitnessParameters,
        gives=models.Witness,
    )
    async def get_witness(self, request: Request, name: str, parameters: models.WitnessParameters) -> Response:
        values = parameters.value
        query = await self.service.call(lambda: self.service.find_query(name))
        if query.notation == "path":
            await self._compile_kernels(query, witness=True)

        def find() -> models.Witness:
            query = self.service.find_query(name)
            if len(values) != len(query.columns):
                columns = ", ".join(query.columns) or "no columns"
                message = f"value: an answer has the values of {columns}, {len(query.columns)} and not {len(values)}"
                raise Problem(422, "BadParameter", message, {"field": "value"})
            engine = self.service.engine
            answer = [
                vertex_of(value, is_integer=self.service.has_integers) if kind == "vertex" else value
                for kind, value in zip(kinds_of(query.columns), values, strict=True)
            ]
            possible = (engine.witness(*one, query=name) for one in _with_nulls(answer))
            found = next((one for one in possible if one is not None), None)
            if found is None:
                raise Problem(404, "NoAnswer", f"({', '.join(values)}) is not a current answer of {name!r}")
            return witness_model(found, time=engine.time, position=self.service.position)

        return json_response(await self.service.call(find))

    @operation("GET /queries/{name}/explain", "Explain what a query means and how it is evaluated.", gives=models.Explained)
    async def explain_query(self, request: Request, name: str) -> Response:
        def find() -> tuple[Any, str | None]:
            query = self.service.find_query(name)
            running = None if query.notation == "path" else str(self.service.engine.explain(name))
            return query, running

        query, running = await self.service.call(find)
        about = await ignore_disconnect(request, self._checks.explain(query, running, self.service.limits))
        return json_response(about)

    @operation(
        "POST /check",
        "Check a query without registering it.",
        role="register",
        takes=models.QueryRequest,
        gives=models.Understood,
    )
    async def check_query(self, request: Request) -> Response:
        fields = await self.bodies.json(request)
        service = self.service
        return json_response(await ignore_disconnect(request, self._checks.check(fields, service.defaults, service.limits)))

    # --- paths that are found once ---------------------------------------------------------------------------

    @operation(
        "POST /find",
        "Find the pairs that a path expression has now, from some sources, to some targets, or both.",
        description="The pairs are those of a query with this expression, by a search for this request alone.",
        takes=models.FindRequest,
        gives=models.Found,
        refusals=(409,),
    )
    async def find(self, request: Request) -> Response:
        asked: Any = models.read_model(await self.bodies.json(request), models.FindRequest)
        options = await self._search_options(request, asked)

        def search() -> models.Found:
            self.service.require_engine()
            engine = self.service.engine
            found = engine.find(
                asked.expression,
                source=self._names(asked.source),
                target=self._names(asked.target),
                limit=asked.limit,
                witness=asked.witness,
                **options,
            )
            return models.Found(
                pairs=[list(pair) for pair in found],
                is_cut=found.is_cut,
                time=json_value(engine.time),
                position=self.service.position,
                paths=UNSET if found.paths is None else [edges_of(path) for path in found.paths],
            )

        return json_response(await self.service.call(search))

    @operation(
        "GET /check",
        "Return a path that a path expression has now between two vertices, or null.",
        parameters=models.CheckParameters,
        gives=models.Checked,
        refusals=(409,),
    )
    async def find_path(self, request: Request, parameters: Any) -> Response:
        options = await self._search_options(request, parameters)

        def search() -> models.Checked:
            self.service.require_engine()
            engine = self.service.engine
            source, target = (self._names(end) for end in (parameters.source, parameters.target))
            path = engine.check(parameters.expression, source, target, **options)
            return models.Checked(
                path=None if path is None else edges_of(path), time=json_value(engine.time), position=self.service.position
            )

        return json_response(await self.service.call(search))

    async def _search_options(self, request: Request, asked: Any) -> dict[str, Any]:
        """Return the options of a search; an expression that is new is compiled in another process, within a time limit."""
        named = ("window", "slide", "order", "max_gap", "max_span")
        given = {name: value for name in named if (value := getattr(asked, name)) is not None}
        key = asked.expression, *given.items()
        if key not in self._asked:
            fields = {"expression": asked.expression, "language": "path", "window": 1, "slide": 1, **given}
            if "window" in given and "slide" not in given:
                del fields["slide"]
            query = await ignore_disconnect(
                request, self._checks.compile(fields, self.service.defaults, self.service.limits)
            )
            if len(self._asked) == MAX_ASKED:
                self._asked.clear()
            self._asked[key] = {"window": query.window if "window" in given else None} | {
                name: getattr(query, name) for name in ("order", "max_gap", "max_span")
            }
        return {**self._asked[key], "max_edges": asked.max_edges}

    def _names(self, names: Any) -> Any:
        """Return names of vertices from those in a request."""
        if isinstance(names, list):
            return [self._names(name) for name in names]
        return vertex_of(names, is_integer=self.service.has_integers) if isinstance(names, str) else names

    # --- changes ---------------------------------------------------------------------------------------------

    @operation(
        "GET /changes",
        "Follow changes as server-sent events.",
        description="Events `start` (position, time), `changes` (position, time, changes: query, op, timestamp, values, and "
        "message with `?message=`), "
        "`gap` (message, from, to: changes that are no longer available; read the answers again) and `end` (reason). To "
        "continue after an event, send its id as Last-Event-ID or `after`.",
        parameters=models.ChangesParameters,
        more_parameters=(
            {"name": "Last-Event-ID", "in": "header", "schema": {**TEXT, "pattern": f"^{models.EVENT_ID}$"}},
        ),
        gives={"text/event-stream": TEXT},
        refusals=(404, 429),
    )
    async def follow_changes(self, request: Request, options: models.ChangesParameters) -> ASGIApp:
        hub, limits = self.service.hub, self.service.limits
        selection = frozenset(options.query) or None
        text = request.headers.get("last-event-id") or options.after
        after = None if text is None else ChangePosition.of(text)
        if text is not None and after is None:
            message = f"after: {text!r} is neither a position nor the id of an event"
            raise Problem(422, "BadParameter", message, {"field": "after"})

        def read_time() -> tuple[Any, int]:
            for name in selection or ():
                self.service.find_query(name)
            return self.service.engine.time, self.service.position

        now, known_at = await self.service.call(read_time, even_if_failed=True)
        row_text = None if options.message is None else await self._row_text(options.message, options.query)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if len(hub.followers) >= limits.followers:  # until it is one of them, nothing else runs
            message = f"there are {limits.followers:,} followers, which is the limit"
            raise Problem(429, "TooManyFollowers", message, None, {"Retry-After": "5"})
        begin = event_text(
            "start", {"position": hub.position, "time": json_value(now)}, id=None if after else f"{hub.position}-{hub.run}"
        )
        follower = hub.follow(selection, after, row_text, known_at=known_at)
        return FollowedChanges(hub, follower, self._encoder, begin)

    async def _row_text(self, text: str, queries: Sequence[str]) -> RowText:
        """Return the text for rows of the one query followed.  Raises `Problem` for one that its rows cannot fill."""
        if len(queries) != 1:
            why = "message: its columns are those of one query; expected ?query= with the name of one"
            raise Problem(422, "BadParameter", why, {"field": "message"})
        if len(text) > MAX_MESSAGE:
            why = f"message: has {len(text):,} characters; expected at most {MAX_MESSAGE:,}"
            raise Problem(422, "BadParameter", why, {"field": "message"})
        columns = await self.service.call(lambda: self.service.find_query(queries[0]).columns, even_if_failed=True)
        template = MessageTemplate(text)
        try:
            template.check(("query", *columns, "timestamp", "op"))
        except ValueError as error:
            raise Problem(422, "BadParameter", f"message: {error}", {"field": "message"}) from error
        return RowText(template, tuple(columns))

    @operation(
        "POST /flush",
        "Return the next report of each query that reports at slides or times, as if the stream ended here.",
        description="The state does not change: the stream's time does not move, followers are not notified, and the report "
        "is repeated when it is due, with the changes until then. Other requests wait while the engine copies its windows.",
        parameters=models.FlushParameters,
        gives=models.Flushed,
        refusals=(404, 507),
    )
    async def flush(self, request: Request, parameters: models.FlushParameters) -> Response:
        self._check_service()

        def flush_engine() -> tuple[Changes, Any, int]:
            for name in parameters.query:
                self.service.find_query(name)
            with gc_paused():  # so that all objects of the copy that it makes are young
                changes = self.service.engine.flush()
            gc.collect(1)  # the copy is as large as the engine, and would wait for a full collection, which is rare
            return changes, self.service.engine.time, self.service.position

        changes, now, position = await self.service.call(flush_engine)
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._encoder, encode_rows, changes, frozenset(parameters.query) or None)
        shown = [Raw(row) for row in rows[: parameters.limit]]
        content = models.Flushed(changes=shown, total=len(rows), time=json_value(now), position=position)  # type: ignore[arg-type]
        return json_response(content)

    # --- the server itself -----------------------------------------------------------------------------------

    @operation("GET /statistics", "Return the figures of the server.", gives=models.Statistics)
    async def statistics(self, request: Request) -> Response:
        return json_response(await self.figures.statistics())

    @operation("GET /playback", "Return the state of the playback of input files.", gives=models.Playback, refusals=(404,))
    async def get_playback(self, request: Request) -> Response:
        return json_response(self._current_playback().model())

    @operation(
        "POST /playback",
        "Play or pause the input, or change its speed.",
        role="write",
        takes=models.ChangedPlayback,
        gives=models.Playback,
        refusals=(404,),
    )
    async def change_playback(self, request: Request) -> Response:
        playback = self._current_playback()
        try:
            playback.change(await self.bodies.json(request))
        except models.FieldsError as error:
            raise Problem(422, "BadPlayback", str(error), {"field": error.field}) from error
        return json_response(playback.model())

    def _current_playback(self) -> Playback:
        if self.playback is None:
            raise Problem(404, "NoPlayback", "the server plays no input: start it with --input FILE")
        return self.playback

    @operation(
        "POST /checkpoint",
        "Write a checkpoint, and a copy of it into the folder --backup.",
        description="A server that starts with the copy as its checkpoint continues at its position. Other requests wait "
        "for the checkpoint, but not for the copy.",
        role="backup",
        gives=models.Backup,
        status=201,
        refusals=(404, 507),
    )
    async def write_backup(self, request: Request) -> Response:
        self._check_service()
        if self._backups is None:
            raise Problem(404, "NoBackups", "the server has no folder for backups: start it with --backup DIR")
        name, size, position = await self.service.back_up(self._backups)
        return json_response(models.Backup(name=name, bytes=size, position=position), 201)

    @operation("GET /healthz", "Check that the engine's thread runs.", gives=models.Status, refusals=(503,), is_open=True)
    async def healthz(self, request: Request) -> Response:
        if not self.service.is_alive and not self.service.is_stopping:
            raise Problem(503, "ServiceFailed", self.service.failure or "the engine's thread has ended")
        return json_response(models.Status("alive"))

    @operation(
        "GET /readyz",
        "Check that the server accepts tuples and can save them.",
        gives=models.Status,
        refusals=(503,),
        is_open=True,
    )
    async def readyz(self, request: Request) -> Response:
        self._check_service()
        for outage in self.service.storage.outages:
            raise Problem(503, "StorageUnavailable", outage.reason, None, {"Retry-After": str(outage.retry_after)})
        if (seconds := self.service.busy_seconds) > BUSY_SECONDS:
            message = f"the engine has been busy for {seconds:.0f} s"
            raise Problem(503, "ServiceBusy", message, None, {"Retry-After": "5"})
        return json_response(models.Status("ready"))

    @operation("GET /metrics", "Return the metrics for Prometheus.", gives={"text/plain": TEXT})
    async def metrics(self, request: Request) -> Response:
        body, type_ = await self.figures.metrics()
        return Response(body, headers={"Content-Type": type_})

    @operation("GET /openapi.json", "Return this document.", gives={"application/json": {"type": "object"}}, is_open=True)
    async def openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    @operation("GET /", "The page.", gives={"text/html": TEXT}, is_open=True)
    async def page(self, request: Request) -> Response:
        page = self._page / "index.html"
        if not page.is_file():
            return HTMLResponse(
                "<!doctype html><title>rpq serve</title><p>This installation has no page. The requests are described in "
                '<a href="/openapi.json">/openapi.json</a>.',
                status_code=200,
            )
        return HTMLResponse(page.read_text(encoding="utf-8"), headers={"Cache-Control": "no-cache"})


def _content_type_among(request: Request, types: Collection[str], what: str) -> str:
    """Return the content type of a request; raises `Problem` for one that is not among `types`."""
    type_ = content_type(request)
    if type_ not in types:
        expected = ", ".join(types)
        raise Problem(415, "TypeRefused", f"{what} are not read from {type_ or 'no content type'}; expected {expected}")
    return type_


def _with_nulls(answer: list[Any]) -> Iterator[list[Any]]:
    """Yield an answer with and without nulls in place of its empty values, since an address writes both alike.

    >>> [*_with_nulls(["a", "", ""])]
    [['a', '', ''], ['a', None, None], ['a', '', None], ['a', None, '']]
    """
    places = [place for place, value in enumerate(answer) if value == ""]
    yield answer
    if places:
        yield [None if value == "" else value for value in answer]
    for number in range(1, min(2 ** len(places) - 1, MAX_NULLS)):
        nulls = {place for bit, place in enumerate(reversed(places)) if number >> bit & 1}
        yield [None if place in nulls else value for place, value in enumerate(answer)]


async def ignore_disconnect(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`; if the client disconnects, cancel it and raise `ClientDisconnect`."""
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(wait_for_disconnect(request.receive))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for one in (task, disconnect):
            one.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _http_problem(request: Request, error: Exception) -> Response:
    """Return the response to a request that no route accepts."""
    status, path = getattr(error, "status_code", 500), unquote(request.scope["path"])
    kinds = {404: ("NoSuchPath", f"there is nothing at {path}"), 405: ("MethodRefused", "not with this method")}
    type_, message = kinds.get(status, ("HttpError", getattr(error, "detail", "")))
    if path.startswith("/queries/") and status == 404:
        message += "; expected /queries/NAME, or answers, witness or explain behind it, with each / of the name as %2F"
    return problem_response(Problem(status, type_, f"{request.method}: {message}", None, getattr(error, "headers", None)))


MAX_KNOWN_KINDS = 10_000


class KernelCompiler:
    """A compiler of the kernels that queries need, for one query at a time."""

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._known: set[Hashable] = set()

    def compile(self, query: Query, *, integers: bool = False, witness: bool = False) -> None:
        """Compile the missing kernels of a query: seconds or more for new kinds of queries, no time for known ones."""
        kind = (kernels_of(query), integers, witness, query.expression if isinstance(query, SparqlQuery) else None)
        if kind in self._known:
            return
        with self._lock:
            if kind in self._known:
                return
            vertices = "int64" if integers else "string"
            warm_up(query, vertices=vertices, threads=self._threads, witness=witness)
            if len(self._known) < MAX_KNOWN_KINDS:
                self._known.add(kind)
